"""What the log says of Nodes with GPUs that the cloud does not use: why, once."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from relay_kube.kube import ApiAccess, Kube
from relay_localcloud.runtimes.kubernetes.nodes import Gpu, of_node
from relay_localcloud.runtimes.kubernetes.observed import Node
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.regions import Regions
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.unused import Meant, Unused, reasons
from tests.localcloud.runtimes.kubernetes.rows import rows
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
OURS = {"pool": "ours"}
TABLE = [Gpu("h100", {**OURS, PRODUCT: "H100"})]
H100 = {**OURS, PRODUCT: "H100"}
T4 = {**OURS, PRODUCT: "Tesla-T4"}
NOT_SOLD = f"Its label {PRODUCT} is 'Tesla-T4', which no entry of gpuModels has."
NO_GPUS = f"It has the labels of h100, but its device plugin offers no {GPU}, or Pods of others have all."


def node(labels: Mapping[str, str], **gpus: int) -> Json:
    """A Node that is ready, as the API server has it."""
    allocatable = {GPU if name == "gpus" else SLICE: str(many) for name, many in gpus.items()}
    metadata = {"name": "gpu-1", "uid": "1", "resourceVersion": "1", "creationTimestamp": "2026-11-24T10:00:00Z"}
    status = {"allocatable": {"cpu": "8", "memory": "1Gi", **allocatable}}
    return {
        "metadata": {**metadata, "labels": dict(labels)},
        "status": {**status, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def told(raw: Json, *known: str) -> dict[str, str]:
    """The reasons about a Node."""
    one = Node.model_validate(raw)
    fact = of_node(one, [], TABLE, "mine", "h100" if known else None)
    return dict(reasons([one], [fact], known, Meant(OURS, {SLICE})))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (node(T4, gpus=4), NOT_SOLD),
        (node(T4, slices=7), NOT_SOLD),
        (node(OURS, gpus=4), "Its labels match no entry of gpuModels."),
        (node(H100), NO_GPUS),
    ],
)
def test_a_node_that_is_meant_for_the_cloud_and_not_used_has_a_reason(raw: Json, words: str) -> None:
    assert told(raw) == {"gpu-1": words}


@pytest.mark.parametrize(
    "raw",
    [
        node(H100, gpus=8),
        node({PRODUCT: "Tesla-T4"}, gpus=4),  # not of the selector
        node(T4),
        node(T4, gpus=0),
    ],
)
def test_a_node_that_is_used_or_was_never_meant_has_none(raw: Json) -> None:
    assert told(raw) == {}


def test_a_node_that_the_cloud_has_used_may_be_full_of_others() -> None:
    assert told(node(H100), "gpu-1") == {}


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "relay_localcloud.runtimes.kubernetes.unused")
    return caplog


def test_a_reason_is_said_once_until_it_returns(said: pytest.LogCaptureFixture) -> None:
    unused = Unused(Meant(OURS, {SLICE}))

    def look(raw: Json) -> None:
        one = Node.model_validate(raw)
        unused.say([one], [of_node(one, [], TABLE, "mine")], ())

    for _ in range(2):
        look(node(T4, gpus=4))
    look(node(H100, gpus=4))
    look(node(T4, gpus=4))
    assert said.messages == [f"The cloud does not use the Node gpu-1. {NOT_SOLD}"] * 2


async def test_the_cloud_says_it_when_it_looks_at_nodes(said: pytest.LogCaptureFixture) -> None:
    room = rows()

    async def gateway() -> Gateway:
        return Gateway()

    async with aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(f"http://127.0.0.1:{free_port()}", session))
        offer = replace(room.offer, terms=replace(room.offer.terms, node_selector=OURS))
        reconciler = Reconciler(room.store, kube, offer, gateway, TABLE, Regions(room.store, {}), is_region=False)
        raw = node(T4, gpus=4)
        reconciler._nodes.wrote({**raw, "metadata": {**raw["metadata"], "name": "gpu-2"}})
        reconciler._look_at_nodes()
    room.store.close()
    assert said.messages == [f"The cloud does not use the Node gpu-2. {NOT_SOLD}"]

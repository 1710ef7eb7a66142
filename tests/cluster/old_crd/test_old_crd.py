"""A cluster whose CRDs are older than the operator: what has to be recorded would be dropped, so nothing is created."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.cluster.batch_side import batch, complete, put_prompts, record
from tests.cluster.cloud_log import BY_ITSELF, changes
from tests.cluster.conftest import BRISK
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import StartOperator
    from tests.support.kube import Kube, Manifest
    from tests.support.workspace import Workspace

CRD = "CustomResourceDefinition"


def _crd(plural: str) -> str:
    return f"{plural}.gpurelay.dev"


async def _lacks(kube: Kube, plural: str, *fields: str) -> None:
    """The CRD as a release had it that did not record these fields of status."""
    name = _crd(plural)
    old = await kube.get(CRD, name)
    status = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for each in fields:
        del status[each]
    await kube.patch(CRD, name, {"spec": {"versions": old["spec"]["versions"]}})

    async def served() -> bool:
        document = await kube.call("GET", "/openapi/v3/apis/gpurelay.dev/v1alpha1")
        schemas = document["components"]["schemas"].values()
        (shown,) = [each for each in schemas if old["spec"]["names"]["kind"] in _kinds(each)]
        return not set(fields) & shown["properties"]["status"]["properties"].keys()

    await eventually(served, what="the API server shows the older CRD")


def _kinds(schema: Manifest) -> list[str]:
    return [told["kind"] for told in schema.get("x-kubernetes-group-version-kind", ())]


@pytest_asyncio.fixture
async def own_crds(unattended_workspace: Workspace) -> AsyncIterator[Workspace]:
    """A workspace whose test may change CRDs: they are as they were when it ends."""
    workspace = unattended_workspace
    names = [_crd(plural) for plural in ("gpupods", "inferencebatches", "cloudaccounts")]
    before = [copy.deepcopy(await workspace.kube.get(CRD, name)) for name in names]
    yield workspace
    for crd in before:
        await workspace.kube.patch(CRD, crd["metadata"]["name"], {"spec": {"versions": crd["spec"]["versions"]}})


def _outdated(item: Manifest | None) -> bool:
    return stalled(item) == "CrdOutdated"


@pytest.mark.parametrize(
    ("manifest", "plural", "done"),
    [
        (gpu_pod("one"), "gpupods", ready),
        (batch("one"), "inferencebatches", complete),
        (gpu_pod("one"), "cloudaccounts", ready),
    ],
    ids=["pod", "batch", "the account's"],
)
async def test_nothing_is_created_until_the_crd_is_brought_up_to_date_by_the_command_of_the_message(
    own_crds: Workspace, start_operator: StartOperator, manifest: Manifest, plural: str, done: object
) -> None:
    workspace, kind = own_crds, manifest["kind"]
    lost = "unclaimed" if plural == "cloudaccounts" else "identity"
    await _lacks(workspace.kube, plural, lost)
    await start_operator(workspace, **BRISK, allowed_private_networks="127.0.0.0/8")
    await put_prompts(workspace, [record("r0")])
    await workspace.apply(manifest)
    told = await workspace.becomes(kind, "one", _outdated)
    message = condition(told, "Stalled")["message"]
    assert message.startswith(f"the CRD {_crd(plural)} of this cluster is older than this release: ")
    assert f"status.{lost}" in message
    assert "finalizers" not in told["metadata"]
    assert await changes(workspace) == []
    await workspace.obey(message)
    after = await workspace.becomes(kind, "one", done)  # type: ignore[arg-type]
    assert after["status"]["identity"]["uid"] == after["metadata"]["uid"]


async def test_a_crd_that_becomes_older_is_noticed_by_the_first_write_that_it_drops(
    own_crds: Workspace, start_operator: StartOperator
) -> None:
    workspace = own_crds
    operator = await start_operator(workspace, **BRISK)
    await workspace.apply(gpu_pod("one"))
    await workspace.becomes("GpuPod", "one")
    await _lacks(workspace.kube, "gpupods", "identity")
    await workspace.apply(gpu_pod("two"))

    async def told() -> list[str]:
        return [line["message"] for line in operator.log_lines() if "older than this release" in line["message"]]

    await eventually(told, bool, what="the operator notices it")
    await workspace.apply(gpu_pod("three"))
    await workspace.becomes("GpuPod", "three", _outdated)


async def test_what_exists_is_looked_after_ended_and_not_made_anew(
    own_crds: Workspace, start_operator: StartOperator
) -> None:
    workspace = own_crds
    operator = await start_operator(workspace, **BRISK)
    strategy = {"type": "Recreate"}
    for name in ("one", "two"):
        await workspace.apply(gpu_pod(name, updateStrategy=strategy))
        await workspace.becomes("GpuPod", name)
    await operator.stop()
    await _lacks(workspace.kube, "gpupods", "recoveries")
    await operator.start()
    await workspace.apply(gpu_pod("one", updateStrategy=strategy, image="pytorch/pytorch:2.8.0"))
    held = await workspace.becomes("GpuPod", "one", _outdated)
    assert (await workspace.organization.vm(held["status"]["id"]))["status"] == "running"
    await workspace.kube.delete("GpuPod", "two")
    await workspace.is_gone("GpuPod", "two")
    create, *_, terminate = BY_ITSELF["GpuPod"]
    assert await changes(workspace) == [create, create, terminate]
    await workspace.obey(condition(held, "Stalled")["message"])

    def made_anew(item: Manifest | None) -> bool:
        return ready(item) and (item or {})["status"]["id"] != held["status"]["id"]

    await workspace.becomes("GpuPod", "one", made_anew)

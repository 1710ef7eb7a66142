"""A cloud outside of the cluster whose containers it rents out: what it does while a node falls silent."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from tests.node.cloud.customer import Customer
from tests.node.cloud.house import RUNTIME, offer_gpus
from tests.node.gpus import NEEDS_GPUS
from tests.support.localcloud import LocalCloud, Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.node.release import Release

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outside(release: Release, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    """A process of this machine."""
    await offer_gpus(release.kube)
    folder = tmp_path_factory.mktemp("outside")
    document = folder / "runtime.yaml"
    document.write_text(yaml.safe_dump(RUNTIME))
    cluster = f"here={release.cluster.kubeconfig}"
    more = ["--runtime", "kubernetes", "--runtime-config", str(document), "--cluster", cluster]
    cloud = LocalCloud(folder, Ports.free(), more=more)
    await cloud.start()
    await cloud.control.settings(interruptionGraceSeconds=1)
    yield cloud
    await cloud.process.stop()


def kubelet_of(node: str) -> int:
    """The machine's number of the kubelet; raises AssertionError."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"node", b"kubelet"] and f"--hostname-override={node}".encode() in words:
            return int(folder.name)
    raise AssertionError(f"the node {node} has no kubelet")


async def test_a_pod_is_interrupted_while_its_node_is_silent_and_runs_on_afterwards(
    release: Release, outside: LocalCloud
) -> None:
    customer = Customer(release.kube, outside.seeded_organization(), outside.ports.gateway)
    await customer.is_offered()
    pod_id = await customer.post()
    record = await customer.becomes(pod_id, "running")
    await customer.answers(record, "/")
    (before,) = await customer.objects("Pod", pod_id)
    kubelet = kubelet_of(before["spec"]["nodeName"])
    os.kill(kubelet, signal.SIGSTOP)
    try:
        await customer.becomes(pod_id, "interrupted", within=150)
    finally:
        os.kill(kubelet, signal.SIGCONT)
    await customer.becomes(pod_id, "running", within=120)
    await customer.answers(record, "/")
    (after,) = await customer.objects("Pod", pod_id)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")
    for kind in ("Pod", "Secret", "PersistentVolumeClaim"):
        await customer.holds_none(kind, pod_id)

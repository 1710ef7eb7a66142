"""What create to Ready costs the API server, counted by the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.conftest import OPERATOR_NAMESPACE
from tests.support import chart
from tests.support.eventually import eventually
from tests.support.forked import OPERATOR
from tests.support.kube import Kube
from tests.support.manifests import condition, gpu_cluster, gpu_pod
from tests.support.operator import Operator
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.controlplane import ControlPlane
    from tests.support.kube import Manifest
    from tests.support.localcloud import LocalCloud

_OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:relay-operator"
_THREE_WRITES = [("patch", ""), ("patch", "status"), ("patch", "status")]


def _subscribed(account: Manifest | None) -> bool:
    return condition(account, "WebhookReady").get("status") == "True"


@pytest_asyncio.fixture
async def alone(private_controlplane: ControlPlane, cloud: LocalCloud, tmp_path: Path) -> AsyncIterator[Workspace]:
    """A workspace on an API server whose audit log can be read; its operator never polls."""
    async with Kube(private_controlplane.kubeconfig) as kube:
        await chart.install_crds(kube)
        kubeconfig = await chart.grant_access(private_controlplane, OPERATOR_NAMESPACE)
        never = {"poll_transition_seconds": "86400", "poll_settled_seconds": "86400"}
        urls = cloud.ports.urls()
        operator = Operator(tmp_path / "operator", kubeconfig, OPERATOR_NAMESPACE, urls, never, program=OPERATOR)
        await operator.start()
        workspace = await Workspace.create(kube, cloud, "audited")
        await workspace.becomes("CloudAccount", "default", _subscribed)
        yield workspace
        await workspace.remove()
        await operator.stop()


async def test_webhooks_alone_lead_to_ready_and_three_writes_are_all_that_it_takes(
    alone: Workspace, private_controlplane: ControlPlane
) -> None:
    start = private_controlplane.audit.position()
    await alone.apply(gpu_pod())
    await alone.apply(gpu_cluster())
    await alone.becomes("GpuPod", "trainer")
    await alone.becomes("GpuCluster", "llm")
    for plural in ("gpupods", "gpuclusters"):

        async def written(plural: str = plural) -> list[tuple[str, str]]:
            found = private_controlplane.writes_by(_OPERATOR_USER, after=start)
            return [(one.verb, one.subresource) for one in found if one.resource == plural]

        assert await eventually(written, lambda writes: len(writes) >= 3) == _THREE_WRITES

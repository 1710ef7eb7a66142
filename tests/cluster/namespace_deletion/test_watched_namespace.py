"""A namespace among `watchNamespaces` is deleted: the operator's Role there goes first, and nothing is left behind."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.support import chart
from tests.support.eventually import eventually
from tests.support.forked import OPERATOR
from tests.support.manifests import SECRET, gpu_cluster, gpu_pod
from tests.support.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.controlplane import Cluster
    from tests.support.workspace import Workspace

pytestmark = pytest.mark.usefixtures("operator_kubeconfig")


@pytest_asyncio.fixture
async def confined(cluster: Cluster, unattended_workspace: Workspace, tmp_path: Path) -> AsyncIterator[Operator]:
    """An operator with the rights of `watchNamespaces`, not yet started."""
    namespace, watched = f"relay-{secrets.token_hex(4)}", unattended_workspace.namespace
    kubeconfig = await chart.grant_access(cluster, namespace, f"watchNamespaces[0]={watched}")
    urls = unattended_workspace.cloud.ports.urls()
    settings = {"watch_namespaces": watched}
    operator = Operator(tmp_path / "operator", kubeconfig, namespace, urls, settings, program=OPERATOR)
    yield operator
    await operator.kill()


async def _live(workspace: Workspace) -> list[str]:
    """Ids of a pod and a cluster that run."""
    await workspace.apply(gpu_pod())
    await workspace.apply(gpu_cluster(replicas=1))
    kinds = (("GpuPod", "trainer"), ("GpuCluster", "llm"))
    return [(await workspace.becomes(kind, name))["status"]["id"] for kind, name in kinds]


async def _role_is_gone(workspace: Workspace) -> bool:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{workspace.namespace}/rolebindings"
    return not (await workspace.kube.call("GET", path))["items"]


async def _everything_ended(workspace: Workspace, pod: str, cluster: str) -> None:
    look = workspace.kube.looking_at("Namespace", workspace.namespace)
    await eventually(look, lambda found: found is None, what="the namespace is gone")
    organization = workspace.organization
    assert (await organization.vm(pod))["status"] == "terminated"
    assert (await organization.cluster(cluster))["status"] == "terminated"
    assert (await organization.call("GET", f"/v1/orgs/{organization.id}/webhooks"))["items"] == []


async def test_live_workloads_end_and_the_namespace_goes(confined: Operator, unattended_workspace: Workspace) -> None:
    workspace = unattended_workspace
    await confined.start()
    pod, cluster = await _live(workspace)
    await workspace.kube.delete("Namespace", workspace.namespace)
    await _everything_ended(workspace, pod, cluster)


async def test_an_operator_that_starts_after_its_role_went_ends_them(
    confined: Operator, unattended_workspace: Workspace
) -> None:
    workspace = unattended_workspace
    await confined.start()
    pod, cluster = await _live(workspace)
    await confined.kill()
    await workspace.kube.delete("Namespace", workspace.namespace)
    await eventually(lambda: _role_is_gone(workspace), what="the Role is gone")
    await confined.start()
    await _everything_ended(workspace, pod, cluster)


async def test_a_key_in_a_secret_of_another_name_serves_to_the_end(
    confined: Operator, unattended_workspace: Workspace
) -> None:
    workspace = unattended_workspace
    kube, key = workspace.kube, {"apiKeySecretRef": {"name": "another", "key": "api-key"}}
    secret = await kube.get("Secret", SECRET)
    assert secret is not None
    await kube.create({**secret, "metadata": {"name": "another"}})
    await kube.patch("CloudAccount", "default", {"spec": key})
    await confined.start()
    pod, cluster = await _live(workspace)
    await kube.delete("Namespace", workspace.namespace)
    await _everything_ended(workspace, pod, cluster)

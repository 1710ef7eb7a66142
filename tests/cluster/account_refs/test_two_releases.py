"""Two releases that share a cluster, each with namespaces of its own, leave each other's accounts alone."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.cloud_log import left
from tests.conftest import OPERATOR_NAMESPACE
from tests.support import chart
from tests.support.eventually import eventually
from tests.support.forked import OPERATOR
from tests.support.manifests import SECRET_KEY, api_key_secret, condition, gpu_pod, ready, relay_object, stalls
from tests.support.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import StartOperator
    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube, Manifest
    from tests.support.workspace import Workspace

ELSEWHERE = f"release-{secrets.token_hex(3)}"
"""The namespace that the other release is in, and that it watches."""


@pytest_asyncio.fixture
async def other(cluster: Cluster, unattended_workspace: Workspace, tmp_path: Path) -> AsyncIterator[Operator]:
    """The other release, not yet started."""
    kubeconfig = await chart.grant_access(cluster, ELSEWHERE, f"watchNamespaces[0]={ELSEWHERE}")
    settings = {"watch_namespaces": ELSEWHERE, "leader_election": "false"}
    urls = unattended_workspace.cloud.ports.urls()
    operator = Operator(tmp_path / "other", kubeconfig, ELSEWHERE, urls, settings, program=OPERATOR)
    yield operator
    await operator.kill()


async def test_another_release_neither_tells_of_a_shared_account_nor_lets_it_go(
    unattended_workspace: Workspace, start_operator: StartOperator, other: Operator
) -> None:
    workspace, kube = unattended_workspace, unattended_workspace.kube
    name = f"shared-{secrets.token_hex(3)}"
    reference = {"kind": "ClusterCloudAccount", "name": name}
    for manifest in (_secret(workspace, name), _account(workspace, name), gpu_pod(accountRef=reference)):
        await kube.apply(manifest)
    await start_operator(workspace)
    await workspace.becomes("GpuPod", "trainer")
    await other.start()
    await _refused(kube, "before", reference)
    await kube.delete("ClusterCloudAccount", name)
    told = await workspace.becomes("ClusterCloudAccount", name, stalls("InUse"))
    await _refused(kube, "after", reference)
    kept = await workspace.becomes("ClusterCloudAccount", name, stalls("InUse"))
    assert ready(kept)
    assert condition(kept, "Ready")["lastTransitionTime"] == condition(told, "Ready")["lastTransitionTime"]
    await kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    await workspace.is_gone("ClusterCloudAccount", name)
    assert await left(workspace) == []
    await kube.delete("Secret", name, OPERATOR_NAMESPACE)


async def test_a_shared_account_is_passed_on_with_its_secret_and_the_former_release_tells_all_who_use_it(
    unattended_workspace: Workspace, start_operator: StartOperator, other: Operator
) -> None:
    workspace, kube = unattended_workspace, unattended_workspace.kube
    name = f"shared-{secrets.token_hex(3)}"
    reference = {"kind": "ClusterCloudAccount", "name": name}
    secrets_of_both = [_secret(workspace, name, namespace) for namespace in (OPERATOR_NAMESPACE, ELSEWHERE)]
    for manifest in (*secrets_of_both, _account(workspace, name), gpu_pod(accountRef=reference)):
        await kube.apply(manifest)
    await start_operator(workspace)
    await workspace.becomes("GpuPod", "trainer")
    await kube.apply(_account(workspace, name, ELSEWHERE))
    told = await workspace.becomes("ClusterCloudAccount", name, stalls("AccountNotAllowed"))
    assert condition(told, "Ready")["message"].endswith(f"it is left to the release in {ELSEWHERE}")
    await workspace.becomes("GpuPod", "trainer", stalls("AccountNotAllowed"))
    await other.start()
    await workspace.becomes("ClusterCloudAccount", name)
    await kube.apply(_account(workspace, name))
    await workspace.becomes("GpuPod", "trainer")
    await workspace.becomes("ClusterCloudAccount", name)
    await kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    await kube.delete("ClusterCloudAccount", name)
    await workspace.is_gone("ClusterCloudAccount", name)
    assert await left(workspace) == []
    for namespace in (OPERATOR_NAMESPACE, ELSEWHERE):
        await kube.delete("Secret", name, namespace)


def _secret(workspace: Workspace, name: str, namespace: str = OPERATOR_NAMESPACE) -> Manifest:
    secret = api_key_secret(workspace.organization.api_key, name)
    secret["metadata"]["namespace"] = namespace
    return secret


def _account(workspace: Workspace, name: str, namespace: str = OPERATOR_NAMESPACE) -> Manifest:
    """A shared account of the release in this namespace."""
    return relay_object(
        "ClusterCloudAccount",
        name,
        baseUrl=workspace.cloud.management_url,
        inferenceUrl=workspace.cloud.inference_url,
        apiKeySecretRef={"name": name, "key": SECRET_KEY, "namespace": namespace},
        allowedNamespaces={},
    )


async def _refused(kube: Kube, name: str, reference: dict[str, str]) -> None:
    """A pod of the other release names the account, is told that it may not, and is deleted again."""
    pod = gpu_pod(name, accountRef=reference)
    pod["metadata"]["namespace"] = ELSEWHERE
    await kube.apply(pod)
    look = kube.looking_at("GpuPod", name, ELSEWHERE)
    await eventually(look, stalls("AccountNotAllowed"))
    await kube.delete("GpuPod", name, ELSEWHERE)
    await eventually(look, lambda item: item is None)

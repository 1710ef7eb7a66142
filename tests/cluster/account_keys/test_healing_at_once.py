"""What an account's trouble held back goes on when the account is well, not when the next long wait is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_side import new_key, revoke
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.manifests import SECRET, SECRET_KEY, api_key_secret, cloud_account, gpu_pod, relay_object, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _unauthorized(item: Manifest | None) -> bool:
    return stalled(item) == "AccountUnauthorized"


async def test_a_create_refused_for_a_revoked_key_is_sent_again_once_there_is_another(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    await revoke(workspace.organization, workspace.organization.api_key)
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer", _unauthorized)
    await workspace.kube.apply(api_key_secret(await new_key(workspace.organization)))
    await workspace.becomes("GpuPod", "trainer")


async def test_a_pod_wakes_when_its_account_comes(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(accountRef={"kind": "CloudAccount", "name": "later"}))
    await workspace.becomes("GpuPod", "trainer", lambda item: (item or {}).get("status", {}).get("conditions"))
    cloud = workspace.cloud
    await workspace.apply(cloud_account(cloud.management_url, cloud.inference_url, "later"))
    await workspace.becomes("GpuPod", "trainer")


async def test_a_pod_wakes_when_its_account_names_a_url_that_is_allowed(workspace: Workspace) -> None:
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"baseUrl": "http://cloud.example.com"}})
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountNotAllowed")
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"baseUrl": workspace.cloud.management_url}})
    await workspace.becomes("GpuPod", "trainer")


@pytest.mark.parametrize(
    ("spec", "everything"),
    [
        ({"allowedNamespaces": {"matchLabels": {"team": "ml"}}}, {"allowedNamespaces": {"matchLabels": None}}),
        ({"allowedNamespaces": {}, "allowedKinds": ["SshKey"]}, {"allowedKinds": None}),
    ],
    ids=["namespace", "kind"],
)
async def test_a_pod_wakes_when_its_shared_account_admits_it(
    workspace: Workspace, spec: Manifest, everything: Manifest
) -> None:
    kube, name = workspace.kube, workspace.namespace
    secret = api_key_secret(workspace.organization.api_key, name)
    await kube.apply({**secret, "metadata": {"name": name, "namespace": OPERATOR_NAMESPACE}})
    await kube.apply(
        relay_object(
            "ClusterCloudAccount",
            name,
            baseUrl=workspace.cloud.management_url,
            apiKeySecretRef={"name": name, "key": SECRET_KEY, "namespace": OPERATOR_NAMESPACE},
            **spec,
        )
    )
    await workspace.apply(gpu_pod(accountRef={"kind": "ClusterCloudAccount", "name": name}))
    await workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountNotAllowed")
    await kube.patch("ClusterCloudAccount", name, {"spec": everything})
    await workspace.becomes("GpuPod", "trainer")
    await kube.delete("GpuPod", "trainer")
    await kube.delete("ClusterCloudAccount", name)
    await workspace.is_gone("ClusterCloudAccount", name)
    await kube.delete("Secret", name, OPERATOR_NAMESPACE)


async def test_a_create_refused_for_a_scope_is_sent_again_once_the_account_has_another_key(
    workspace: Workspace,
) -> None:
    await workspace.becomes("CloudAccount", "default")
    await workspace.kube.apply(api_key_secret(await new_key(workspace.organization, ["vms:read"]), "limited"))
    limited, good = ({"spec": {"apiKeySecretRef": {"name": name}}} for name in ("limited", SECRET))
    await workspace.kube.patch("CloudAccount", "default", limited)
    await workspace.becomes(
        "CloudAccount", "default", lambda item: (item or {})["status"].get("scopes") == ["vms:read"]
    )
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountForbidden")
    await workspace.kube.patch("CloudAccount", "default", good)
    await workspace.becomes("GpuPod", "trainer")

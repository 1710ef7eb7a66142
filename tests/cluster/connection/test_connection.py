"""`spec.connection`: the endpoint and its token, where others in the namespace can read them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _texts(secret: Manifest) -> dict[str, str]:
    return {key: b64decode(value).decode() for key, value in secret["data"].items()}


def _owners(written: Manifest) -> list[tuple[str, str]]:
    return [(one["kind"], one["uid"]) for one in written["metadata"]["ownerReferences"]]


async def test_a_cluster_tells_endpoint_and_token_in_a_secret_and_no_token_in_a_config_map(
    workspace: Workspace,
) -> None:
    connection = {"secret": {"name": "llm-access"}, "configMap": {"name": "llm-endpoint"}}
    await workspace.apply(gpu_cluster(connection=connection))
    cluster = await workspace.becomes("GpuCluster", "llm")
    detail = await workspace.organization.cluster(cluster["status"]["id"])
    public = {
        "endpointUrl": detail["endpointUrl"],
        "host": urlsplit(detail["endpointUrl"]).netloc,
        "id": detail["id"],
    }
    secret = await workspace.kube.get("Secret", "llm-access")
    config_map = await workspace.kube.get("ConfigMap", "llm-endpoint")
    assert _texts(secret) == public | {"deployToken": detail["deployToken"]}
    assert config_map["data"] == public
    owner = [("GpuCluster", cluster["metadata"]["uid"])]
    assert _owners(secret) == _owners(config_map) == owner
    assert detail["deployToken"] not in str(cluster)


async def test_what_was_written_goes_with_the_object(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(connection={"secret": {"name": "trainer-access"}}))
    await workspace.becomes("GpuPod", "trainer")
    assert await workspace.kube.find("Secret", "trainer-access")
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    # Kubernetes' own collector looks for kinds that it does not know yet every half minute.
    await workspace.is_gone("Secret", "trainer-access")


async def test_keys_and_labels_are_as_the_templates_say(workspace: Workspace) -> None:
    target = {
        "name": "openai",
        "keys": {"OPENAI_BASE_URL": "{{endpointUrl}}v1", "OPENAI_API_KEY": "{{deployToken}}"},
        "labels": {"app": "chat"},
    }
    await workspace.apply(gpu_cluster(connection={"secret": target}))
    cluster = await workspace.becomes("GpuCluster", "llm")
    detail = await workspace.organization.cluster(cluster["status"]["id"])
    secret = await workspace.kube.get("Secret", "openai")
    assert _texts(secret) == {
        "OPENAI_BASE_URL": f"{detail['endpointUrl']}v1",
        "OPENAI_API_KEY": detail["deployToken"],
    }
    assert secret["metadata"]["labels"] == {"app": "chat"}


async def test_what_belongs_to_somebody_else_is_not_overwritten_and_the_object_says_so(workspace: Workspace) -> None:
    kept = {"password": b64encode(b"theirs").decode()}
    metadata = {"name": "database"}
    await workspace.kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": kept})
    await workspace.apply(gpu_pod(connection={"secret": {"name": "database"}}))

    def runs_and_says_so(pod: Manifest | None) -> bool:
        return stalled(pod) == "ConnectionRefused" and (pod or {})["status"]["state"] == "running"

    refused = await workspace.becomes("GpuPod", "trainer", runs_and_says_so)
    assert "database" in condition(refused, "Stalled")["message"]
    secret = await workspace.kube.get("Secret", "database")
    assert (secret["data"], secret["metadata"].get("ownerReferences")) == (kept, None)
    await workspace.apply(gpu_pod(connection={"secret": {"name": "trainer-access"}}))
    await workspace.becomes("GpuPod", "trainer")
    assert await workspace.kube.find("Secret", "trainer-access")


async def test_after_a_recreation_it_tells_the_new_endpoint(workspace: Workspace) -> None:
    manifest = gpu_pod(connection={"configMap": {"name": "endpoint"}}, updateStrategy={"type": "Recreate"})
    await workspace.apply(manifest)
    before = await workspace.becomes("GpuPod", "trainer")
    await workspace.apply(manifest | {"spec": manifest["spec"] | {"volumeGb": 100}})
    after = await workspace.becomes("GpuPod", "trainer")
    assert after["status"]["id"] != before["status"]["id"]

    async def told() -> str:
        config_map = await workspace.kube.get("ConfigMap", "endpoint")
        url: str = config_map["data"]["endpointUrl"]
        return url

    await eventually(told, lambda url: url == after["status"]["endpointUrl"], what="the new endpoint is told")


@pytest.mark.parametrize("label", ["app.kubernetes.io/managed-by", "gpurelay.dev/cluster"])
async def test_labels_of_the_operators_own_are_refused(workspace: Workspace, label: str) -> None:
    secret = {"name": "default-webhook", "labels": {label: "relay-operator"}}
    with pytest.raises(KubeError, match="are the operator's"):
        await workspace.apply(gpu_pod(connection={"secret": secret}))

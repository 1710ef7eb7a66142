"""Environment variables that come from Secrets and ConfigMaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, changes, count
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

CANARY = "canary-4711"
TOKEN = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}


def _secret(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def _config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _waiting(item: Manifest | None) -> bool:
    return condition(item, "Ready").get("reason") == "EnvMissing"


async def _look(workspace: Workspace, why: str) -> None:
    """What a person does who does not want to wait for the next poll."""
    await workspace.kube.annotate("GpuCluster", "llm", {"gpurelay.dev/reconcile-at": why})


async def test_values_are_read_when_it_is_created_and_later_sources_and_env_win(workspace: Workspace) -> None:
    await workspace.apply(_secret("hf", token=CANARY))
    await workspace.apply(_config_map("base", MODE="slow", LEVEL="1", token="from the map"))
    await workspace.apply(_config_map("more", LEVEL="2"))
    sources = [{"configMapRef": {"name": "base"}}, {"configMapRef": {"name": "more"}}, {"secretRef": {"name": "hf"}}]
    env = [TOKEN, {"name": "MODE", "value": "fast"}]
    await workspace.apply(gpu_cluster(env=env, envFrom=sources))
    cluster = await workspace.becomes("GpuCluster", "llm")
    detail = await workspace.organization.cluster(cluster["status"]["id"])
    assert detail["envVars"] == {"TOKEN": CANARY, "token": CANARY, "MODE": "fast", "LEVEL": "2"}
    assert CANARY not in str(cluster)


async def test_nothing_is_made_while_a_secret_is_missing_and_it_goes_on_when_it_appears(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster(env=[TOKEN]))
    waiting = await workspace.becomes("GpuCluster", "llm", _waiting)
    assert condition(waiting, "Ready")["message"] == f"env TOKEN: Secret hf in {workspace.namespace} does not exist"
    assert condition(waiting, "Reconciling")["status"] == "True"
    await workspace.apply(_secret("hf", other="x"))
    await _look(workspace, "the Secret is there")

    def lacks_the_key(item: Manifest | None) -> bool:
        return _waiting(item) and "token" in condition(item, "Ready")["message"]

    await workspace.becomes("GpuCluster", "llm", lacks_the_key)
    assert await changes(workspace) == []
    await workspace.apply(_secret("hf", token=CANARY))
    cluster = await workspace.becomes("GpuCluster", "llm")
    assert (await workspace.organization.cluster(cluster["status"]["id"]))["envVars"] == {"TOKEN": CANARY}
    assert await changes(workspace) == [CREATE_CLUSTER]


async def test_an_optional_source_may_be_missing(workspace: Workspace) -> None:
    optional = {"name": "TOKEN", "valueFrom": {**TOKEN["valueFrom"], "optional": True}}  # type: ignore[dict-item]
    await workspace.apply(gpu_cluster(env=[optional], envFrom=[{"secretRef": {"name": "none"}, "optional": True}]))
    cluster = await workspace.becomes("GpuCluster", "llm")
    assert "envVars" not in await workspace.organization.cluster(cluster["status"]["id"])


async def test_a_changed_secret_is_told_and_nothing_is_touched(workspace: Workspace) -> None:
    await workspace.apply(_secret("hf", token="first"))
    await workspace.apply(gpu_cluster(env=[TOKEN]))
    await workspace.becomes("GpuCluster", "llm")
    await workspace.apply(_secret("hf", token="second"))
    await _look(workspace, "the Secret changed")
    outdated = await workspace.becomes("GpuCluster", "llm", lambda item: condition(item, "EnvOutdated"))
    assert condition(outdated, "EnvOutdated")["status"] == "True"
    assert "Recreate" in condition(outdated, "EnvOutdated")["message"]
    assert ready(outdated)
    await workspace.apply(_secret("hf", token="first"))
    await _look(workspace, "the Secret was put back")
    await workspace.becomes("GpuCluster", "llm", lambda item: ready(item) and not condition(item, "EnvOutdated"))
    assert await changes(workspace) == [CREATE_CLUSTER]


async def test_recreate_applies_a_changed_secret(workspace: Workspace) -> None:
    await workspace.apply(_secret("hf", token="first"))
    await workspace.apply(gpu_cluster(env=[TOKEN], updateStrategy={"type": "Recreate"}))
    before = (await workspace.becomes("GpuCluster", "llm"))["status"]["id"]
    await workspace.apply(_secret("hf", token="second"))
    await _look(workspace, "the Secret changed")

    def made_anew(item: Manifest | None) -> bool:
        return ready(item) and (item or {})["status"]["id"] != before

    after = (await workspace.becomes("GpuCluster", "llm", made_anew))["status"]["id"]
    assert (await workspace.organization.cluster(after))["envVars"] == {"TOKEN": "second"}
    assert await count(workspace, CREATE_CLUSTER) == 2


async def test_an_object_that_waits_for_a_secret_can_be_deleted(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(env=[TOKEN]))
    await workspace.becomes("GpuPod", "trainer", _waiting)
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    assert await changes(workspace) == []

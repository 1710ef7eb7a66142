"""ServingDeployments, the deployments that the cloud makes of them, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_operator.api.servingdeployment import ServingDeployment
from relay_operator.kinds.servingdeployment import ServingDeployments
from relay_wire.serving import Deployment
from tests.unit.client.scripted import Reply
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


PATH = "/v1/serving/deployments"
ALL = f"{PATH}?limit=200"
INTENT = intent("team-a-llama")
REQUIRED: dict[str, JsonValue] = {
    "publicModelId": "llama",
    "servedModelId": "llama-3",
    "engine": "vllm",
    "gpu": {"modelIds": ["h200", "h100"], "count": 2},
    "replicas": {"min": 0, "max": 4, "desired": 2},
}
SENT: dict[str, JsonValue] = {
    "organizationId": "org-1",
    "publicModelId": "llama",
    "servedModelId": "llama-3",
    "engine": "vllm",
    "gpuModelId": "h200",
    "gpuCountPerReplica": 2,
    "replicasMin": 0,
    "replicasMax": 4,
    "replicasDesired": 2,
    "nativeFamilies": ["chat_completions"],
    "maxConcurrencyPerReplica": 0,
    "backendWeight": 0,
    "minPromptBytes": 0,
    "maxPromptBytes": 0,
    "isolated": False,
    "replicaRuntime": "",
    "rolloutRole": "",
    "rolloutStrategy": "blue_green",
    "maxUnavailable": 1,
    "acknowledgeLaneJoin": False,
}
LASTING: dict[str, JsonValue] = {
    "publicModelId": "other",
    "servedModelId": "other",
    "engine": "sglang",
    "gpuCountPerReplica": 1,
    "gpuModelId": "l40s",
    "nativeFamilies": ["messages"],
    "minPromptBytes": 1,
    "maxPromptBytes": 1,
    "isolated": True,
    "replicaRuntime": "vm",
}


def kind() -> ServingDeployments:
    return ServingDeployments(parts())


def serving(**spec: JsonValue) -> ServingDeployment:
    metadata = {"name": "llama", "namespace": "team-a"}
    return ServingDeployment.model_validate({"metadata": metadata, "spec": REQUIRED | spec})


def row(**fields: Any) -> Deployment:
    """What the cloud makes of the least that can be asked for."""
    told = {
        **{name: value for name, value in SENT.items() if name != "acknowledgeLaneJoin"},
        "id": "dep_1",
        "nodePool": "community",
        "status": "running",
        "replicasReady": 2,
        "createdAt": "2026-01-01T00:00:00Z",
        **fields,
    }
    return Deployment.model_validate(told)


def one(each: Deployment) -> Reply:
    return Reply(body=each.model_dump_json(by_alias=True).encode())

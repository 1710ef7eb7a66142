"""One object of each managed kind, and what the cloud has of it: the real mapping, without its requests."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from pydantic import JsonValue

from relay_client import NotFound
from relay_operator.flows.managed.resource import Found
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.apikey import ApiKeys
from relay_operator.kinds.gpucluster import SeenCluster, clusters
from relay_operator.kinds.gpupod import GpuPods
from relay_operator.kinds.gpuvm import GpuVms
from relay_operator.kinds.inferencebackend import InferenceBackends
from relay_operator.kinds.nodereservation import NodeReservations
from relay_operator.kinds.organizationmember import OrganizationMembers
from relay_operator.kinds.providernode import ProviderNodes
from relay_operator.kinds.provisioningtoken import ProvisioningTokens
from relay_operator.kinds.registrycredential import RegistryCredentials
from relay_operator.kinds.runnerpool import RunnerPools
from relay_operator.kinds.servingdeployment import Seen, ServingDeployments
from relay_operator.kinds.sshkey import SshKeys
from relay_operator.kinds.vmsnapshot import VmSnapshots
from relay_wire.api_keys import ApiKeySummary
from relay_wire.clusters import ClusterSummary
from relay_wire.inference import Backend
from relay_wire.orgs import Member
from relay_wire.provider import ProviderNode, ProvisioningToken
from relay_wire.registry_credentials import RegistryCredential
from relay_wire.reservations import Reservation
from relay_wire.runner_pools import RunnerPool
from relay_wire.serving import Deployment
from relay_wire.snapshots import Snapshot
from relay_wire.ssh_keys import SshKey
from relay_wire.vms import VmRecord

PARTS = cast(
    "Parts",
    SimpleNamespace(
        settings=SimpleNamespace(poll_settled_seconds=1.0),
        engine=SimpleNamespace(clock=time.monotonic, cache=None),
    ),
)
ROW: dict[str, JsonValue] = {
    **dict.fromkeys(("id", "userId"), "one"),
    "name": "a-name",
    "organizationId": "org-1",
    "status": "running",
    "role": "viewer",
    "keyPrefix": "or_",
    "scopes": [],
    "createdAt": "2026-03-01T12:00:00Z",
}
"""Fields of every answer, of which each kind reads its own."""


@dataclass(frozen=True)
class Example:
    """How a kind maps, what is asked of one, and what the cloud shows of it."""

    mapping: Callable[[], Any]
    row: Callable[[Mapping[str, JsonValue]], Any]
    spec: Mapping[str, JsonValue]


EXAMPLES = {
    "GpuCluster": Example(
        lambda: clusters(PARTS),
        lambda row: SeenCluster(ClusterSummary.model_validate(row)),
        {"gpu": {"modelId": "h100"}, "image": "vllm"},
    ),
    "GpuPod": Example(GpuPods, VmRecord.model_validate, {"image": "vllm"}),
    "GpuVm": Example(GpuVms, VmRecord.model_validate, {"gpu": {"modelId": "h100"}}),
    "SshKey": Example(lambda: SshKeys(PARTS), SshKey.model_validate, {"publicKey": "ssh-ed25519 AAAA"}),
    "RegistryCredential": Example(
        lambda: RegistryCredentials(PARTS), RegistryCredential.model_validate, {"server": "registry.example"}
    ),
    "ApiKey": Example(
        lambda: ApiKeys(PARTS), ApiKeySummary.model_validate, {"scopes": ["inference"], "secretName": "a-key"}
    ),
    "OrganizationMember": Example(
        lambda: OrganizationMembers(PARTS),
        Member.model_validate,
        {"email": "ada@example.com", "role": "viewer", "deletionPolicy": "Delete"},
    ),
    "VmSnapshot": Example(
        lambda: VmSnapshots(PARTS),
        lambda row: Snapshot.model_validate({**row, "status": "creating"}),
        {"vmRef": {"name": "box"}, "name": "before"},
    ),
    "RunnerPool": Example(
        lambda: RunnerPools(PARTS), RunnerPool.model_validate, {"installationId": 7, "poolRamGb": 64}
    ),
    "ProvisioningToken": Example(
        lambda: ProvisioningTokens(PARTS), ProvisioningToken.model_validate, {"secretName": "a-token"}
    ),
    "ProviderNode": Example(
        lambda: ProviderNodes(PARTS), ProviderNode.model_validate, {"nodeId": "one", "status": "online"}
    ),
    "InferenceBackend": Example(
        lambda: InferenceBackends(PARTS),
        Backend.model_validate,
        {
            "modelId": "llama",
            "provider": "openai_compatible",
            "ref": "llama",
            "endpoint": "https://llama.example",
            "nativeFamilies": ["chat_completions"],
        },
    ),
    "NodeReservation": Example(
        lambda: NodeReservations(PARTS),
        Reservation.model_validate,
        {"nodeRef": {"name": "node"}, "unitIds": ["gpu-0"], "allowedOrganizationIds": ["org-2"]},
    ),
    "ServingDeployment": Example(
        lambda: ServingDeployments(PARTS),
        lambda row: Seen(Deployment.model_validate({**row, "replicas": []})),
        {
            "publicModelId": "llama",
            "servedModelId": "llama",
            "engine": "vllm",
            "gpu": {"modelId": "h100"},
            "replicas": {"min": 0, "max": 4, "desired": 2},
        },
    ),
}


class Remembered:
    """The one resource of a kind, in a cloud that is a variable."""

    def __init__(self, kind: str) -> None:
        example = EXAMPLES[kind]
        self.mapping = example.mapping()
        self.there: Any = example.row(ROW)
        """None once it is ended."""
        self.ended: list[str] = []
        for call in (self.observe, self.find, self.existing, self.alike, self.delete):
            if hasattr(self.mapping, call.__name__):
                setattr(self.mapping, call.__name__, call)

    async def observe(self, *_: object) -> Any:
        if self.there is None:
            raise NotFound("observe", "it is gone", status=404)
        return self.there

    async def find(self, *_: object) -> Any:
        return Found(self.there)

    async def existing(self, _cloud: object, obj: Any) -> Any:
        assert all(getattr(obj.spec, name) for name in self.mapping.told_apart_by)
        return self.there

    async def alike(self, *_: object) -> Any:
        raise AssertionError("what the spec asks for cannot be compared")

    async def delete(self, _cloud: object, cloud_id: str) -> None:
        self.ended.append(cloud_id)
        self.there = None

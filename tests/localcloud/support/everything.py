"""An organization that has one of everything, so that every operation of `/openapi.json` can be called for real.

`Everything.value` makes what stands in a path at a parameter, anew for each operation, so that what one of them ends is
still there for another. `BODIES` has a body that each operation takes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.batches import record
from tests.localcloud.support.people import invite, session_of
from tests.localcloud.support.server import Organization, request
from tests.localcloud.support.workloads import UNTIL_RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localcloud.support.server import Answer, Server

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJyzDW6yGfNUsqp1k0y0O7vNUJ0lFZ6zRWl1L1yTnK5 a@b"
ORG = "/v1/orgs/{orgId}"
NODE = f"{ORG}/provider/nodes/{{nodeId}}"

POD = {"image": "app:1", "gpuModelId": "l40s"}
HOOK = {"name": "hook", "url": "http://127.0.0.1:9/", "events": ["vm.running"]}
VM = {"name": "vm", "gpuModelId": "l40s"}
CLUSTER = {"name": "cluster", "gpuModelId": "l40s", "replicaCount": 1}
POOL = {"installationId": 1, "name": "pool", "poolRamGb": 8}
BACKEND = {
    "provider": "openai_compatible",
    "ref": "m",
    "endpoint": "http://127.0.0.1:9/v1",
    "nativeFamilies": ["chat_completions"],
}
CREDENTIAL = {
    "name": "registry",
    "server": "registry.example",
    "authType": "basic",
    "credentials": {"username": "u", "password": "p"},
}
DEPLOYMENT = {
    "publicModelId": "echo",
    "engine": "vllm",
    "servedModelId": "echo",
    "gpuModelId": "l40s",
    "gpuCountPerReplica": 1,
    "replicasMin": 1,
    "replicasMax": 1,
    "replicasDesired": 1,
    "acknowledgeLaneJoin": True,
}

MADE_BY: dict[str, tuple[str, str, Any]] = {
    f"{ORG}/api-keys/{{id}}": ("POST", f"{ORG}/api-keys/create", {"name": "key"}),
    f"{ORG}/ssh-keys/{{id}}": ("POST", f"{ORG}/ssh-keys/create", {"name": "key", "publicKey": PUBLIC_KEY}),
    f"{ORG}/webhooks/{{id}}": ("POST", f"{ORG}/webhooks/create", HOOK),
    f"{ORG}/registry-credentials/{{id}}": ("POST", f"{ORG}/registry-credentials/create", CREDENTIAL),
    f"{ORG}/runner-pools/{{id}}": ("POST", f"{ORG}/runner-pools", POOL),
    f"{ORG}/provider/tokens/{{id}}": ("POST", f"{ORG}/provider/tokens", {"name": "token"}),
    "/v1/vms/{id}": ("POST", f"{ORG}/vms/create", VM),
    "/v1/clusters/{id}": ("POST", f"{ORG}/clusters/create", CLUSTER),
    "/v1/vms/{id}/snapshots/{snapshotId}": ("POST", "/v1/vms/{id}/snapshots/create", {"name": "snapshot"}),
    "/v1/inference/models/{modelId}/backends/{id}": ("POST", "/v1/inference/models/{modelId}/backends", BACKEND),
    "/v1/serving/deployments/{id}": ("POST", "/v1/serving/deployments", DEPLOYMENT),
    "/v1/batches/{id}": ("POST", "/v1/batches", {"requests": [record("r")], "endpoint": "/v1/chat/completions"}),
}
"""What makes that which stands in a path at its last parameter: its answer has the `id`."""


@dataclass(frozen=True)
class Operation:
    """One of `/openapi.json`; `template` is its path."""

    method: str
    template: str
    description: dict[str, Any]
    url: str

    @property
    def name(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of its JSON body, where it has one."""
        content: dict[str, Any] = self.description.get("requestBody", {}).get("content", {})
        schema: dict[str, Any] | None = content.get("application/json", {}).get("schema")
        return schema


@dataclass(frozen=True)
class Everything:
    """An organization, the description of what is served, and what stands in paths."""

    organization: Organization
    node: str
    document: dict[str, Any]

    def operations(self) -> Iterator[Operation]:
        """Every operation under `/v1`, with the port that it is served on."""
        ready = self.organization.server.ready
        for template, methods in self.document["paths"].items():
            for method, description in methods.items():
                if template.startswith("/v1/"):
                    keys = [next(iter(each)) for each in description["security"]]
                    port = "inferenceUrl" if "x-api-key" in keys else "managementUrl"
                    yield Operation(method.upper(), template, description, ready[port])

    async def value(self, template: str, known: dict[str, str]) -> str:
        """What stands in a path at the parameter that ends `template`; `known` has those before it."""
        organization, server = self.organization, self.organization.server
        match template:
            case "/v1/orgs/{orgId}":
                return organization.id
            case "/v1/inference/models/{modelId}" | "/v1/models/{id}":
                return "echo"
            case "/v1/orgs/{orgId}/members/{userId}":
                return (await session_of(organization, "member")).id
            case "/v1/orgs/{orgId}/billing/payment-methods/{paymentMethodId}":
                return str((await server.ok("POST", f"/orgs/{organization.id}/cards"))["id"])
            case "/v1/orgs/{orgId}/provider/nodes/{nodeId}":
                return self.node
            case "/v1/invites/{token}":
                return await invite(organization, "somebody@example.com")
            case "/v1/transfers/{id}":
                pod = await (await server.organization()).ok("POST", "/v1/pods", POD)
                offer = {"workloadId": pod["id"], "toOrganizationId": organization.id}
                return str((await server.ok("POST", "/transfers", offer))["id"])
            case "/v1/files/{id}":
                batch = await self._made("/v1/batches/{id}", known)
                return str(batch["input_file_id"])
            case _ if template in MADE_BY:
                return str((await self._made(template, known))["id"])
            case _:
                return f"none_{len(known)}"

    async def path(self, operation: Operation) -> dict[str, str]:
        """The parameters of an operation's path."""
        known: dict[str, str] = {}
        upto = ""
        for part in operation.template.split("/")[1:]:
            upto += "/" + part
            if part.startswith("{"):
                known[part.strip("{}")] = await self.value(upto, known)
        return known

    async def _made(self, template: str, known: dict[str, str]) -> Any:
        method, maker, body = MADE_BY[template]
        ready = self.organization.server.ready
        url = ready["inferenceUrl" if maker == "/v1/batches" else "managementUrl"]
        path = maker.format(**{"orgId": self.organization.id, **known})
        answer = await request(method, url + path, self.unique(body), key=self.organization.api_key)
        assert answer.status == 200, (maker, answer.raw)
        await self.organization.server.advance(UNTIL_RUNNING)
        return answer.body

    def unique(self, body: dict[str, Any]) -> dict[str, Any]:
        """A body whose name clashes with no other, and whose organization is this one."""
        named = {"name": f"n-{next(_NUMBERS)}"} if "name" in body else {}
        owned = {"organizationId": self.organization.id} if "publicModelId" in body else {}
        return {**body, **named, **owned}

    async def call(self, operation: Operation, path: dict[str, str], **more: Any) -> Answer:
        """Call an operation with these parameters in its path, by default with the key that may do everything."""
        more.setdefault("key", self.organization.api_key)
        return await request(operation.method, operation.url + operation.template.format(**path), **more)


def _count() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


_NUMBERS = _count()


async def everything(server: Server) -> Everything:
    """A provider with a node of its own, as much money as it needs, and the description of the server."""
    organization = await server.organization(balanceCents=10**9)
    await server.ok("PATCH", f"/orgs/{organization.id}", {"provider": True})
    node = await server.ok("POST", "/nodes", {"gpuModelId": "l40s", "gpuCount": 512, "orgId": organization.id})
    document = json.loads((await request("GET", server.url + "/openapi.json")).raw)
    return Everything(organization, str(node["id"]), document)

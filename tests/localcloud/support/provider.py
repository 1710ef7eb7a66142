"""What tests of providers do over and over, in the words of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Organization


async def new_token(provider: Organization, **fields: object) -> Any:
    """A provisioning token with its plain text."""
    return await provider.ok("POST", "/v1/orgs/{org}/provider/tokens", {"name": "racks", **fields})


async def enrol(provider: Organization, token: str, **fields: object) -> Answer:
    """A machine that joins with a token; two H100 unless told otherwise."""
    body = {"gpuModelId": "h100", "gpuCount": 2, "provisioningToken": token, **fields}
    return await provider.server.control("POST", "/nodes", body)


async def community_node(provider: Organization, **fields: object) -> str:
    """The id of a node that the provider enrolled and everybody may use."""
    token = await new_token(provider)
    answer = await enrol(provider, token["token"], **fields)
    assert answer.status == 200, answer.raw
    return str(answer.body["id"])


async def provider_nodes(provider: Organization, query: str = "") -> list[Any]:
    """The provider's nodes."""
    items: list[Any] = (await provider.ok("GET", "/v1/orgs/{org}/provider/nodes" + query))["items"]
    return items


async def set_status(provider: Organization, node_id: str, status: str) -> Any:
    """The node after its provider set its status."""
    return await provider.ok("PATCH", f"/v1/orgs/{{org}}/provider/nodes/{node_id}", {"status": status})


async def node_status(provider: Organization, node_id: str) -> str:
    """The status of a node, also where it was removed."""
    nodes = await provider_nodes(provider, "?includeRemoved=true")
    return next(str(node["status"]) for node in nodes if node["id"] == node_id)


async def earnings(provider: Organization) -> Any:
    """What the provider earned."""
    return await provider.ok("GET", "/v1/orgs/{org}/provider/earnings")

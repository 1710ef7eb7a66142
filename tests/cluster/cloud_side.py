"""What a person does and sees in the cloud beside the operator: keys, subscriptions, nodes, states."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.localcloud import Json, Organization
    from tests.support.workspace import Workspace


def as_owner(organization: Organization) -> Organization:
    """The organization as its owner's session sees it: works whatever becomes of the key."""
    return replace(organization, api_key=organization.user_session_token)


async def new_key(organization: Organization, scopes: Sequence[str] | None = None) -> str:
    """A further API key of the organization, with every scope unless told which."""
    body: Json = {"name": "further"} | ({"scopes": list(scopes)} if scopes else {})
    made = await as_owner(organization).call("POST", f"/v1/orgs/{organization.id}/api-keys/create", body)
    key: str = made["key"]
    return key


async def revoke(organization: Organization, key: str) -> None:
    """Deletes an API key."""
    owner = as_owner(organization)
    listed = await owner.call("GET", f"/v1/orgs/{organization.id}/api-keys")
    (found,) = [one["id"] for one in listed if key.startswith(one["keyPrefix"])]
    await owner.call("DELETE", f"/v1/orgs/{organization.id}/api-keys/{found}")


async def webhooks(organization: Organization) -> list[Json]:
    """The organization's subscriptions."""
    items: list[Json] = (await as_owner(organization).call("GET", f"/v1/orgs/{organization.id}/webhooks"))["items"]
    return items


async def enrolled(workspace: Workspace) -> str:
    """The id of a node with two GPUs that is the organization's alone, and so far no object's."""
    control, own = workspace.cloud.control, workspace.organization
    await control.change_organization(own.id, provider=True)
    token = await own.call("POST", f"/v1/orgs/{own.id}/provider/tokens", {"maxNodes": 1})
    node_id: str = (await control.add_node("l40s", 2, provisioningToken=token["token"], orgId=own.id))["id"]
    return node_id


async def state_of(workspace: Workspace, kind: str, cloud_id: str) -> str:
    """The state of a GpuPod's or GpuCluster's resource."""
    organization = workspace.organization
    record = await (organization.vm if kind == "GpuPod" else organization.cluster)(cloud_id)
    state: str = record["status"]
    return state

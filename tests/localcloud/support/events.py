"""The shortest ways to make the cloud tell of something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization


async def create_webhook(organization: Organization, receiver: Receiver, *events: str) -> dict[str, Any]:
    """A subscription of the receiver."""
    body = {"name": "hook", "url": receiver.url, "events": list(events)}
    created: dict[str, Any] = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
    return created


async def deliveries_of(organization: Organization, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a subscription's attempts, newest first."""
    page = await organization.ok("GET", f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/deliveries")
    items: list[dict[str, Any]] = page["items"]
    return items


async def create_pod(organization: Organization) -> str:
    """A pod that will run once the clock moves; its id."""
    created = await organization.ok("POST", "/v1/pods", {"image": "nginx", "gpuModelId": "rtx4090"})
    return str(created["id"])


async def make_event(organization: Organization) -> str:
    """One `vm.terminated`, due at once; the id of the pod it tells of."""
    pod = await create_pod(organization)
    await organization.ok("POST", f"/v1/vms/{pod}/terminate")
    return pod


async def settle(organization: Organization) -> None:
    """Return once all that is due is done."""
    await organization.server.ok("POST", "/clock", {"advanceSeconds": 0})

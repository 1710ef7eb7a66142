"""What tests of workloads do over and over, in the words of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

DAY = 86_400
GRACE = 180
"""interruptionGraceSeconds as it is unless set."""

UNTIL_RUNNING = 2
"""placementSeconds and startSeconds as they are unless set."""


async def own_node(organization: Organization, model: str = "h100", count: int = 8, **more: object) -> str:
    """A node that only this organization sees and uses, which is therefore preferred; its id."""
    node = await organization.server.ok(
        "POST", "/nodes", {"gpuModelId": model, "gpuCount": count, "orgId": organization.id, **more}
    )
    return str(node["id"])


async def remove_shared_nodes(server: Server) -> None:
    """Leave organizations with nodes of their own only, so that capacity can run out."""
    for node in (await server.ok("GET", "/nodes"))["items"]:
        if node["organizationId"] is None:
            await server.ok("PATCH", f"/nodes/{node['id']}", {"removed": True})


async def new_pod(organization: Organization, **fields: object) -> Any:
    """A pod that is deploying; one H100 unless told otherwise."""
    return await organization.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100", **fields})


async def running_pod(organization: Organization, **fields: object) -> str:
    """The id of a pod that runs."""
    pod = await new_pod(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, pod["id"]) == "running"
    return str(pod["id"])


async def stopped_pod(organization: Organization, **fields: object) -> str:
    """The id of a pod that the caller stopped."""
    pod_id = await running_pod(organization, **fields)
    await act(organization, pod_id, "stop")
    await organization.server.advance(1)
    assert await status(organization, pod_id) == "stopped"
    return pod_id


async def act(organization: Organization, workload_id: str, action: str) -> Any:
    """The record that stop, restart or terminate answers."""
    return await organization.ok("POST", f"/v1/vms/{workload_id}/{action}")


async def record(organization: Organization, workload_id: str) -> Any:
    """The VM record."""
    return await organization.ok("GET", f"/v1/vms/{workload_id}")


async def status(organization: Organization, workload_id: str) -> str:
    """The record's status."""
    return str((await record(organization, workload_id))["status"])


async def free_gpus(organization: Organization, model: str = "h100") -> int:
    """How many GPUs of a model are free for this organization."""
    items = (await organization.ok("GET", "/v1/pods/capacity"))["items"]
    return int(next(item["freeUnits"] for item in items if item["gpuModelId"] == model))


async def balance(organization: Organization) -> Any:
    """The balance."""
    return await organization.ok("GET", "/v1/orgs/{org}/billing/balance")


async def usage(organization: Organization) -> Any:
    """Usage of the month to date."""
    return await organization.ok("GET", "/v1/orgs/{org}/billing/usage")


async def spent(organization: Organization) -> int:
    """Cents used since the organization was made, settled or not, where its balance was never changed."""
    return 100_000 - int((await balance(organization))["availableCents"])


async def emails(organization: Organization) -> list[Any]:
    """What the cloud wrote to the organization, oldest first."""
    items = (await organization.server.ok("GET", "/outbox"))["items"]
    return [item for item in items if item["organizationId"] == organization.id]


async def happens(organization: Organization, workload_id: str, event: str, **more: object) -> Any:
    """Make something happen inside a workload."""
    return await organization.server.ok("POST", f"/workloads/{workload_id}/events", {"event": event, **more})


async def set_node(organization: Organization, node_id: str, **change: object) -> Any:
    """Change a node."""
    return await organization.server.ok("PATCH", f"/nodes/{node_id}", change)


async def set_organization(organization: Organization, **change: object) -> None:
    """Change what no API call can."""
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", change)


async def subscribe(organization: Organization, receiver: Receiver) -> None:
    """Send every event of the organization to the receiver."""
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", {"name": "all", "url": receiver.url})


async def received(receiver: Receiver, enough: Callable[[list[Any]], object]) -> list[Any]:
    """The events received, once there are enough of them."""

    async def events() -> list[Any]:
        return [call.event for call in receiver.received]

    return await eventually(events, enough, every=0.02, what="enough events")

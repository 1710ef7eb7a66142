"""What tests of reservations do over and over, in the words of the specification."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.localcloud.support.server import Answer, Organization


def units(node_id: str, *numbers: int) -> list[str]:
    """The ids of units of a node."""
    return [f"{node_id}-gpu{number}" for number in numbers]


def path(node_id: str, *more: str) -> str:
    """Where the reservations of a node are, for the organization that calls."""
    return "/".join((f"/v1/orgs/{{org}}/provider/nodes/{node_id}/reservations", *more))


def plus(moment: str, seconds: int) -> str:
    """A timestamp that is so much later."""
    return (datetime.fromisoformat(moment) + timedelta(seconds=seconds)).isoformat()


async def reserve(
    owner: Organization, node_id: str, numbers: Sequence[int], *allowed: Organization, **more: object
) -> Any:
    """A reservation of units of a node for these organizations."""
    answer = await try_to_reserve(owner, node_id, numbers, *allowed, **more)
    assert answer.status == 200, answer.raw
    return answer.body


async def try_to_reserve(
    owner: Organization, node_id: str, numbers: Sequence[int], *allowed: Organization, **more: object
) -> Answer:
    """What the attempt to reserve is answered."""
    body = {"unitIds": units(node_id, *numbers), "allowedOrgIds": [org.id for org in allowed], **more}
    return await owner.call("POST", path(node_id), body)


async def act_on(caller: Organization, reservation: Any, action: str) -> Any:
    """The reservation that release or reclaim answers."""
    return await caller.ok("POST", path(reservation["nodeId"], reservation["id"], action))


async def released(owner: Organization, node_id: str, numbers: Sequence[int], *allowed: Organization) -> Any:
    """A reservation whose units are lent to spot."""
    return await act_on(owner, await reserve(owner, node_id, numbers, *allowed), "release")


async def create_vm(organization: Organization, **fields: object) -> Answer:
    """What the create of a VM with one H100 is answered."""
    return await organization.call("POST", "/v1/orgs/{org}/vms/create", {"name": "box", "gpuModelId": "h100", **fields})


async def vm_of(organization: Organization, **fields: object) -> str:
    """The id of a VM that was created."""
    answer = await create_vm(organization, **fields)
    assert answer.status == 200, answer.raw
    return str(answer.body["id"])


async def units_of(organization: Organization, workload_id: str) -> list[str]:
    """The ids of the units that a workload has."""
    nodes = (await organization.server.ok("GET", "/nodes"))["items"]
    return [unit["id"] for node in nodes for unit in node["units"] if unit["workloadId"] == workload_id]


async def availability(organization: Organization, mode: str = "vm", model: str = "h100") -> Any:
    """The capacity of a model as an organization sees it, without the single nodes."""
    items = (await organization.ok("GET", "/v1/gpu-availability"))["items"]
    [shown] = [item[mode] for item in items if item["gpuModelId"] == model]
    return {key: value for key, value in shown.items() if key not in {"nodes", "tileLattice"}}

"""Pods in every state, and who holds which GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.workloads import (
    GRACE,
    act,
    happens,
    new_pod,
    running_pod,
    set_node,
    set_organization,
    status,
    stopped_pod,
    usage,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization


async def units_of(organization: Organization, node_id: str) -> list[str]:
    """Who holds the claimed units of a node."""
    nodes = (await organization.server.ok("GET", "/nodes"))["items"]
    node = next(node for node in nodes if node["id"] == node_id)
    return [unit["workloadId"] for unit in node["units"] if unit["workloadId"] is not None]


async def interrupted_pod(organization: Organization, node_id: str) -> str:
    pod_id = await running_pod(organization)
    await set_node(organization, node_id, reporting=False)
    await organization.server.advance(GRACE)
    assert await status(organization, pod_id) == "interrupted"
    return pod_id


async def burn(organization: Organization) -> int:
    return int((await usage(organization))["burnPerHourCents"])


async def in_state(organization: Organization, node: str, state: str) -> str:
    """The id of a pod in this state."""
    if state == "deploying":
        return str((await new_pod(organization))["id"])
    if state == "stopped":
        return await stopped_pod(organization)
    pod_id = await running_pod(organization)
    if state == "stopping":
        await act(organization, pod_id, "stop")
    if state == "failed":
        await happens(organization, pod_id, "fail")
    if state == "interrupted":
        await set_node(organization, node, reporting=False)
        await organization.server.advance(GRACE)
    assert await status(organization, pod_id) == state
    return pod_id


async def out_of_funds(organization: Organization) -> str:
    """The id of a pod that the balance stopped, a second ago."""
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=0)
    await organization.server.advance(15)
    assert await status(organization, pod_id) == "stopping"
    await organization.server.advance(1)
    assert await status(organization, pod_id) == "stopped"
    return pod_id

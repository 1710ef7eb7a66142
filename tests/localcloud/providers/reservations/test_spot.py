"""Spot: released reserved capacity, for tier `spot` alone, until its owner wants it back (section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support import clusters
from tests.localcloud.support.people import session_of
from tests.localcloud.support.reservations import (
    act_on,
    availability,
    create_vm,
    path,
    plus,
    released,
    reserve,
    units,
    units_of,
    vm_of,
)
from tests.localcloud.support.workloads import (
    UNTIL_RUNNING,
    act,
    emails,
    free_gpus,
    own_node,
    received,
    record,
    set_node,
    spent,
    status,
    subscribe,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server


async def spot_vm(organization: Organization, **fields: object) -> str:
    """The id of a spot VM that runs."""
    vm_id = await vm_of(organization, tier="spot", **fields)
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, vm_id) == "running"
    return vm_id


async def reservation(owner: Organization, made: Any) -> Any:
    """A reservation as its owner reads it."""
    return await owner.ok("GET", path(made["nodeId"], made["id"]))


async def test_released_units_are_spot_capacity_for_everybody_and_not_free(
    server: Server, organization: Organization
) -> None:
    tenant, other = await server.organization(), await server.organization()
    node_id = await own_node(organization)
    await released(organization, node_id, [0, 1, 2], tenant)
    for somebody in (tenant, other):
        for mode, counts in (("vm", [1, 2]), ("cluster", [1, 2, 3])):
            assert await availability(somebody, mode) == {
                "totalGpus": 0,
                "freeGpus": 0,
                "maxPlaceableGpus": 0,
                "placeableGpuCounts": [],
                "spotFreeGpus": 3,
                "spotPlaceableGpuCounts": counts,
                "reservedFreeGpus": 0,
            }
    shown = await availability(organization)
    assert (shown["freeGpus"], shown["spotFreeGpus"]) == (5, 3)
    assert shown["placeableGpuCounts"] == [1, 2, 4]
    assert shown["spotPlaceableGpuCounts"] == [1, 2, 4, 8], "its own units and lent ones make up one VM"


async def test_only_tier_spot_has_lent_units(server: Server, organization: Organization) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=2)
    await released(organization, node_id, [0, 1], other)
    for tier in ("standard", "beta", "production"):
        assert (await create_vm(other, tier=tier)).refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
        assert (await create_vm(other, tier=tier, nodeId=node_id)).refusal == (404, "not_found")
    assert (await other.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})).refusal[0] == 503
    assert await free_gpus(other) == 0
    assert await clusters.refused(other) == (503, "INSUFFICIENT_GPU_CAPACITY")
    vm_id = await spot_vm(other)
    assert await units_of(other, vm_id) == units(node_id, 0)
    assert (await availability(other))["spotFreeGpus"] == 1
    named = await spot_vm(other, name="named", nodeId=node_id)
    assert await units_of(other, named) == units(node_id, 1)
    for where in ({}, {"nodeId": node_id}):
        answer = await create_vm(other, tier="spot", name="third", **where)
        assert answer.refusal == (503, "NODE_AT_CAPACITY" if where else "INSUFFICIENT_GPU_CAPACITY")
        assert int(answer.headers["retry-after"]) > 0


async def test_spot_prefers_lent_units_and_takes_free_ones_where_none_are_lent(
    server: Server, organization: Organization
) -> None:
    node = await server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 1})
    lender = await own_node(organization, count=1)
    await released(organization, lender, [0])
    other = await server.organization()
    first, second = await spot_vm(other), await spot_vm(other, name="second")
    assert await units_of(other, first) == units(lender, 0)
    assert await units_of(other, second) == units(node["id"], 0)


async def test_a_reclaim_terminates_the_spot_workloads_and_says_why(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    other = await server.organization()
    node_id = await own_node(organization)
    made = await released(organization, node_id, [0, 1, 2])
    await subscribe(other, receiver)
    vm_id = await spot_vm(other, gpuCount=2)
    assert (await reservation(organization, made))["spotWorkloadIds"] == [vm_id]
    shown = await act_on(organization, made, "reclaim")
    assert (shown["status"], shown["spotWorkloadIds"]) == ("active", [])
    ended = await record(other, vm_id)
    reason = "Its spot capacity was reclaimed by the owner of the reservation."
    assert (ended["status"], ended["statusReason"]) == ("terminated", reason)
    [event] = [
        event for event in await received(receiver, lambda events: len(events) == 2) if event["type"] == "vm.terminated"
    ]
    assert (event["data"]["vmId"], event["data"]["statusReason"]) == (vm_id, reason)
    [email] = await emails(other)
    assert vm_id in email["body"]
    assert reason in email["body"]
    assert (await availability(other))["spotFreeGpus"] == 0
    assert (await create_vm(other, tier="spot")).refusal == (503, "INSUFFICIENT_GPU_CAPACITY")


@pytest.mark.parametrize("state", ["provisioning", "stopping", "interrupted"])
async def test_a_reclaim_ends_what_holds_units_in_any_state(
    server: Server, organization: Organization, state: str
) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=1)
    made = await released(organization, node_id, [0])
    vm_id = await vm_of(other, tier="spot") if state == "provisioning" else await spot_vm(other)
    if state == "stopping":
        await act(other, vm_id, "stop")
    if state == "interrupted":
        await set_node(organization, node_id, reporting=False)
        await server.advance(180)
    assert await status(other, vm_id) == state
    await act_on(organization, made, "reclaim")
    assert await status(other, vm_id) == "terminated"


async def test_a_stopped_spot_vm_holds_nothing_and_starts_only_while_units_are_lent(
    server: Server, organization: Organization
) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=1)
    made = await released(organization, node_id, [0])
    vm_id = await spot_vm(other)
    await act(other, vm_id, "stop")
    await server.advance(1)
    await act_on(organization, made, "reclaim")
    assert await status(other, vm_id) == "stopped"
    assert (await other.call("POST", f"/v1/vms/{vm_id}/restart")).refusal == (409, "POD_NODE_BUSY")
    await act_on(organization, made, "release")
    assert (await act(other, vm_id, "restart"))["status"] == "provisioning"


async def test_spot_ends_with_the_reservation(server: Server, organization: Organization) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=2)
    made = await reserve(organization, node_id, [0, 1], endsAt=plus(await server.advance(0), 100))
    await act_on(organization, made, "release")
    vm_id = await spot_vm(other)
    await server.advance(98)
    ended = await record(other, vm_id)
    assert ended["status"] == "terminated"
    assert "has ended" in ended["statusReason"]
    assert await free_gpus(organization) == 2
    assert (await availability(other))["spotFreeGpus"] == 0


async def test_a_deleted_reservation_ends_its_spot_workloads(server: Server, organization: Organization) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=2)
    made = await released(organization, node_id, [0, 1])
    vm_id = await spot_vm(other)
    assert (await organization.call("DELETE", path(node_id, made["id"]))).status == 204
    assert await status(other, vm_id) == "terminated"
    assert await free_gpus(organization) == 2


async def test_units_in_use_are_not_released(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0, 1], tenant)
    vm_id = await vm_of(tenant, nodeId=node_id)
    assert (await organization.call("POST", path(node_id, made["id"], "release"))).refusal == (409, "conflict")
    await act(tenant, vm_id, "terminate")
    assert (await act_on(organization, made, "release"))["status"] == "released"
    assert (await create_vm(tenant, nodeId=node_id)).refusal == (404, "not_found"), "lent, and no longer its own"


async def test_replicas_of_a_spot_cluster_are_evicted_and_find_room_again(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    other = await server.organization()
    node_id = await own_node(organization, count=2)
    made = await released(organization, node_id, [0, 1])
    await subscribe(other, receiver)
    cluster_id = await clusters.running(other, tier="spot", replicaCount=2)
    assert (await reservation(organization, made))["spotWorkloadIds"] == [cluster_id]
    await act_on(organization, made, "reclaim")
    shown = await clusters.summary(other, cluster_id)
    assert (shown["status"], shown["activeReplicas"]) == ("degraded", 0)
    reasons = [
        event["data"]["reason"]
        for event in await received(receiver, lambda events: len(events) == 6)
        if event["type"] == "replica.terminated"
    ]
    assert reasons == ["Its spot capacity was reclaimed by the owner of the reservation."] * 2
    [email] = await emails(other)
    assert cluster_id in email["body"]
    await act_on(organization, made, "release")
    await server.advance(UNTIL_RUNNING)
    assert (await clusters.summary(other, cluster_id))["status"] == "running"
    await other.ok("POST", f"/v1/clusters/{cluster_id}/terminate")  # or it waits for what other tests lend


async def test_the_owner_and_managing_organizations_may_terminate_a_spot_vm(
    server: Server, organization: Organization
) -> None:
    other, manager, tenant = [await server.organization() for _ in range(3)]
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0, 1], tenant, managingOrgIds=[manager.id])
    await act_on(manager, made, "release")
    for number, ender in enumerate((organization, manager)):
        vm_id = await spot_vm(other, name=f"box{number}")
        assert (await tenant.call("POST", f"/v1/vms/{vm_id}/terminate")).refusal == (404, "not_found")
        for action in ("stop", "restart"):
            assert (await ender.call("POST", f"/v1/vms/{vm_id}/{action}")).refusal == (404, "not_found")
        assert (await ender.call("GET", f"/v1/vms/{vm_id}")).refusal == (404, "not_found")
        answered = await ender.ok("POST", f"/v1/vms/{vm_id}/terminate")
        reason = "It was terminated by the owner of the spot capacity that it ran on."
        assert answered == {"id": vm_id, "status": "terminated", "statusReason": reason, "tier": "spot"}
        assert (await record(other, vm_id))["statusReason"] == reason
        assert len(await emails(other)) == number + 1
        assert (await availability(other))["spotFreeGpus"] == 2


async def test_who_lends_units_may_end_a_spot_vm_though_they_only_view_elsewhere(
    server: Server, organization: Organization
) -> None:
    other, manager = await server.organization(), await server.organization()
    made = await reserve(organization, await own_node(organization), [0], other, managingOrgIds=[manager.id])
    await act_on(manager, made, "release")
    for lender, elsewhere in ((organization, other), (manager, organization)):
        vm_id = await spot_vm(other)
        person = await session_of(lender)
        await elsewhere.ok("POST", "/v1/orgs/{org}/members/add", {"email": person.email, "role": "viewer"})
        assert (await person.ok("POST", f"/v1/vms/{vm_id}/terminate"))["status"] == "terminated"


async def test_nobody_ends_what_is_not_on_units_that_they_lend(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    await reserve(organization, node_id, [0], tenant, managingOrgIds=[organization.id])
    standard = await vm_of(tenant, nodeId=node_id)
    own_spot = await vm_of(organization, tier="spot")
    for caller, vm_id in ((organization, standard), (tenant, own_spot)):
        assert (await caller.call("POST", f"/v1/vms/{vm_id}/terminate")).refusal == (404, "not_found")
    assert (await act(organization, own_spot, "terminate"))["name"] == "box"


async def test_ending_a_spot_vm_takes_the_role_and_the_scope_of_any_termination(
    server: Server, organization: Organization
) -> None:
    other = await server.organization()
    node_id = await own_node(organization)
    await released(organization, node_id, [0])
    vm_id = await spot_vm(other)
    viewer, member = await session_of(organization, "viewer"), await session_of(organization, "member")
    key = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["vms:read"]})
    where = f"/v1/vms/{vm_id}/terminate"
    assert (await viewer.call("POST", where)).refusal == (403, "forbidden")
    assert (await organization.call("POST", where, key=key["key"])).refusal == (403, "forbidden")
    assert await status(other, vm_id) == "running"
    assert (await member.ok("POST", where))["status"] == "terminated"


async def test_spot_costs_what_the_catalog_quotes(server: Server, organization: Organization) -> None:
    other = await server.organization()
    node_id = await own_node(organization)
    await released(organization, node_id, [0, 1])
    vm_id = await spot_vm(other, gpuCount=2)
    await server.advance(3600)
    [quote] = [
        price["pricePerHourCents"]
        for price in (await other.ok("GET", "/v1/pricing"))["gpu"]
        if price["gpuModelId"] == "h100"
    ]
    assert (await record(other, vm_id))["pricePerHourCents"] == await spent(other) == 2 * quote


async def test_a_reclaim_survives_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    owner, other = await server.organization(), await server.organization()
    node_id = await own_node(owner, "l40s")
    made = await released(owner, node_id, [0, 1])
    vm_id = await vm_of(other, gpuModelId="l40s", tier="spot", nodeId=node_id)
    server.kill()
    server.start()
    assert (await reservation(owner, made))["spotWorkloadIds"] == [vm_id]
    await act_on(owner, made, "reclaim")
    server.kill()
    server.start()
    assert (await reservation(owner, made))["status"] == "active"
    assert await status(other, vm_id) == "terminated"
    assert (await availability(other, model="l40s"))["spotFreeGpus"] == 0
    server.kill()

"""What a reservation does to placement and availability: section 2, "Catalog availability" and `nodeId` of a VM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.localcloud.support import clusters
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.reservations import availability, create_vm, path, plus, reserve, units, units_of, vm_of
from tests.localcloud.support.workloads import UNTIL_RUNNING, act, free_gpus, new_pod, own_node, set_node, status

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server


async def test_availability_of_reserved_units(server: Server, organization: Organization) -> None:
    tenant, other = await server.organization(), await server.organization()
    node_id = await own_node(organization)
    await reserve(organization, node_id, [0, 1, 2], tenant)
    nothing = {
        "totalGpus": 0,
        "freeGpus": 0,
        "maxPlaceableGpus": 0,
        "placeableGpuCounts": [],
        "spotFreeGpus": 0,
        "spotPlaceableGpuCounts": [],
        "reservedFreeGpus": 0,
    }
    assert await availability(tenant) == {
        "totalGpus": 3,
        "freeGpus": 3,
        "maxPlaceableGpus": 2,
        "placeableGpuCounts": [1, 2],
        "spotFreeGpus": 0,
        "spotPlaceableGpuCounts": [1, 2],
        "reservedFreeGpus": 3,
    }
    assert await availability(other) == nothing
    assert await availability(tenant, "cluster") == nothing, "clusters cannot name the node"
    for mode, counts in (("vm", [1, 2, 4]), ("cluster", [1, 2, 3, 4, 5])):
        shown = await availability(organization, mode)
        assert (shown["totalGpus"], shown["freeGpus"], shown["reservedFreeGpus"]) == (5, 5, 0)
        assert shown["placeableGpuCounts"] == counts
    await vm_of(tenant, nodeId=node_id, gpuCount=2)
    shown = await availability(tenant)
    assert (shown["totalGpus"], shown["freeGpus"], shown["reservedFreeGpus"]) == (3, 1, 1)


async def test_the_nodes_of_availability_sum_up_to_it(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id, own = await own_node(organization), await own_node(tenant, count=4)
    await reserve(organization, node_id, [0, 1, 2], tenant)
    shown = (await tenant.ok("GET", "/v1/gpu-availability"))["items"][0]
    reserved = {"totalGpus": 3, "freeGpus": 3, "spotFreeGpus": 0, "reservedFreeGpus": 3}
    free = {"totalGpus": 4, "freeGpus": 4, "spotFreeGpus": 0, "reservedFreeGpus": 0}
    assert shown["vm"]["nodes"] == [
        {"nodeId": node_id, "region": "eu-west", **reserved},
        {"nodeId": own, "region": "eu-west", **free},
    ]
    assert shown["cluster"]["nodes"] == [{"nodeId": own, "region": "eu-west", **free}]


async def test_reserved_units_take_a_vm_that_names_its_node(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    await reserve(organization, node_id, [5, 6], tenant)
    assert (await create_vm(tenant)).refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert (await tenant.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})).refusal[0] == 503
    assert await clusters.refused(tenant) == (503, "INSUFFICIENT_GPU_CAPACITY")
    vm_id = await vm_of(tenant, nodeId=node_id, gpuCount=2)
    assert await units_of(tenant, vm_id) == units(node_id, 5, 6)


async def test_there_is_no_fallback_to_units_of_others(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id, _ = await own_node(organization), await own_node(tenant)
    await reserve(organization, node_id, [0, 1], tenant)
    answer = await create_vm(tenant, nodeId=node_id, gpuCount=4)
    assert answer.refusal == (503, "NODE_AT_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0
    assert "2 free GPUs" in answer.body["error"]


async def test_a_node_is_there_for_whom_it_has_reserved_units_and_while_it_has(
    server: Server, organization: Organization
) -> None:
    tenant, other = await server.organization(), await server.organization()
    node_id = await own_node(organization)
    now = await server.advance(0)
    await reserve(organization, node_id, [0], tenant, startsAt=plus(now, 10), endsAt=plus(now, 20))
    refusals = []
    for seconds in (0, 10, 10):
        await server.advance(seconds)
        answer = await create_vm(tenant, nodeId=node_id, gpuCount=2)
        refusals.append(answer.refusal)
        assert (await create_vm(other, nodeId=node_id)).refusal == (404, "not_found")
    assert refusals == [(404, "not_found"), (503, "NODE_AT_CAPACITY"), (404, "not_found")]
    answer = await create_vm(tenant, nodeId=node_id, gpuModelId=None)
    assert answer.refusal == (404, "not_found")


async def test_the_owner_may_not_use_units_that_are_reserved_to_others(
    server: Server, organization: Organization
) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization, count=2)
    await reserve(organization, node_id, [0], tenant)
    pod = await new_pod(organization)
    assert await units_of(organization, pod["id"]) == units(node_id, 1)
    assert await free_gpus(organization) == 0
    assert (await organization.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})).refusal[0] == 503
    assert (await create_vm(organization, nodeId=node_id)).refusal == (503, "NODE_AT_CAPACITY")
    await vm_of(tenant, nodeId=node_id)


async def test_the_owner_may_reserve_to_itself_and_then_names_the_node_too(organization: Organization) -> None:
    node_id = await own_node(organization, count=4)
    await reserve(organization, node_id, [1, 2], organization)
    shown = await availability(organization)
    assert (shown["totalGpus"], shown["freeGpus"], shown["reservedFreeGpus"]) == (4, 4, 2)
    assert shown["maxPlaceableGpus"] == 4
    assert await free_gpus(organization) == 2
    vm_id = await vm_of(organization, nodeId=node_id, gpuCount=4)
    assert await units_of(organization, vm_id) == units(node_id, 0, 1, 2, 3)


async def test_reserved_units_are_used_before_others_of_the_node(organization: Organization) -> None:
    node_id = await own_node(organization)
    await reserve(organization, node_id, [6, 7], organization)
    vm_id = await vm_of(organization, nodeId=node_id, gpuCount=4)
    assert await units_of(organization, vm_id) == units(node_id, 0, 1, 6, 7)
    await act(organization, vm_id, "terminate")
    shown = await availability(organization)
    assert (shown["freeGpus"], shown["reservedFreeGpus"]) == (8, 2)


async def test_a_stopped_vm_starts_on_its_reserved_units_again(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization, count=2)
    made = await reserve(organization, node_id, [1], tenant)
    vm_id = await vm_of(tenant, nodeId=node_id)
    await server.advance(UNTIL_RUNNING)
    await act(tenant, vm_id, "stop")
    await server.advance(1)
    assert (await availability(tenant))["reservedFreeGpus"] == 1
    await act(tenant, vm_id, "restart")
    assert await units_of(tenant, vm_id) == units(node_id, 1)
    await server.advance(UNTIL_RUNNING)
    await act(tenant, vm_id, "stop")
    await server.advance(1)
    assert (await organization.call("DELETE", path(node_id, made["id"]))).status == 204
    assert (await tenant.call("POST", f"/v1/vms/{vm_id}/restart")).refusal == (409, "POD_NODE_BUSY")


async def test_what_runs_when_its_reservation_ends_goes_on(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization, count=1)
    await reserve(organization, node_id, [0], tenant, endsAt=plus(await server.advance(0), 100))
    vm_id = await vm_of(tenant, nodeId=node_id)
    await server.advance(100)
    assert await status(tenant, vm_id) == "running"
    shown = await availability(organization)
    assert (shown["totalGpus"], shown["freeGpus"]) == (1, 0)
    await act(tenant, vm_id, "terminate")
    assert await free_gpus(organization) == 1


async def test_a_waiting_cluster_has_the_units_once_the_reservation_ends(
    server: Server, organization: Organization
) -> None:
    node_id = await own_node(organization, count=2)
    await reserve(organization, node_id, [1], endsAt=plus(await server.advance(0), 100))
    cluster = await clusters.create(organization, replicaCount=2)
    assert cluster["status"] == "degraded"
    await server.advance(100 + UNTIL_RUNNING)
    assert (await clusters.summary(organization, cluster["id"]))["status"] == "running"


async def test_units_of_a_silent_node_are_not_there(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    await reserve(organization, node_id, [0], tenant)
    await set_node(organization, node_id, reporting=False)
    assert (await availability(tenant))["totalGpus"] == 0
    assert (await create_vm(tenant, nodeId=node_id)).refusal == (503, "NODE_AT_CAPACITY")


async def test_reservations_survive_a_kill(start_server: StartServer, tmp_path: object) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    owner, tenant = await server.organization(), await server.organization()
    node_id = await own_node(owner)
    now = await server.advance(0)
    active = await reserve(owner, node_id, [0, 1], tenant, endsAt=plus(now, 60))
    later = await reserve(owner, node_id, [0], tenant, startsAt=plus(now, 60), endsAt=plus(now, 90))
    vm_id = await vm_of(tenant, nodeId=node_id)
    seen = await availability(tenant)
    server.kill()
    server.start()
    assert (await owner.ok("GET", path(node_id)))["items"] == [active, later]
    assert await availability(tenant) == seen
    assert await units_of(tenant, vm_id) == units(node_id, 0)
    await server.advance(60)
    assert [item["status"] for item in (await owner.ok("GET", path(node_id)))["items"]] == ["ended", "active"]
    await act(tenant, vm_id, "terminate")
    assert (await availability(tenant))["reservedFreeGpus"] == 1
    await server.advance(30)
    shown = await availability(owner)
    assert (shown["freeGpus"], shown["totalGpus"]) == (24, 24), "its eight, and sixteen for everybody"
    server.kill()


async def test_an_exported_reservation_goes_on_elsewhere(
    start_server: StartServer, server: Server, organization: Organization
) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0, 1], tenant, endsAt=plus(await server.advance(0), 60))
    vm_id = await vm_of(tenant, nodeId=node_id)
    elsewhere = start_server("--ephemeral", "--clock", "frozen")
    await elsewhere.ok("POST", "/import", await server.ok("GET", "/export"))
    there, tenant_there = replace(organization, server=elsewhere), replace(tenant, server=elsewhere)
    assert (await there.ok("GET", path(node_id)))["items"] == [made]
    assert await availability(tenant_there) == await availability(tenant)
    assert await units_of(tenant_there, vm_id) == units(node_id, 0)
    await elsewhere.advance(60)
    assert (await there.ok("GET", path(node_id, made["id"])))["status"] == "ended"


async def test_a_stale_read_knows_nothing_of_a_fresh_reservation(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    await keep_the_past(server)
    await server.advance(100)
    seen = await availability(organization)
    made = await reserve(organization, node_id, [0, 1])
    fault = {"effect": {"staleSeconds": 10}, "count": 1, "organizationId": organization.id}
    await server.ok("POST", "/faults", {"operation": "GET /v1/gpu-availability", **fault})
    assert await availability(organization) == seen
    assert (await availability(organization))["freeGpus"] == 6
    listing = "GET /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations"
    await server.ok("POST", "/faults", {"operation": listing, **fault})
    assert (await organization.ok("GET", path(node_id)))["items"] == []
    assert (await organization.ok("GET", path(node_id)))["items"] == [made]

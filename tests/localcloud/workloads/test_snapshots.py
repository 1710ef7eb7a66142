"""Snapshots of VMs: section 2, "Create snapshot"; all else about them is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.workloads import GRACE, UNTIL_RUNNING, act, happens, own_node, running_pod, set_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

UNTIL_READY = 10


async def new_vm(organization: Organization, **fields: object) -> str:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box", "diskSizeGb": 80, **fields})
    return str(vm["id"])


async def running_vm(organization: Organization, **fields: object) -> str:
    vm_id = await new_vm(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    return vm_id


async def begin(organization: Organization, vm_id: str, name: str = "before-upgrade") -> Any:
    return await organization.ok("POST", f"/v1/vms/{vm_id}/snapshots/create", {"name": name})


async def snapshot(organization: Organization, made: Any) -> Any:
    return await organization.ok("GET", f"/v1/vms/{made['vmId']}/snapshots/{made['id']}")


async def test_a_snapshot_is_made_in_a_while_and_then_ready(organization: Organization) -> None:
    vm_id = await running_vm(organization)
    made = await begin(organization, vm_id)
    assert sorted(made) == ["createdAt", "id", "name", "organizationId", "sizeGb", "status", "vmId"]
    assert (made["vmId"], made["organizationId"], made["name"]) == (vm_id, organization.id, "before-upgrade")
    assert (made["status"], made["sizeGb"]) == ("creating", 80)
    await organization.server.advance(UNTIL_READY - 1)
    assert (await snapshot(organization, made))["status"] == "creating"
    await organization.server.advance(1)
    ready = await snapshot(organization, made)
    assert ready["status"] == "ready"
    assert ready["readyAt"] > ready["createdAt"]


async def test_snapshots_come_in_pages_newest_first(organization: Organization) -> None:
    vm_id = await running_vm(organization)
    made = [await begin(organization, vm_id, name) for name in ("one", "two", "three")]
    path = f"/v1/vms/{vm_id}/snapshots"
    page = await organization.ok("GET", f"{path}?limit=2")
    assert page["items"] == made[:0:-1]
    last = await organization.ok("GET", f"{path}?limit=2&cursor={page['nextCursor']}")
    assert last == {"items": made[:1]}
    other = await running_vm(organization, name="other")
    stray = await organization.call("GET", f"/v1/vms/{other}/snapshots?cursor={page['nextCursor']}")
    assert stray.refusal == (400, "invalid_request")


@pytest.mark.parametrize("state", ["stopped", "failed"])
async def test_a_vm_that_does_not_run_has_a_disk_as_well(organization: Organization, state: str) -> None:
    vm_id = await running_vm(organization)
    if state == "stopped":
        await act(organization, vm_id, "stop")
        await organization.server.advance(1)
    else:
        await happens(organization, vm_id, "fail")
    made = await begin(organization, vm_id)
    await organization.server.advance(UNTIL_READY)
    assert (await snapshot(organization, made))["status"] == "ready"


async def test_without_a_disk_at_hand_there_is_no_snapshot(organization: Organization) -> None:
    vm_id = await new_vm(organization)
    path = f"/v1/vms/{vm_id}/snapshots/create"
    assert (await organization.call("POST", path, {"name": "a"})).refusal == (409, "conflict")
    await organization.server.advance(UNTIL_RUNNING)
    await act(organization, vm_id, "stop")
    assert (await organization.call("POST", path, {"name": "a"})).refusal == (409, "conflict")
    await act(organization, vm_id, "terminate")
    assert (await organization.call("POST", path, {"name": "a"})).refusal == (409, "conflict")


async def test_pods_have_no_snapshots(organization: Organization) -> None:
    pod_id = await running_pod(organization)
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/snapshots/create", {"name": "a"})
    assert answer.refusal == (422, "unprocessable")
    assert await organization.ok("GET", f"/v1/vms/{pod_id}/snapshots") == {"items": []}


@pytest.mark.parametrize("body", [{}, {"name": None}, {"name": ""}, {"name": "x" * 64}, {"name": 7}, {"name": "a\nb"}])
async def test_a_snapshot_without_a_proper_name_is_400(organization: Organization, body: dict[str, object]) -> None:
    vm_id = await running_vm(organization)
    answer = await organization.call("POST", f"/v1/vms/{vm_id}/snapshots/create", body)
    assert answer.refusal == (400, "invalid_request")


async def test_the_name_of_a_snapshot_is_taken_until_it_is_deleted(organization: Organization) -> None:
    vm_id = await running_vm(organization)
    made = await begin(organization, vm_id)
    again = {"name": "before-upgrade"}
    assert (await organization.call("POST", f"/v1/vms/{vm_id}/snapshots/create", again)).refusal == (409, "conflict")
    path = f"/v1/vms/{vm_id}/snapshots/{made['id']}"
    assert (await organization.call("DELETE", path)).status == 204
    assert (await organization.call("DELETE", path)).refusal == (404, "not_found")
    assert (await organization.call("GET", path)).refusal == (404, "not_found")
    await begin(organization, vm_id)
    await begin(organization, await running_vm(organization, name="other"))
    await organization.server.advance(UNTIL_READY)


async def test_a_vm_has_a_hundred_snapshots_at_most(organization: Organization) -> None:
    vm_id = await running_vm(organization)
    for number in range(100):
        await begin(organization, vm_id, f"s{number}")
    answer = await organization.call("POST", f"/v1/vms/{vm_id}/snapshots/create", {"name": "one-more"})
    assert answer.refusal == (409, "conflict")


async def test_a_snapshot_fails_where_the_node_is_gone_meanwhile(organization: Organization) -> None:
    node = await own_node(organization, count=1)
    vm_id = await running_vm(organization, gpuModelId="h100", nodeId=node)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE - 1)
    made = await begin(organization, vm_id)
    await organization.server.advance(UNTIL_READY)
    failed = await snapshot(organization, made)
    assert failed["status"] == "failed"
    assert "stopped reporting" in failed["statusReason"]


async def test_snapshots_end_with_their_vm(organization: Organization) -> None:
    vm_id = await running_vm(organization)
    made = [await begin(organization, vm_id, name) for name in ("one", "two")]
    await act(organization, vm_id, "terminate")
    assert await organization.ok("GET", f"/v1/vms/{vm_id}/snapshots") == {"items": []}
    gone = await organization.call("GET", f"/v1/vms/{vm_id}/snapshots/{made[0]['id']}")
    assert gone.refusal == (404, "not_found")
    await organization.server.advance(UNTIL_READY)


async def test_snapshots_of_another_organization_read_as_absent(server: Server, organization: Organization) -> None:
    made = await begin(organization, await running_vm(organization))
    other = await server.organization()
    own = await running_vm(other)
    for vm_id in (made["vmId"], own):
        for method in ("GET", "DELETE"):
            answer = await other.call(method, f"/v1/vms/{vm_id}/snapshots/{made['id']}")
            assert answer.refusal == (404, "not_found")
    for method, path in (("GET", "snapshots"), ("POST", "snapshots/create")):
        answer = await other.call(method, f"/v1/vms/{made['vmId']}/{path}", {"name": "a"})
        assert answer.refusal == (404, "not_found")


async def test_a_snapshot_is_finished_after_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    organization = server.seeded()
    made = await begin(organization, await running_vm(organization))
    server.kill()
    again = start_server("--state", str(tmp_path)).seeded()
    assert (await snapshot(again, made))["status"] == "creating"
    await again.server.advance(UNTIL_READY)
    assert (await snapshot(again, made))["status"] == "ready"

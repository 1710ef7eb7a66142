"""Reservations: section 2, "Node reservation"; paths, statuses and what is refused are assumed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import session_of
from tests.localcloud.support.reservations import (
    act_on,
    availability,
    path,
    plus,
    released,
    reserve,
    try_to_reserve,
    units,
    vm_of,
)
from tests.localcloud.support.workloads import DAY, new_pod, own_node, set_node

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


async def test_a_reservation_is_answered_with_every_field(server: Server, organization: Organization) -> None:
    tenant, manager = await server.organization(), await server.organization()
    node_id = await own_node(organization)
    shown = await reserve(
        organization,
        node_id,
        [3, 1],
        tenant,
        managingOrgIds=[manager.id],
        contractRef="C-17",
        reason="their launch",
        endsAt="2999-01-01T01:00:00+01:00",
    )
    now = (await server.ok("GET", "/clock"))["now"]
    assert shown.pop("id").startswith("rsv_")
    assert shown == {
        "nodeId": node_id,
        "unitIds": units(node_id, 3, 1),
        "allowedOrgIds": [tenant.id, "org_platform_ops"],
        "managingOrgIds": [manager.id],
        "startsAt": now,
        "endsAt": "2999-01-01T00:00:00.000000Z",
        "status": "active",
        "contractRef": "C-17",
        "reason": "their launch",
        "createdAt": now,
        "spotWorkloadIds": [],
    }


async def test_a_node_has_so_many_reservations_ended_ones_included(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    now = (await server.ok("GET", "/clock"))["now"]
    times = [{"startsAt": plus(now, day * DAY), "endsAt": plus(now, (day + 1) * DAY)} for day in range(201)]
    first, *_ = [await reserve(organization, node_id, [0], **when) for when in times[:200]]
    await server.advance(DAY)
    answer = await try_to_reserve(organization, node_id, [0], **times[200])
    assert answer.refusal == (409, "conflict")
    assert "200 reservations" in answer.body["error"]
    await organization.call("DELETE", path(node_id, first["id"]))
    await reserve(organization, node_id, [0], **times[200])


async def test_what_is_optional_may_be_absent_or_null(organization: Organization) -> None:
    node_id = await own_node(organization)
    nothing = dict.fromkeys(["managingOrgIds", "startsAt", "endsAt", "contractRef", "reason"])
    for number, more in enumerate(({}, nothing)):
        shown = await reserve(organization, node_id, [number], **more)
        assert (shown["allowedOrgIds"], shown["managingOrgIds"]) == (["org_platform_ops"], [])
        assert (shown["endsAt"], shown["contractRef"], shown["reason"]) == (None, None, None)


async def test_reservations_are_listed_and_read_by_the_owner(server: Server, organization: Organization) -> None:
    node_id, other_node = await own_node(organization), await own_node(organization)
    made = [await reserve(organization, node_id, [number]) for number in (0, 1)]
    await reserve(organization, other_node, [0])
    assert (await organization.ok("GET", path(node_id)))["items"] == made
    assert await organization.ok("GET", path(node_id, made[1]["id"])) == made[1]
    stranger = await server.organization()
    for answer in (
        await stranger.call("GET", path(node_id)),
        await stranger.call("GET", path(node_id, made[0]["id"])),
        await stranger.call("POST", path(node_id, made[0]["id"], "release")),
        await stranger.call("DELETE", path(node_id, made[0]["id"])),
        await try_to_reserve(stranger, node_id, [5], stranger),
        await organization.call("GET", path(other_node, made[0]["id"])),
        await organization.call("GET", path("node_none")),
    ):
        assert answer.refusal == (404, "not_found")


async def test_units_must_be_of_the_node_and_organizations_must_exist(organization: Organization) -> None:
    node_id, other_node = await own_node(organization, count=2), await own_node(organization)
    fine = {"unitIds": units(node_id, 0), "allowedOrgIds": [organization.id]}
    for wrong in (
        {"unitIds": units(node_id, 0, 2)},
        {"unitIds": units(other_node, 0)},
        {"unitIds": ["gpu"]},
        {"allowedOrgIds": ["org_none"]},
        {"managingOrgIds": [organization.id, "org_none"]},
    ):
        answer = await organization.call("POST", path(node_id), fine | wrong)
        assert answer.refusal == (422, "unprocessable"), wrong
    assert (await organization.ok("GET", path(node_id)))["items"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"unitIds": []},
        {"unitIds": None},
        {"unitIds": "gpu0"},
        {"unitIds": [0]},
        {"unitIds": ["x" * 201]},
        {"allowedOrgIds": None},
        {"allowedOrgIds": "org"},
        {"allowedOrgIds": [None]},
        {"managingOrgIds": {}},
        {"startsAt": 0},
        {"startsAt": "soon"},
        {"startsAt": "2999-01-01T00:00:00"},
        {"endsAt": "2999-13-01T00:00:00Z"},
        {"endsAt": "1969-12-31T23:59:59Z"},
        {"endsAt": "1970-01-01T00:00:01Z"},
        {"startsAt": "2999-01-02T00:00:00Z", "endsAt": "2999-01-01T00:00:00Z"},
        {"startsAt": "2999-01-01T00:00:00Z", "endsAt": "2999-01-01T00:00:00Z"},
        {"contractRef": 1},
        {"contractRef": "x" * 1001},
        {"reason": ["r"]},
        {"reason": "a\nb"},
    ],
)
async def test_a_reservation_that_makes_no_sense_is_400(organization: Organization, wrong: dict[str, object]) -> None:
    node_id = await own_node(organization, count=1)
    fine = {"unitIds": units(node_id, 0), "allowedOrgIds": [organization.id]}
    assert (await organization.call("POST", path(node_id), fine | wrong)).refusal == (400, "invalid_request")
    for missing in fine:
        body = {field: value for field, value in fine.items() if field != missing}
        assert (await organization.call("POST", path(node_id), body)).refusal == (400, "invalid_request")
    assert (await organization.ok("GET", path(node_id)))["items"] == []


async def test_a_unit_that_is_named_twice_counts_once(organization: Organization) -> None:
    node_id = await own_node(organization, count=2)
    shown = await reserve(organization, node_id, [1, 1], organization, organization)
    assert shown["unitIds"] == units(node_id, 1)
    assert shown["allowedOrgIds"] == [organization.id, "org_platform_ops"]
    assert (await availability(organization))["reservedFreeGpus"] == 1


async def test_units_in_use_cannot_be_reserved(organization: Organization) -> None:
    node_id = await own_node(organization, count=2)
    pod = await new_pod(organization)
    for window in ({}, {"startsAt": "2999-01-01T00:00:00Z"}):
        answer = await try_to_reserve(organization, node_id, [0, 1], **window)
        assert answer.refusal == (409, "conflict")
        assert f"{node_id}-gpu0" in answer.body["error"]
    await organization.ok("POST", f"/v1/vms/{pod['id']}/terminate")
    await reserve(organization, node_id, [0, 1])


async def test_a_unit_is_reserved_once_at_a_time(organization: Organization) -> None:
    node_id = await own_node(organization)
    first = {"startsAt": "2998-01-01T00:00:00Z", "endsAt": "2998-02-01T00:00:00Z"}
    made = await reserve(organization, node_id, [0, 1], **first)
    for window in (
        first,
        {},
        {"startsAt": "2998-01-31T23:59:59Z"},
        {"endsAt": "2998-01-01T00:00:01Z"},
        {"startsAt": "2998-01-02T00:00:00Z", "endsAt": "2998-01-03T00:00:00Z"},
    ):
        answer = await try_to_reserve(organization, node_id, [2, 1], **window)
        assert answer.refusal == (409, "conflict")
        assert made["id"] in answer.body["error"]
    await reserve(organization, node_id, [0, 1], endsAt="2998-01-01T00:00:00Z")
    await reserve(organization, node_id, [0, 1], startsAt="2998-02-01T00:00:00Z")
    await reserve(organization, node_id, [2], **first)


async def test_of_two_who_reserve_a_unit_at_once_one_has_it(organization: Organization) -> None:
    node_id = await own_node(organization)
    answers = await asyncio.gather(*(try_to_reserve(organization, node_id, [number, 3]) for number in range(3)))
    assert sorted(answer.status for answer in answers) == [200, 409, 409]


async def test_a_reservation_begins_and_ends_on_the_clouds_clock(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    starts_at = await server.advance(0)
    later = {"startsAt": plus(starts_at, 100), "endsAt": plus(starts_at, 300)}
    made = await reserve(organization, node_id, [0, 1, 2], **later)
    seen = [(made["status"], (await availability(organization))["freeGpus"])]
    for seconds in (99, 1, 199, 1):
        await server.advance(seconds)
        shown = await organization.ok("GET", path(node_id, made["id"]))
        seen.append((shown["status"], (await availability(organization))["freeGpus"]))
    assert seen == [("scheduled", 8), ("scheduled", 8), ("active", 5), ("active", 5), ("ended", 8)]


async def test_a_start_that_has_passed_is_now(organization: Organization) -> None:
    node_id = await own_node(organization)
    shown = await reserve(organization, node_id, [0], startsAt="2000-01-01T00:00:00Z")
    assert (shown["status"], shown["startsAt"]) == ("active", "2000-01-01T00:00:00.000000Z")


@pytest.mark.parametrize("first", [0, 1])
async def test_one_reservation_may_follow_another_in_the_same_instant(
    server: Server, organization: Organization, first: int
) -> None:
    node_id = await own_node(organization)
    now = await server.advance(0)
    windows = [{"endsAt": plus(now, 50)}, {"startsAt": plus(now, 50), "endsAt": plus(now, 90)}]
    made = {number: await reserve(organization, node_id, [0], **windows[number]) for number in (first, 1 - first)}
    await server.advance(50)
    shown = {item["id"]: item["status"] for item in (await organization.ok("GET", path(node_id)))["items"]}
    assert (shown[made[0]["id"]], shown[made[1]["id"]]) == ("ended", "active")
    assert (await availability(organization))["freeGpus"] == 7
    await server.advance(40)
    assert (await availability(organization))["freeGpus"] == 8


async def test_a_workload_that_came_before_the_start_stays_and_leaves_its_unit_to_the_reservation(
    server: Server, organization: Organization
) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization, count=1)
    made = await reserve(organization, node_id, [0], tenant, startsAt=plus(await server.advance(0), 100))
    pod = await new_pod(organization)
    await server.advance(200)
    assert (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["status"] == "running"
    assert (await availability(tenant))["totalGpus"] == 1
    assert (await availability(tenant))["freeGpus"] == 0
    assert (await organization.call("POST", path(node_id, made["id"], "release"))).refusal == (409, "conflict")
    await organization.ok("POST", f"/v1/vms/{pod['id']}/terminate")
    assert (await availability(organization))["freeGpus"] == 0
    await vm_of(tenant, nodeId=node_id)


async def test_calls_may_be_repeated_and_are_409_outside_the_window(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    now = await server.advance(0)
    later = await reserve(organization, node_id, [0], startsAt=plus(now, 50), endsAt=plus(now, 100))
    for action in ("reclaim", "release", "release", "reclaim"):
        answer = await organization.call("POST", path(node_id, later["id"], action))
        assert answer.refusal == (409, "conflict")
    await server.advance(50)
    actions = ("reclaim", "release", "release", "reclaim")
    statuses = [(await act_on(organization, later, action))["status"] for action in actions]
    assert statuses == ["active", "released", "released", "active"]
    await server.advance(50)
    for action in ("release", "reclaim"):
        answer = await organization.call("POST", path(node_id, later["id"], action))
        assert answer.refusal == (409, "conflict")


async def test_a_deleted_reservation_gives_its_units_back(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    far = {"startsAt": "2998-01-01T00:00:00Z", "endsAt": "2999-01-01T00:00:00Z"}
    made = [
        await reserve(organization, node_id, [0], tenant, endsAt="2999-01-01T00:00:00Z"),
        await released(organization, node_id, [1]),
        await reserve(organization, node_id, [2], **far),
    ]
    for reservation in made:
        answer = await organization.call("DELETE", path(node_id, reservation["id"]))
        assert (answer.status, answer.raw) == (204, b"")
        assert (await organization.call("GET", path(node_id, reservation["id"]))).refusal == (404, "not_found")
    assert (await availability(organization))["freeGpus"] == 8
    due = (await server.ok("GET", "/export"))["tables"]["due"]
    assert not {item["subject"] for item in due} & {reservation["id"] for reservation in made}


async def test_a_reservation_is_not_deleted_under_its_tenant(server: Server, organization: Organization) -> None:
    tenant = await server.organization()
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0], tenant)
    vm_id = await vm_of(tenant, nodeId=node_id)
    assert (await organization.call("DELETE", path(node_id, made["id"]))).refusal == (409, "conflict")
    await tenant.ok("POST", f"/v1/vms/{vm_id}/terminate")
    assert (await organization.call("DELETE", path(node_id, made["id"]))).status == 204


async def test_managing_organizations_read_release_and_reclaim_and_no_more(
    server: Server, organization: Organization
) -> None:
    manager = await server.organization()
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0], managingOrgIds=[manager.id])
    await reserve(organization, node_id, [1])
    assert (await manager.ok("GET", path(node_id)))["items"] == [made]
    assert await manager.ok("GET", path(node_id, made["id"])) == made
    assert (await act_on(manager, made, "release"))["status"] == "released"
    assert (await act_on(manager, made, "reclaim"))["status"] == "active"
    assert (await manager.call("DELETE", path(node_id, made["id"]))).refusal == (404, "not_found")
    assert (await try_to_reserve(manager, node_id, [2])).refusal == (404, "not_found")


async def test_a_removed_node_ends_its_reservations(organization: Organization) -> None:
    node_id = await own_node(organization)
    made = await released(organization, node_id, [0])
    await set_node(organization, node_id, removed=True)
    assert (await organization.ok("GET", path(node_id, made["id"])))["status"] == "ended"
    assert (await try_to_reserve(organization, node_id, [1])).refusal == (409, "conflict")
    assert (await availability(organization))["spotFreeGpus"] == 0


async def test_reservations_take_org_write_or_an_admin(organization: Organization) -> None:
    node_id = await own_node(organization)
    made = await reserve(organization, node_id, [0])
    create = "/v1/orgs/{org}/api-keys/create"
    scopes = ["clusters:write", "vms:read", "vms:write", "inference", "billing:read"]
    key = (await organization.ok("POST", create, {"name": "most", "scopes": scopes}))["key"]
    body = {"unitIds": units(node_id, 1), "allowedOrgIds": []}
    writes = [
        ("POST", path(node_id), body),
        ("POST", path(node_id, made["id"], "release"), {}),
        ("POST", path(node_id, made["id"], "reclaim"), {}),
    ]
    reads = [("GET", path(node_id)), ("GET", path(node_id, made["id"]))]
    for method, where in reads:
        assert (await organization.call(method, where, key=key)).refusal == (403, "forbidden")
    for method, where, sent in writes:
        assert (await organization.call(method, where, sent, key=key)).refusal == (403, "forbidden")
    for role, allowed in (("viewer", False), ("member", False), ("admin", True)):
        person = await session_of(organization, role)
        for method, where, sent in writes:
            answer = await person.call(method, where.replace("{org}", organization.id), sent)
            assert (answer.status == 200) is allowed, (role, where, answer.raw)
        for method, where in reads:
            await person.ok(method, where.replace("{org}", organization.id))

"""Transfers: section 2, "Accept transfer"; how one comes about and what it does is assumed."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.money.accrual import UNITS_PER_CENT
from tests.localcloud.support.people import session_of
from tests.localcloud.support.reservations import reserve, vm_of
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import (
    DAY,
    UNTIL_RUNNING,
    act,
    new_pod,
    own_node,
    received,
    record,
    running_pod,
    set_organization,
    spent,
    status,
    subscribe,
    usage,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Answer, Organization, Server

RATE = 249
"""Cents an hour of one H100."""

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+RzrdIgTdXFxZ5hBsEvmYhbqQGXmmnHqTkcFFSYYjC someone@host"


async def offer(workload_id: str, receiver: Organization) -> str:
    body = {"workloadId": workload_id, "toOrganizationId": receiver.id}
    answer = await receiver.server.ok("POST", "/transfers", body)
    assert list(answer) == ["id"]
    return str(answer["id"])


async def accept(receiver: Organization, transfer_id: str, body: object = None) -> Any:
    return await receiver.ok("POST", f"/v1/transfers/{transfer_id}/accept", body or {})


async def refused(receiver: Organization, transfer_id: str, body: object = None) -> tuple[int, str]:
    answer = await receiver.call("POST", f"/v1/transfers/{transfer_id}/accept", body or {})
    return answer.refusal


async def ssh_key(organization: Organization, name: str) -> str:
    body = {"name": name, "publicKey": KEY}
    return str((await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", body))["id"])


async def endpoint(server: Server, workload_id: str, caller: Organization) -> Answer:
    return await request("GET", f"{server.ready['gatewayUrl']}/_w/{workload_id}/", key=caller.api_key)


async def attached(server: Server, workload_id: str) -> list[str]:
    rows = (await server.ok("GET", "/export"))["tables"]["attached_ssh_keys"]
    return [row["ssh_key_id"] for row in rows if row["workload_id"] == workload_id]


async def test_a_workload_changes_its_organization(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization, name="trainer")
    before = await record(organization, pod_id)
    accepted = await accept(receiver, await offer(pod_id, receiver))
    assert accepted == {**before, "organizationId": receiver.id}
    assert await record(receiver, pod_id) == accepted
    for method, path in (("GET", ""), ("POST", "/stop"), ("POST", "/terminate")):
        answer = await organization.call(method, f"/v1/vms/{pod_id}{path}")
        assert answer.refusal == (404, "not_found")
    assert await running_pod(organization, name="trainer") != pod_id


@pytest.mark.usefixtures("early_in_a_month")
@pytest.mark.parametrize("fraction", [0, 0.25, 0.999])
async def test_billing_splits_at_that_second_and_loses_nothing(server: Server, fraction: float) -> None:
    sender, receiver = await server.organization(), await server.organization()
    pod_id = await running_pod(sender)
    await server.advance(1799 + fraction)
    await accept(receiver, await offer(pod_id, receiver))
    await server.advance(5401 - fraction)
    await act(receiver, pod_id, "terminate")
    await server.advance(DAY)
    used = [(await usage(organization))["breakdown"] for organization in (sender, receiver)]
    [[first], [second]] = used
    assert first["resourceId"] == second["resourceId"] == pod_id
    seconds = [round(line["hours"] * 3600) for line in (first, second)]
    assert sum(seconds) == 7200
    assert seconds[0] in {1799, 1800}
    assert await spent(sender) == seconds[0] * RATE // 3600
    assert await spent(receiver) == seconds[1] * RATE // 3600
    ledger = (await server.ok("GET", "/export"))["tables"]["usage_records"]
    stints = [row for row in ledger if row["resource_id"] == pod_id]
    assert [row["organization_id"] for row in stints] == [sender.id, receiver.id]
    assert stints[0]["ended_at"] == stints[1]["started_at"]
    assert {row["rate_cents"] for row in stints} == {RATE}


@pytest.mark.parametrize("seed", range(3))
async def test_no_second_is_lost_or_paid_twice_however_often_it_changes_hands(server: Server, seed: int) -> None:
    chance = random.Random(seed)
    owners = [await server.organization() for _ in range(3)]
    holder = owners[0]
    pod_id = await running_pod(holder)
    began = await server.advance(0)
    for _ in range(8):
        await server.advance(chance.choice([0, 0.4, 1, 59.9, 3600 * chance.random()]))
        taker = chance.choice([organization for organization in owners if organization is not holder])
        await accept(taker, await offer(pod_id, taker))
        holder = taker
    ended = await server.advance(chance.random() * 100)
    await act(holder, pod_id, "terminate")
    ledger = (await server.ok("GET", "/export"))["tables"]["usage_records"]
    stints = [row for row in ledger if row["resource_id"] == pod_id]
    assert [(row["started_at"], row["rate_cents"]) for row in stints[1:]] == [
        (row["ended_at"], RATE) for row in stints[:-1]
    ]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    first, last = ((datetime.fromisoformat(moment) - epoch) // timedelta(microseconds=1) for moment in (began, ended))
    assert (stints[0]["started_at"], stints[-1]["ended_at"]) == (first, last)
    for organization in owners:
        own = sum(row["ended_at"] - row["started_at"] for row in stints if row["organization_id"] == organization.id)
        assert await spent(organization) == own * RATE // UNITS_PER_CENT


async def test_burn_goes_with_the_workload(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    await accept(receiver, await offer(pod_id, receiver))
    assert (await usage(organization))["burnPerHourCents"] == 0
    assert (await usage(receiver))["burnPerHourCents"] == RATE
    await set_organization(organization, balanceCents=-1)
    await server.advance(DAY)
    assert await status(receiver, pod_id) == "running"
    await set_organization(receiver, balanceCents=0)
    await server.advance(1)
    assert await status(receiver, pod_id) == "stopped"


async def test_a_stopped_workload_is_billed_to_nobody_and_started_by_its_new_organization(
    server: Server, organization: Organization
) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    await act(organization, pod_id, "stop")
    await server.advance(1)
    await accept(receiver, await offer(pod_id, receiver))
    await server.advance(DAY)
    assert await spent(receiver) == 0
    await act(receiver, pod_id, "restart")
    await server.advance(UNTIL_RUNNING + 3600)
    assert await spent(receiver) == RATE


async def test_a_start_under_way_is_billed_to_whom_it_belongs_then(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod = await new_pod(organization)
    await accept(receiver, await offer(pod["id"], receiver))
    await server.advance(UNTIL_RUNNING + 3600)
    assert (await spent(organization), await spent(receiver)) == (0, RATE)


@pytest.mark.parametrize(("seconds", "state"), [(0.5, "stopping"), (1, "stopped")])
async def test_a_pod_that_one_balance_stopped_is_kept_by_the_other(
    server: Server, organization: Organization, seconds: float, state: str
) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-1)
    await server.advance(seconds)
    assert await status(organization, pod_id) == state
    accepted = await accept(receiver, await offer(pod_id, receiver))
    assert "statusReason" not in accepted
    await server.advance(8 * DAY)
    assert await status(receiver, pod_id) == "stopped"


async def test_the_ssh_keys_of_the_new_organization_take_the_place_of_the_old_ones(
    server: Server, organization: Organization
) -> None:
    receiver = await server.organization()
    old, new = await ssh_key(organization, "old"), await ssh_key(receiver, "new")
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box", "sshKeyIds": [old, old]})
    assert await attached(server, vm["id"]) == [old]
    transfer = await offer(vm["id"], receiver)
    assert await refused(receiver, transfer, {"sshKeyIds": [old]}) == (422, "unprocessable")
    await accept(receiver, transfer, {"sshKeyIds": [new]})
    assert await attached(server, vm["id"]) == [new]


async def test_without_keys_none_is_left(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    key = await ssh_key(organization, "old")
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box", "sshKeyIds": [key]})
    answer = await receiver.call("POST", f"/v1/transfers/{await offer(vm['id'], receiver)}/accept")
    assert answer.status == 200
    assert await attached(server, vm["id"]) == []


async def test_snapshots_go_with_their_vm(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box"})
    await server.advance(UNTIL_RUNNING)
    path = f"/v1/vms/{vm['id']}/snapshots"
    made = await organization.ok("POST", f"{path}/create", {"name": "s"})
    await accept(receiver, await offer(vm["id"], receiver))
    assert await receiver.ok("GET", path) == {"items": [{**made, "organizationId": receiver.id}]}
    assert (await organization.call("GET", f"{path}/{made['id']}")).refusal == (404, "not_found")


async def test_events_go_to_the_organization_that_has_it(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    taker = await server.organization()
    await subscribe(taker, receiver)
    pod_id = await running_pod(organization)
    await accept(taker, await offer(pod_id, taker))
    await act(taker, pod_id, "stop")
    await server.advance(1)
    [event] = await received(receiver, bool)
    assert (event["type"], event["data"]["organizationId"]) == ("vm.stopped", taker.id)


async def test_its_endpoint_takes_the_key_of_the_new_organization(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    assert (await endpoint(server, pod_id, organization)).status == 200
    await accept(receiver, await offer(pod_id, receiver))
    assert (await endpoint(server, pod_id, organization)).status == 403
    assert (await endpoint(server, pod_id, receiver)).status == 200


async def test_a_name_that_the_new_organization_has_is_409(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization, name="trainer")
    clash = await running_pod(receiver, name="trainer")
    transfer = await offer(pod_id, receiver)
    assert await refused(receiver, transfer) == (409, "conflict")
    assert (await record(organization, pod_id))["organizationId"] == organization.id
    await act(receiver, clash, "terminate")
    await accept(receiver, transfer)


async def test_a_transfer_is_accepted_once(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    transfer = await offer(pod_id, receiver)
    await accept(receiver, transfer)
    assert await refused(receiver, transfer) == (409, "conflict")
    back = await offer(pod_id, organization)
    assert (await accept(organization, back))["organizationId"] == organization.id
    assert await refused(receiver, transfer) == (409, "conflict")


async def test_a_newer_offer_withdraws_the_earlier(server: Server, organization: Organization) -> None:
    first, second = await server.organization(), await server.organization()
    pod_id = await running_pod(organization)
    earlier, newer = await offer(pod_id, first), await offer(pod_id, second)
    assert await refused(first, earlier) == (410, "gone")
    await accept(second, newer)


async def test_only_the_organization_that_it_was_offered_to_accepts(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    transfer = await offer(await running_pod(organization), receiver)
    for other in (organization, await server.organization()):
        assert await refused(other, transfer) == (404, "not_found")
    assert await refused(receiver, "trf_none") == (404, "not_found")
    viewer = await session_of(receiver, "viewer")
    answer = await viewer.call("POST", f"/v1/transfers/{transfer}/accept", {})
    assert answer.refusal == (403, "forbidden")
    member = await session_of(receiver, "member")
    assert (await member.call("POST", f"/v1/transfers/{transfer}/accept", {})).status == 200


async def test_what_was_terminated_cannot_be_accepted(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    transfer = await offer(pod_id, receiver)
    await act(organization, pod_id, "terminate")
    assert await refused(receiver, transfer) == (409, "conflict")
    await server.advance(2 * DAY)
    assert await refused(receiver, transfer) == (404, "not_found")  # the offer is forgotten with what it was of


async def test_without_funds_nothing_that_runs_is_accepted(server: Server, organization: Organization) -> None:
    poor = await server.organization(balanceCents=0)
    pod_id = await running_pod(organization)
    transfer = await offer(pod_id, poor)
    assert await refused(poor, transfer) == (402, "INSUFFICIENT_BALANCE")
    assert await status(organization, pod_id) == "running"
    await act(organization, pod_id, "stop")
    await accept(poor, transfer)
    await server.advance(1)
    assert (await status(poor, pod_id), await spent(poor)) == ("stopped", 100_000)


async def test_a_workload_on_a_node_of_its_own_organization_stays(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    await own_node(organization)
    pod_id = await running_pod(organization)
    assert await refused(receiver, await offer(pod_id, receiver)) == (409, "conflict")
    assert await status(organization, pod_id) == "running"


async def test_on_reserved_units_it_goes_to_organizations_that_may_have_them(
    server: Server, organization: Organization
) -> None:
    tenant, partner, other = [await server.organization() for _ in range(3)]
    node = await own_node(organization)
    await reserve(organization, node, [0, 1], tenant, partner)
    vm_id = await vm_of(tenant, nodeId=node)
    for stranger in (other, organization):
        assert await refused(stranger, await offer(vm_id, stranger)) == (409, "conflict")
    await accept(partner, await offer(vm_id, partner))
    await server.advance(UNTIL_RUNNING)
    await act(partner, vm_id, "stop")
    await server.advance(1)
    assert await refused(other, await offer(vm_id, other)) == (409, "conflict")
    await accept(tenant, await offer(vm_id, tenant))
    await act(tenant, vm_id, "restart")
    await server.advance(UNTIL_RUNNING)
    assert await status(tenant, vm_id) == "running"


@pytest.mark.parametrize(
    "body", [{"sshKeyIds": "a"}, {"sshKeyIds": [1]}, {"sshKeyIds": [""]}, {"sshKeyIds": ["a"] * 101}, []]
)
async def test_an_acceptance_that_makes_no_sense_is_400(
    server: Server, organization: Organization, body: object
) -> None:
    receiver = await server.organization()
    transfer = await offer(await running_pod(organization), receiver)
    answer = await receiver.call("POST", f"/v1/transfers/{transfer}/accept", body)
    assert answer.refusal == (400, "invalid_request")


async def test_an_offer_that_makes_no_sense_is_refused(server: Server, organization: Organization) -> None:
    receiver = await server.organization()
    pod_id = await running_pod(organization)
    cluster = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "one"})
    for body, answered in (
        ({"workloadId": "none", "toOrganizationId": receiver.id}, 404),
        ({"workloadId": pod_id, "toOrganizationId": "none"}, 404),
        ({"workloadId": pod_id, "toOrganizationId": organization.id}, 409),
        ({"workloadId": cluster["id"], "toOrganizationId": receiver.id}, 422),
        ({"workloadId": pod_id}, 400),
        ({"workloadId": pod_id, "toOrganizationId": receiver.id, "more": 1}, 400),
    ):
        assert (await server.control("POST", "/transfers", body)).refusal[0] == answered
    await act(organization, pod_id, "terminate")
    body = {"workloadId": pod_id, "toOrganizationId": receiver.id}
    assert (await server.control("POST", "/transfers", body)).refusal == (409, "conflict")


async def test_an_offer_and_its_acceptance_survive_kills(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    sender, taker = server.seeded(), await server.organization()
    pod_id = await running_pod(sender)
    transfer = await offer(pod_id, taker)
    server.kill()
    again = start_server("--state", str(tmp_path))
    taker = replace(taker, server=again)
    await accept(taker, transfer)
    again.kill()
    third = start_server("--state", str(tmp_path))
    taker = replace(taker, server=third)
    assert await status(taker, pod_id) == "running"
    assert await refused(taker, transfer) == (409, "conflict")

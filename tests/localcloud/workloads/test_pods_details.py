"""Pods around the tables of section 3: the settled details, and their events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.pods import burn, in_state, interrupted_pod, units_of
from tests.localcloud.support.workloads import (
    DAY,
    GRACE,
    UNTIL_RUNNING,
    act,
    free_gpus,
    happens,
    new_pod,
    own_node,
    received,
    record,
    running_pod,
    set_node,
    set_organization,
    spent,
    status,
    subscribe,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

HOUR = 3600


@pytest.mark.parametrize(
    ("state", "action", "answered"),
    [
        ("deploying", "stop", 409),
        ("deploying", "restart", 409),
        ("running", "restart", 200),
        ("stopping", "stop", 200),
        ("stopping", "restart", 409),
        ("stopped", "stop", 200),
        ("failed", "stop", 409),
        ("interrupted", "restart", 409),
    ],
)
async def test_actions_that_change_no_state(organization: Organization, state: str, action: str, answered: int) -> None:
    node = await own_node(organization)
    pod_id = await in_state(organization, node, state)
    assert (await organization.call("POST", f"/v1/vms/{pod_id}/{action}")).status == answered
    assert await status(organization, pod_id) == state


@pytest.mark.parametrize("action", ["stop", "restart"])
async def test_actions_on_a_terminated_pod_are_409(organization: Organization, action: str) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await act(organization, pod_id, "terminate")
    assert (await organization.call("POST", f"/v1/vms/{pod_id}/{action}")).refusal[0] == 409
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/visibility", {"public": True})
    assert answer.refusal[0] == 409


async def test_a_failed_pod_says_why_and_holds_no_gpu(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await happens(organization, pod_id, "fail", reason="Image cannot be pulled.")
    shown = await record(organization, pod_id)
    assert (shown["status"], shown["statusReason"]) == ("failed", "Image cannot be pulled.")
    assert await units_of(organization, node) == []
    assert await burn(organization) == 0
    await act(organization, pod_id, "restart")
    assert "statusReason" not in await record(organization, pod_id)


async def test_a_pod_does_not_start_on_a_node_that_fell_silent(organization: Organization) -> None:
    node = await own_node(organization)
    pod = await new_pod(organization)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE - 1)
    assert await status(organization, pod["id"]) == "deploying"
    await set_node(organization, node, reporting=True)
    assert await status(organization, pod["id"]) == "running"


async def test_what_cannot_start_says_why_until_it_starts(organization: Organization) -> None:
    node = await own_node(organization)
    pod = await new_pod(organization)
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box", "gpuModelId": "h100"})
    await set_node(organization, node, reporting=False)
    await organization.server.advance(UNTIL_RUNNING)
    for made in (pod, vm):
        assert "does not report" in (await record(organization, made["id"]))["statusReason"]
    await set_node(organization, node, reporting=True)
    for made in (pod, vm):
        shown = await record(organization, made["id"])
        assert (shown["status"], shown.get("statusReason")) == ("running", None)


async def test_a_start_on_a_silent_node_is_interrupted_after_the_grace(organization: Organization) -> None:
    node = await own_node(organization)
    pod = await new_pod(organization)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE)
    assert await status(organization, pod["id"]) == "interrupted"
    await set_node(organization, node, reporting=True)
    assert await status(organization, pod["id"]) == "running"


async def test_a_start_can_fail(organization: Organization) -> None:
    node = await own_node(organization)
    pod = await new_pod(organization)
    await happens(organization, pod["id"], "fail", reason="Image cannot be pulled.")
    await organization.server.advance(HOUR)
    assert await status(organization, pod["id"]) == "failed"
    assert await units_of(organization, node) == []


async def test_a_silent_node_takes_nothing_on(server: Server) -> None:
    organization = await server.organization()
    node = await own_node(organization, "rtx4090", count=1)
    before = await free_gpus(organization, "rtx4090")
    await set_node(organization, node, reporting=False)
    assert await free_gpus(organization, "rtx4090") == before - 1


async def test_webhooks_tell_of_running_stopped_and_terminated(organization: Organization, receiver: Receiver) -> None:
    await own_node(organization)
    await subscribe(organization, receiver)
    pod_id = await running_pod(organization, name="told")
    await act(organization, pod_id, "restart")
    await happens(organization, pod_id, "exit")
    await act(organization, pod_id, "stop")
    await organization.server.advance(1)
    await act(organization, pod_id, "terminate")
    events = await received(receiver, lambda events: len(events) == 3)
    assert sorted(event["type"] for event in events) == ["vm.running", "vm.stopped", "vm.terminated"]
    assert all(event["data"]["vmId"] == event["data"]["podId"] == pod_id for event in events)


async def test_stopped_is_told_when_the_gpus_are_free_not_before(
    organization: Organization, receiver: Receiver
) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await subscribe(organization, receiver)
    await act(organization, pod_id, "stop")
    await organization.server.advance(0.5)
    assert receiver.types == []
    await organization.server.advance(0.5)
    assert receiver.types == ["vm.stopped"]
    [event] = await received(receiver, bool)
    assert event["data"]["statusReason"] is None


async def test_stopped_for_lack_of_funds_is_told_with_its_reason(
    organization: Organization, receiver: Receiver
) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await subscribe(organization, receiver)
    await set_organization(organization, balanceCents=-1)
    await organization.server.advance(1)
    [event] = await received(receiver, bool)
    told = (await record(organization, pod_id))["statusReason"]
    assert (event["type"], event["data"]["statusReason"]) == ("vm.stopped", told)
    assert told.startswith("The balance ran out")


async def test_a_return_from_interruption_is_told_as_running(organization: Organization, receiver: Receiver) -> None:
    node = await own_node(organization)
    await interrupted_pod(organization, node)
    await subscribe(organization, receiver)
    await set_node(organization, node, reporting=True)
    assert [event["type"] for event in await received(receiver, bool)] == ["vm.running"]


async def test_usage_of_a_stopped_pod_is_what_its_stints_cost(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await organization.server.advance(1800)
    await act(organization, pod_id, "stop")
    await organization.server.advance(DAY)
    await act(organization, pod_id, "restart")
    await organization.server.advance(UNTIL_RUNNING + 1800)
    assert await spent(organization) == 249


async def test_what_is_under_way_goes_on_after_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    organization = server.seeded()
    starting = await new_pod(organization, name="starting")
    await own_node(organization, "a100", count=1)
    await server.advance(1)
    server.kill()
    server.start()
    organization = server.seeded()
    assert await status(organization, starting["id"]) == "deploying"
    await server.advance(1)
    assert await status(organization, starting["id"]) == "running"
    assert await free_gpus(organization) == 15
    assert await free_gpus(organization, "a100") == 17

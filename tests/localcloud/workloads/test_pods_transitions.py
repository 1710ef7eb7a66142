"""Section 3, "Pod status": every row of both tables is a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.pods import burn, in_state, interrupted_pod, out_of_funds, units_of
from tests.localcloud.support.workloads import (
    DAY,
    GRACE,
    UNTIL_RUNNING,
    act,
    emails,
    happens,
    new_pod,
    own_node,
    record,
    running_pod,
    set_node,
    set_organization,
    spent,
    status,
    stopped_pod,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

HOUR = 3600


# The first table: what is billed, and who holds GPUs.


async def test_deploying_is_not_billed_and_holds_its_gpus(organization: Organization) -> None:
    node = await own_node(organization)
    pod = await new_pod(organization, gpuCount=2)
    assert await burn(organization) == 0
    assert await units_of(organization, node) == [pod["id"]] * 2


async def test_running_is_billed_and_holds_its_gpus(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization, gpuCount=2)
    assert await burn(organization) == 498
    assert await units_of(organization, node) == [pod_id] * 2


async def test_stopped_is_not_billed_and_holds_no_gpu(organization: Organization) -> None:
    node = await own_node(organization)
    await stopped_pod(organization)
    assert await burn(organization) == 0
    assert await units_of(organization, node) == []


async def test_interrupted_is_not_billed_and_holds_its_gpus(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await interrupted_pod(organization, node)
    assert await burn(organization) == 0
    assert await units_of(organization, node) == [pod_id]


async def test_terminated_is_not_billed_and_holds_no_gpu(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    assert (await act(organization, pod_id, "terminate"))["status"] == "terminated"
    assert await burn(organization) == 0
    assert await units_of(organization, node) == []


# The second table, row by row.


async def test_stop_of_running_releases_the_gpus_once_it_is_stopped(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    assert (await act(organization, pod_id, "stop"))["status"] == "stopping"
    assert await units_of(organization, node) == [pod_id]
    await organization.server.advance(1)
    assert await status(organization, pod_id) == "stopped"
    assert await units_of(organization, node) == []


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_restart_claims_gpus_on_the_same_node_again(organization: Organization, how: str) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization) if how == "failed" else await stopped_pod(organization)
    if how == "failed":
        await happens(organization, pod_id, "fail", reason="Image cannot be pulled.")
    await own_node(organization)
    assert (await act(organization, pod_id, "restart"))["status"] == "deploying"
    assert await units_of(organization, node) == [pod_id]
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, pod_id) == "running"


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_restart_on_a_busy_node_is_409_with_the_free_count(organization: Organization, how: str) -> None:
    await own_node(organization, count=4)
    pod_id = await running_pod(organization, gpuCount=2)
    if how == "failed":
        await happens(organization, pod_id, "fail")
    else:
        await act(organization, pod_id, "stop")
        await organization.server.advance(1)
    await new_pod(organization, gpuCount=3)
    await own_node(organization)
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert answer.refusal == (409, "POD_NODE_BUSY")
    assert "1 free" in answer.body["error"]
    assert await status(organization, pod_id) == how


async def test_restart_on_an_offline_node_is_409(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await stopped_pod(organization)
    await set_node(organization, node, reporting=False)
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert answer.refusal == (409, "POD_NODE_OFFLINE")
    assert await status(organization, pod_id) == "stopped"


async def test_restart_with_an_older_agent_is_409_for_infiniband_organizations(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await stopped_pod(organization)
    await set_node(organization, node, infinibandAgent=False)
    await set_organization(organization, infiniband=True)
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert answer.refusal == (409, "POD_NODE_NO_INFINIBAND")
    assert await status(organization, pod_id) == "stopped"
    await set_organization(organization, infiniband=False)
    await act(organization, pod_id, "restart")


async def test_restart_while_the_previous_run_is_torn_down_is_409(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await act(organization, pod_id, "stop")
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert answer.refusal == (409, "POD_STOPPING")
    assert await status(organization, pod_id) == "stopping"


async def test_restart_of_running_stays_running_and_billing_continues(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await organization.server.advance(HOUR)
    assert (await act(organization, pod_id, "restart"))["status"] == "running"
    await organization.server.advance(HOUR)
    assert await spent(organization) == 2 * 249
    assert await units_of(organization, node) == [pod_id]


async def test_a_container_that_exits_is_recreated_on_the_same_node(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await happens(organization, pod_id, "exit")
    assert await status(organization, pod_id) == "running"
    assert await units_of(organization, node) == [pod_id]
    await organization.server.advance(HOUR)
    assert await spent(organization) == 249


async def test_a_silent_node_interrupts_after_the_grace_and_billing_stops(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE - 1)
    assert await status(organization, pod_id) == "running"
    await organization.server.advance(1)
    assert await status(organization, pod_id) == "interrupted"
    assert (await record(organization, pod_id))["statusReason"]
    used = await spent(organization)
    await organization.server.advance(HOUR)
    assert await spent(organization) == used == GRACE * 249 // HOUR


async def test_a_node_that_returns_within_the_grace_interrupts_nothing(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE - 1)
    await set_node(organization, node, reporting=True)
    await organization.server.advance(DAY)
    assert await status(organization, pod_id) == "running"


async def test_interrupted_runs_again_when_its_node_returns(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await interrupted_pod(organization, node)
    await organization.server.advance(6 * DAY)
    await set_node(organization, node, reporting=True)
    assert await status(organization, pod_id) == "running"
    assert await burn(organization) == 249
    await organization.server.advance(2 * DAY)
    assert await status(organization, pod_id) == "running", "the seven days of before count no longer"


async def test_interrupted_can_be_stopped(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await interrupted_pod(organization, node)
    assert (await act(organization, pod_id, "stop"))["status"] == "stopped"
    assert await units_of(organization, node) == []
    await organization.server.advance(8 * DAY)
    assert await status(organization, pod_id) == "stopped", "what the caller stopped is kept until deleted"


async def test_interrupted_can_be_terminated(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await interrupted_pod(organization, node)
    assert (await act(organization, pod_id, "terminate"))["status"] == "terminated"
    assert await units_of(organization, node) == []


async def test_interrupted_for_seven_days_is_terminated_after_an_email(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await interrupted_pod(organization, node)
    await organization.server.advance(7 * DAY - 1)
    assert (await status(organization, pod_id), await emails(organization)) == ("interrupted", [])
    await organization.server.advance(1)
    assert await status(organization, pod_id) == "terminated"
    [email] = await emails(organization)
    assert pod_id in email["body"]
    assert "7 days" in email["body"]
    assert await units_of(organization, node) == []


@pytest.mark.parametrize("state", ["deploying", "running", "stopping", "stopped", "failed", "interrupted"])
async def test_a_removed_node_terminates_after_an_email(organization: Organization, state: str) -> None:
    node = await own_node(organization)
    pod_id = await in_state(organization, node, state)
    await set_node(organization, node, removed=True)
    shown = await record(organization, pod_id)
    assert shown["status"] == "terminated"
    assert "removed" in shown["statusReason"]
    [email] = await emails(organization)
    assert pod_id in email["body"]
    assert await burn(organization) == 0


async def test_running_is_stopped_when_the_balance_runs_out(organization: Organization) -> None:
    node = await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=249)
    await organization.server.advance(HOUR)
    assert await status(organization, pod_id) == "running", "nothing is left, and nothing is missing"
    await organization.server.advance(HOUR)
    shown = await record(organization, pod_id)
    assert shown["status"] == "stopped"
    assert "balance" in shown["statusReason"]
    assert await units_of(organization, node) == []


async def test_stopped_by_the_balance_is_terminated_after_seven_days_and_an_email(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await out_of_funds(organization)
    await organization.server.advance(7 * DAY - 10)
    assert (await status(organization, pod_id), await emails(organization)) == ("stopped", [])
    await organization.server.advance(10)
    assert await status(organization, pod_id) == "terminated"
    [email] = await emails(organization)
    assert pod_id in email["body"]


async def test_stopped_by_the_balance_is_kept_once_funded(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await out_of_funds(organization)
    await organization.server.advance(6 * DAY)
    assert "deleted" in (await record(organization, pod_id))["statusReason"]
    await set_organization(organization, balanceCents=10_000)
    assert "deleted" not in (await record(organization, pod_id))["statusReason"]
    await organization.server.advance(30 * DAY)
    assert (await status(organization, pod_id), await emails(organization)) == ("stopped", [])
    await act(organization, pod_id, "restart")
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, pod_id) == "running"


async def test_stopped_by_a_raised_floor_is_kept_once_the_floor_is_lower(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, autoStopFloorCents=1_000_000)
    await organization.server.advance(DAY)
    assert "deleted" in (await record(organization, pod_id))["statusReason"]
    await set_organization(organization, autoStopFloorCents=0)
    assert "deleted" not in (await record(organization, pod_id))["statusReason"]
    await organization.server.advance(30 * DAY)
    assert (await status(organization, pod_id), await emails(organization)) == ("stopped", [])


async def test_funded_while_it_stops_it_never_speaks_of_deletion_again(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-1)
    assert await status(organization, pod_id) == "stopping"
    await set_organization(organization, balanceCents=10_000)
    for seconds in (1, 7 * DAY):
        await organization.server.advance(seconds)
        shown = await record(organization, pod_id)
        assert shown["status"] == "stopped"
        assert "deleted" not in shown["statusReason"]


async def test_stopped_by_the_balance_starts_only_with_funds(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await out_of_funds(organization)
    answer = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    assert await status(organization, pod_id) == "stopped"


@pytest.mark.parametrize("state", ["deploying", "running", "stopping", "stopped", "failed", "interrupted"])
async def test_any_state_can_be_terminated_and_a_second_time_changes_nothing(
    organization: Organization, state: str
) -> None:
    node = await own_node(organization)
    pod_id = await in_state(organization, node, state)
    assert (await act(organization, pod_id, "terminate"))["status"] == "terminated"
    assert (await act(organization, pod_id, "terminate"))["status"] == "terminated"
    await organization.server.advance(HOUR)
    assert await status(organization, pod_id) == "terminated"
    assert await units_of(organization, node) == []
    assert await burn(organization) == 0

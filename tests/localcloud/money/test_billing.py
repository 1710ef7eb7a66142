"""Money: sections 2 and 3, exact to the cent and to the second."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.money import accrual
from relay_localcloud.money.accrual import Meter
from relay_localcloud.money.ledger import AccountRow, metered
from tests.localcloud.support.workloads import (
    DAY,
    UNTIL_RUNNING,
    act,
    balance,
    happens,
    new_pod,
    own_node,
    record,
    running_pod,
    set_organization,
    spent,
    status,
    usage,
)

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

HOUR = 3600
NOVEMBER = 1_793_491_200 * SECOND  # 2026-11-01T00:00:00Z
LONG = DAY * SECOND


# The arithmetic.


@given(
    st.lists(st.tuples(st.integers(0, 90 * LONG), st.integers(0, 90 * LONG), st.integers(0, 10_000)), max_size=8),
    st.integers(0, 100 * LONG),
)
def test_a_meter_adds_up_what_every_stint_costs(stints: list[tuple[int, int, int]], until: int) -> None:
    """However often it is read, and over however many months: (start, length, rate) in microseconds against a meter."""
    changes = sorted(
        [(start, rate) for start, _, rate in stints] + [(start + length, -rate) for start, length, rate in stints]
    )
    meter = Meter(NOVEMBER, NOVEMBER, 0, 0, 0)
    for at, by in changes:
        if at <= until:
            meter = accrual.read(meter, NOVEMBER + at)
            meter = Meter(meter.read_at, meter.month_start, meter.month_units, meter.earlier_units, meter.burn + by)
    meter = accrual.read(meter, NOVEMBER + until)
    begun = accrual.month_start(NOVEMBER + until) - NOVEMBER
    total = sum(rate * max(0, min(start + length, until) - start) for start, length, rate in stints)
    month = sum(rate * max(0, min(start + length, until) - max(start, begun)) for start, length, rate in stints)
    assert (meter.accrued_units, meter.month_units) == (total, month)


@given(st.integers(-1000, 10_000), st.integers(-100, 100), st.integers(1, 5000), st.integers(0, 10_000))
def test_the_auto_stop_is_the_first_instant_below_the_floor(
    balance_cents: int, floor: int, rate: int, units: int
) -> None:
    meter = Meter(NOVEMBER, NOVEMBER, units, 0, rate)

    def available(instant: int) -> int:
        return balance_cents - accrual.cents(accrual.read(meter, instant).accrued_units)

    instant = accrual.instant_below(meter, balance_cents, floor)
    assert instant is not None
    assert available(instant) < floor
    assert instant == NOVEMBER or available(instant - 1) >= floor


@given(st.lists(st.tuples(st.integers(1, 10 * SECOND), st.integers(0, 10 * SECOND)), max_size=50))
def test_what_is_billed_is_what_ran_however_it_is_cut_into_stints(stints: list[tuple[int, int]]) -> None:
    """(length, pause) one after another, against one stint as long as all of them."""
    meter = Meter(NOVEMBER, NOVEMBER, 0, 0, 0)
    for length, pause in stints:
        running = replace(meter, burn=249)
        meter = replace(accrual.read(running, running.read_at + length), burn=0)
        meter = accrual.read(meter, meter.read_at + pause)
    at_once = accrual.read(Meter(NOVEMBER, NOVEMBER, 0, 0, 249), NOVEMBER + sum(length for length, _ in stints))
    assert meter.accrued_units == at_once.accrued_units


@given(st.integers(0, 10**30), st.integers(0, 10**30), st.integers(0, 10**12))
def test_a_meter_is_kept_in_integers_that_fit(month: int, earlier: int, burn: int) -> None:
    meter = Meter(NOVEMBER, NOVEMBER, month, earlier, burn)
    kept = metered(meter)
    assert AccountRow("org", 0, funded_at=None, **dict[str, Any](kept)).meter == meter
    assert 0 <= kept["month_rest"] < SECOND
    assert 0 <= kept["earlier_rest"] < SECOND


def test_nothing_that_burns_never_falls_below() -> None:
    assert accrual.instant_below(Meter(NOVEMBER, NOVEMBER, 0, 0, 0), 0, 0) is None


@given(st.lists(st.integers(0, 100_000 * SECOND), max_size=20))
def test_shares_add_up_to_the_floored_total(units: list[int]) -> None:
    shares = accrual.shares_in_cents(units)
    assert sum(shares) == accrual.cents(sum(units))
    assert all(abs(share - amount / accrual.UNITS_PER_CENT) <= 1 for share, amount in zip(shares, units, strict=True))


@pytest.mark.parametrize(
    ("available", "burn", "cap", "least"),
    [
        (100_000, 0, 50_000, 1000),
        (100_000, 100, 50_000, 1000),
        (0, 100, 50_000, 7200),
        (7000, 100, 50_000, 1000),
        (0, 10_000, 50_000, 50_000),
        (0, 10_000, 20_000, 20_000),
        (0, 10_000, 80_000, 50_000),
    ],
)
def test_the_smallest_deposit_is_three_days_within_the_cap(available: int, burn: int, cap: int, least: int) -> None:
    assert accrual.min_deposit_cents(available, 0, burn, cap) == least


@pytest.mark.parametrize(("available", "burn", "hours"), [(498, 249, 2.0), (0, 249, 0), (-5, 249, 0), (498, 0, None)])
def test_runway(available: int, burn: int, hours: float | None) -> None:
    assert accrual.runway_hours(available, 0, burn) == hours


# What is served.


async def test_a_fresh_balance(organization: Organization) -> None:
    shown = await balance(organization)
    [transaction] = shown.pop("transactions")
    assert (transaction["type"], transaction["amountCents"]) == ("credit", 100_000)
    assert shown == {
        "balanceCents": 100_000,
        "availableCents": 100_000,
        "accruedUsageCents": 0,
        "currentMonthUsageCents": 0,
        "minDepositCents": 1000,
        "monthlySpendLimitCents": None,
    }


async def test_only_running_is_billed_per_second_at_the_rate_of_create(organization: Organization) -> None:
    await own_node(organization)
    pod = await new_pod(organization, gpuCount=8)
    rate = pod["pricePerHourCents"]
    await organization.server.advance(UNTIL_RUNNING)
    for seconds, cents in [(1, 0), (1, 1), (58, rate // 60)]:
        await organization.server.advance(seconds)
        assert await spent(organization) == cents
    await act(organization, pod["id"], "stop")
    await organization.server.advance(DAY)
    assert await spent(organization) == rate // 60


@pytest.mark.usefixtures("early_in_a_month")
@pytest.mark.parametrize("microseconds", [1, 900_000, SECOND, SECOND + 1])
async def test_forty_stints_cost_what_they_ran_together(server: Server, microseconds: int) -> None:
    """Each within one second of the clock, or just beyond it."""
    moment = datetime.fromisoformat(await server.advance(1)).replace(microsecond=0)
    await server.ok("POST", "/clock", {"set": (moment + timedelta(seconds=1)).isoformat()})
    organization = await server.organization()
    await own_node(organization)
    pod = await new_pod(organization, gpuCount=8)
    for again in range(40):
        if again:
            await act(organization, pod["id"], "restart")
        await server.advance(UNTIL_RUNNING)
        await server.advance(microseconds / SECOND)
        await act(organization, pod["id"], "stop")
        await server.advance(3 - microseconds / SECOND)
    ran = 40 * microseconds
    assert await spent(organization) == pod["pricePerHourCents"] * ran // accrual.UNITS_PER_CENT
    used = await usage(organization)
    assert used["usageHours"] == ran / (HOUR * SECOND)
    assert [line["hours"] for line in used["breakdown"]] == [microseconds / (HOUR * SECOND)] * 40
    assert used["usageCents"] == sum(line["cents"] for line in used["breakdown"]) == await spent(organization)


@pytest.mark.usefixtures("early_in_a_month")
async def test_balance_is_available_plus_accrued(organization: Organization) -> None:
    await own_node(organization)
    await running_pod(organization)
    await organization.server.advance(HOUR)
    shown = await balance(organization)
    assert shown["balanceCents"] == 100_000
    assert shown["availableCents"] == shown["balanceCents"] - shown["accruedUsageCents"] == 100_000 - 249
    assert shown["balanceCents"] == sum(item["amountCents"] for item in shown["transactions"])


async def test_usage_has_one_line_a_run_and_sums_up(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("POST", "/clock", {"set": "2030-06-10T00:00:00Z"})
    organization = await server.organization()
    pod_id = await running_pod(organization, gpuCount=2, name="two")
    cpu = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "cpu"})
    await server.advance(UNTIL_RUNNING)
    await server.advance(1000)
    shown = await usage(organization)
    assert shown["burnPerHourCents"] == 498 + 4
    assert shown["autoStopFloorCents"] == 0
    assert shown["usageHours"] == pytest.approx((1002 + 1000) / HOUR)
    units = 498 * 1002 + 4 * 1000
    assert shown["usageCents"] == units // HOUR
    assert shown["projectedRunwayHours"] == (100_000 - units // HOUR) / 502
    lines = {line["resourceId"]: line for line in shown["breakdown"]}
    assert sum(line["cents"] for line in lines.values()) == shown["usageCents"]
    assert lines[pod_id] == {
        "resourceId": pod_id,
        "kind": "pod",
        "name": "two",
        "gpuModelId": "h100",
        "hours": pytest.approx(1002 / HOUR),
        "cents": 498 * 1002 // HOUR,
    }
    assert lines[cpu["id"]]["gpuModelId"] is None
    await act(organization, pod_id, "stop")
    await server.advance(UNTIL_RUNNING)
    await act(organization, pod_id, "restart")
    await server.advance(UNTIL_RUNNING)
    await server.advance(500)
    shown = await usage(organization)
    assert [line["hours"] for line in shown["breakdown"] if line["resourceId"] == pod_id] == [1002 / HOUR, 500 / HOUR]
    assert sum(line["cents"] for line in shown["breakdown"]) == shown["usageCents"]


async def test_the_runway_is_null_when_nothing_burns(organization: Organization) -> None:
    assert (await usage(organization))["projectedRunwayHours"] is None


async def test_usage_of_a_month_begins_at_its_first_second(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("POST", "/clock", {"set": "2030-01-31T23:00:00Z"})
    organization = await server.organization()
    await running_pod(organization)
    await server.ok("POST", "/clock", {"set": "2030-02-01T00:09:59Z"})
    shown = await balance(organization)
    assert shown["currentMonthUsageCents"] == 249 * 599 // HOUR
    assert shown["accruedUsageCents"] == 249 * (HOUR + 599 - UNTIL_RUNNING) // HOUR
    assert (await usage(organization))["usageCents"] == 249 * 599 // HOUR


async def test_the_auto_stop_comes_in_the_first_second_below_the_floor(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, autoStopFloorCents=99_000)
    pod_id = await running_pod(organization)
    # 1,001 cents at 249 an hour are used up after 14,472.2 seconds.
    await organization.server.advance(14_472)
    assert (await balance(organization))["availableCents"] == 99_000
    assert await status(organization, pod_id) == "running"
    await organization.server.advance(1)
    assert (await balance(organization))["availableCents"] == 98_999
    assert await status(organization, pod_id) == "stopping"


@pytest.mark.parametrize("floor", [0, 500])
async def test_at_the_floor_nothing_starts_and_a_cent_above_it_does(organization: Organization, floor: int) -> None:
    await own_node(organization)
    await set_organization(organization, autoStopFloorCents=floor, balanceCents=floor)
    refused = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    assert refused.refusal == (402, "INSUFFICIENT_BALANCE")
    await set_organization(organization, balanceCents=floor + 1)
    assert (await new_pod(organization))["status"] == "deploying"


async def test_funding_and_a_lower_floor_put_the_auto_stop_off(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=249)
    await organization.server.advance(1800)
    await set_organization(organization, balanceCents=498)
    await organization.server.advance(HOUR)
    assert await status(organization, pod_id) == "running"
    await set_organization(organization, autoStopFloorCents=-1000)
    await organization.server.advance(HOUR)
    assert await status(organization, pod_id) == "running"
    await set_organization(organization, autoStopFloorCents=0)
    await organization.server.advance(0)
    assert await status(organization, pod_id) in {"stopping", "stopped"}


async def test_a_negative_balance_stops_at_once(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-500)
    await organization.server.advance(1)
    assert (await balance(organization))["balanceCents"] == -500
    assert "balance" in (await record(organization, pod_id))["statusReason"]


async def test_funding_that_leaves_it_below_the_floor_saves_no_pod(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-500)
    await organization.server.advance(DAY)
    await set_organization(organization, balanceCents=-100)
    await organization.server.advance(6 * DAY)
    assert await status(organization, pod_id) == "terminated"


async def test_many_pods_over_a_month_cost_what_they_cost(organization: Organization) -> None:
    for _ in range(4):
        await own_node(organization)
    await set_organization(organization, balanceCents=100_000_000)
    for _ in range(32):
        await new_pod(organization)
    await organization.server.advance(UNTIL_RUNNING + 30 * DAY)
    shown = await balance(organization)
    assert shown["availableCents"] == 100_000_000 - 32 * 249 * 24 * 30
    assert shown["accruedUsageCents"] == shown["balanceCents"] - shown["availableCents"]
    assert (await usage(organization))["burnPerHourCents"] == 32 * 249


@pytest.mark.usefixtures("early_in_a_month")
async def test_at_the_monthly_limit_nothing_starts_and_what_runs_goes_on(organization: Organization) -> None:
    idle = await running_pod(organization)
    await act(organization, idle, "stop")
    cluster = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "c"})
    pod_id = await running_pod(organization)
    await set_organization(organization, monthlySpendLimitCents=249)
    assert (await balance(organization))["monthlySpendLimitCents"] == 249
    await new_pod(organization)
    await organization.server.advance(HOUR)
    for path, body in (
        ("/v1/pods", {"image": "app:1"}),
        ("/v1/orgs/{org}/vms/create", {"name": "v"}),
        ("/v1/orgs/{org}/clusters/create", {"name": "d"}),
        (f"/v1/vms/{idle}/restart", None),
        (f"/v1/clusters/{cluster['id']}/scale", {"replicaCount": 2}),
    ):
        answer = await organization.call("POST", path, body)
        assert answer.refusal == (402, "SPEND_LIMIT_REACHED"), path
    assert await status(organization, pod_id) == "running"
    assert (await act(organization, pod_id, "restart"))["status"] == "running"
    await set_organization(organization, monthlySpendLimitCents=None)
    await new_pod(organization)


async def test_a_failed_pod_is_billed_until_it_failed(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await organization.server.advance(HOUR)
    await happens(organization, pod_id, "fail")
    await organization.server.advance(HOUR)
    assert await spent(organization) == 249


async def test_money_is_exact_after_a_restart_of_the_cloud(start_server: StartServer, tmp_path: object) -> None:
    server = start_server("--state", f"{tmp_path}/state", "--clock", "frozen")
    organization = server.seeded()
    await running_pod(organization)
    await server.advance(HOUR)
    before = await balance(organization)
    server.kill()
    server.start()
    again = server.seeded()
    assert await balance(again) == before
    await server.advance(HOUR)
    assert await spent(again) == 2 * 249


async def test_auto_recharge_settings_are_kept(organization: Organization) -> None:
    path = "/v1/orgs/{org}/billing/auto-recharge"
    assert (await organization.ok("GET", path))["enabled"] is False
    wanted = {"enabled": True, "thresholdCents": 2000, "amountCents": 10_000}
    assert await organization.ok("PUT", path, wanted) == wanted
    assert await organization.ok("GET", path) == wanted


@pytest.mark.parametrize(
    "change", [{"amountCents": 999}, {"amountCents": 50_001}, {"enabled": None}, {"thresholdCents": "1"}]
)
async def test_auto_recharge_out_of_bounds_is_400(organization: Organization, change: dict[str, object]) -> None:
    body = {"enabled": True, "thresholdCents": 2000, "amountCents": 10_000, **change}
    assert (await organization.call("PUT", "/v1/orgs/{org}/billing/auto-recharge", body)).refusal[0] == 400


async def test_billing_needs_its_scope_and_its_organization(server: Server, organization: Organization) -> None:
    key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["vms:read"]}))[
        "key"
    ]
    other = await server.organization()
    for path in ("balance", "usage", "auto-recharge"):
        assert (await organization.call("GET", f"/v1/orgs/{{org}}/billing/{path}", key=key)).refusal[0] == 403
        assert (await other.call("GET", f"/v1/orgs/{organization.id}/billing/{path}")).refusal[0] == 403

"""Usage by day: `GET /v1/orgs/{orgId}/billing/usage/daily` (assumed)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.money import accrual, billing, usage
from relay_localcloud.money.days import Total
from tests.localcloud.support.billing import DAILY
from tests.localcloud.support.stints import START, Stints, played, steps
from tests.localcloud.support.workloads import act, balance, running_pod
from tests.localcloud.support.workloads import usage as usage_of_month

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization


async def daily(organization: Organization, days: int | None = None) -> list[Any]:
    items: list[Any] = (await organization.ok("GET", DAILY + ("" if days is None else f"?days={days}")))["items"]
    return items


async def test_every_day_is_shown_with_what_was_used_on_it(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("POST", "/clock", {"set": "2030-03-09T22:59:58Z"})
    organization = await server.organization()
    pod_id = await running_pod(organization)
    await server.ok("POST", "/clock", {"set": "2030-03-11T02:00:00Z"})
    await act(organization, pod_id, "stop")
    await server.ok("POST", "/clock", {"set": "2030-03-12T05:00:00Z"})
    assert await daily(organization, 5) == [
        {"date": "2030-03-08", "usageCents": 0, "usageHours": 0.0},
        {"date": "2030-03-09", "usageCents": 249, "usageHours": 1.0},
        {"date": "2030-03-10", "usageCents": 249 * 24, "usageHours": 24.0},
        {"date": "2030-03-11", "usageCents": 249 * 2, "usageHours": 2.0},
        {"date": "2030-03-12", "usageCents": 0, "usageHours": 0.0},
    ]


async def test_thirty_days_are_shown_unless_told_otherwise(organization: Organization) -> None:
    today = (await organization.server.ok("GET", "/clock"))["now"][:10]
    shown = await daily(organization)
    assert len(shown) == 30
    assert shown[-1] == {"date": today, "usageCents": 0, "usageHours": 0.0}
    assert len(await daily(organization, 1)) == 1
    assert len(await daily(organization, 365)) == 365


async def test_the_days_of_a_month_sum_up_to_the_month(organization: Organization) -> None:
    await running_pod(organization)
    await organization.server.advance(40 * 86_400 + 1234)
    month = (await organization.server.ok("GET", "/clock"))["now"][:7]
    days = [day for day in await daily(organization, 60) if day["date"].startswith(month)]
    assert sum(day["usageCents"] for day in days) == (await balance(organization))["currentMonthUsageCents"]
    assert sum(day["usageHours"] for day in days) == pytest.approx((await usage_of_month(organization))["usageHours"])


@pytest.mark.parametrize("days", ["0", "-1", "366", "x", "1.5", "", "9" * 30, "null"])
async def test_a_number_of_days_that_makes_no_sense_is_400(organization: Organization, days: str) -> None:
    answer = await organization.call("GET", f"{DAILY}?days={days}")
    assert answer.refusal == (400, "invalid_request")


def stints(most_rate: int) -> st.SearchStrategy[Stints]:
    instants = st.one_of(st.integers(0, 70 * DAY), st.integers(0, 70).map(lambda day: day * DAY))
    return st.lists(st.tuples(instants, st.integers(0, 40 * DAY), st.integers(1, most_rate)), max_size=6)


@given(stints(3000), st.integers(0, 80 * DAY), st.integers(1, 90))
def test_days_are_what_the_stints_on_them_cost(ran: Stints, until: int, days: int) -> None:
    with played(ran, until + START) as tx:
        shown = usage.by_day(tx, "org", days, tx.now)
    assert len(shown) == days
    for day in shown:
        begun = accrual.month_start(day.start)
        assert day.total.ran == _used(ran, day.start, min(day.start + DAY, tx.now)).ran
        before, after = (
            accrual.cents(_used(ran, begun, min(end, tx.now)).units) for end in (day.start, day.start + DAY)
        )
        assert day.cents == after - before


@given(stints(10**10), st.integers(60, 80).map(lambda day: day * DAY + 5), st.integers(1, 7))
def test_what_a_run_used_is_exact_at_any_rate(ran: Stints, until: int, most_runs: int) -> None:
    with pytest.MonkeyPatch.context() as patched, played(ran, until + START) as tx:
        patched.setattr(usage, "MOST_RUNS", most_runs)
        since = accrual.month_start(tx.now)
        used = usage.used_since(tx, "org", since, tx.now)
        assert len(used) <= most_runs + 1
        assert sum((each.total for each in used), Total(0, 0)) == _used(ran, since, tx.now)
        assert billing.account(tx, "org").meter.month_units == _used(ran, since, tx.now).units
    for each in used:
        if each.resource_id is not None:
            assert each.total == _used([ran[int(each.resource_id)]], since, tx.now)


def test_what_is_read_does_not_grow_with_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_RUNS", 20)
    took: list[tuple[int, int]] = []
    for count in (100, 1_000):
        ran = [(0, 80 * DAY, 7), *((5 * SECOND * number, SECOND, 100) for number in range(count))]
        with played(ran, START + 20 * DAY) as tx:
            by_run = steps(tx, lambda: usage.used_since(tx, "org", START, START + 20 * DAY))
            took.append((by_run, steps(tx, lambda: usage.by_day(tx, "org", 20, START + 20 * DAY))))
            used = usage.used_since(tx, "org", START, tx.now)
        assert [each.resource_id for each in used] == ["0", *map(str, range(count - 18, count + 1)), None]
        assert used[-1].total == Total((count - 19) * SECOND, (count - 19) * SECOND * 100)
    assert took[0] == pytest.approx(took[1], rel=0.1)


def _used(ran: Stints, since: int, until: int) -> Total:
    """Between two instants, run by run."""
    parts = [
        (max(0, min(START + start + length, until) - max(START + start, since)), rate) for start, length, rate in ran
    ]
    return Total(sum(time for time, _ in parts), sum(time * rate for time, rate in parts))

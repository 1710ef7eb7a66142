"""Usage by day: `GET /v1/orgs/{orgId}/billing/usage/daily` (assumed)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, insert

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.money import accrual, usage
from relay_localcloud.money.ledger import usage_records
from tests.localcloud.support.billing import DAILY
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


STORE = Store.ephemeral()
START = 1_893_456_000 * SECOND  # 2030-01-01T00:00:00Z
STINTS = st.lists(st.tuples(st.integers(0, 70 * DAY), st.integers(0, 40 * DAY), st.integers(1, 3000)), max_size=6)


@given(STINTS, st.integers(0, 80 * DAY), st.integers(1, 90))
def test_days_are_what_the_stints_on_them_cost(stints: list[tuple[int, int, int]], until: int, days: int) -> None:
    until += START
    shown = _by_day(stints, until, days)
    assert len(shown) == days
    for day in shown:
        begun = accrual.month_start(day.start)
        assert day.ran == _used(stints, day.start, min(day.start + DAY, until))[0]
        before, after = (
            _used(stints, begun, min(end, until))[1] // accrual.UNITS_PER_CENT for end in (day.start, day.start + DAY)
        )
        assert day.cents == after - before


@given(st.lists(st.tuples(st.integers(0, 70 * DAY), st.integers(0, 40 * DAY), st.integers(1, 10**10)), max_size=6))
def test_what_a_resource_used_is_exact_at_any_rate(stints: list[tuple[int, int, int]]) -> None:
    since, until = accrual.month_start(START + 60 * DAY), START + 80 * DAY
    _by_day(stints, until, 1)
    with STORE.transaction(at=until) as tx:
        used = usage.used_between(tx.connection, "org", since, until)
    assert (sum(each.ran for each in used), sum(each.units for each in used)) == _used(stints, since, until)


def _by_day(stints: list[tuple[int, int, int]], until: int, days: int) -> list[usage.Day]:
    rows = [
        {
            "organization_id": "org",
            "holder_id": str(number),
            "resource_id": "pod",
            "kind": "pod",
            "name": "pod",
            "rate_cents": rate,
            "started_at": START + start,
            "ended_at": START + start + length if START + start + length <= until else None,
        }
        for number, (start, length, rate) in enumerate(stints)
        if START + start <= until
    ]
    with STORE.transaction(at=until) as tx:
        tx.connection.execute(delete(usage_records))
        if rows:
            tx.connection.execute(insert(usage_records), rows)
        return usage.by_day(tx.connection, "org", days, until)


def _used(stints: list[tuple[int, int, int]], since: int, until: int) -> tuple[int, int]:
    """Microseconds and units between two instants."""
    parts = [
        (max(0, min(START + start + length, until) - max(START + start, since)), rate) for start, length, rate in stints
    ]
    return sum(ran for ran, _ in parts), sum(ran * rate for ran, rate in parts)

"""The cost of advancing the clock: by what is due and by what exists; and thirty days at once, billed exactly."""

import statistics
import time
from datetime import datetime, timedelta

from bench.cloud_world import FUNDS, UNTIL_RUNNING, Cloud, cloud
from bench.progress import say
from bench.results import Row
from bench.usage import usage

EXISTING = (100, 1_000, 10_000)
DUE = (0, 10, 100)
ROUNDS = 9
WORKLOADS = 100
PRICE = 249
"""Cents per hour of one H100."""
DAYS = timedelta(days=30)


async def clock_rows() -> list[Row]:
    """Makes both measurements."""
    return [*await _by_what_is_due(), await _thirty_days()]


async def _by_what_is_due() -> list[Row]:
    rows: list[Row] = []
    async with cloud() as servers:
        live = 0
        for existing in EXISTING:
            say(f"moving the clock of {existing:,} pods")
            await servers.live_pods(existing - live)
            live = existing
            costs = [await _cost(servers, due) for due in DUE]
            live += ROUNDS * sum(DUE)
            figure = ", ".join(f"{cost * 1e3:.1f}" for cost in costs)
            due = ", ".join(map(str, DUE))
            rows.append((f"{existing:,} pods: a move of the clock with {due} due, CPU ms", figure, "the same for all"))
    return rows


async def _cost(servers: Cloud, due: int) -> float:
    """Returns the median CPU seconds of an advance in which so many pods start."""
    await servers.add_room(due * ROUNDS)
    costs = []
    for _ in range(ROUNDS):
        await servers.create_pods(due)
        before = usage(servers.pid).cpu
        await servers.server.advance(UNTIL_RUNNING)
        costs.append(usage(servers.pid).cpu - before)
    return statistics.median(costs)


async def _thirty_days() -> Row:
    say(f"thirty days of {WORKLOADS} workloads")
    async with cloud() as servers:
        now = datetime.fromisoformat(await servers.server.advance(0))
        middle = (now.replace(day=1) + timedelta(days=31)).replace(day=15)
        await servers.server.ok("POST", "/clock", {"set": f"{middle:%Y-%m-%dT%H:%M:%SZ}"})
        await servers.live_pods(WORKLOADS)
        start = datetime.fromisoformat(await servers.server.advance(0))
        before, started = usage(servers.pid).cpu, time.monotonic()
        end = datetime.fromisoformat(await servers.server.advance(DAYS.total_seconds()))
        wall, cpu = time.monotonic() - started, usage(servers.pid).cpu - before
        balance = await servers.organization.ok("GET", "/v1/orgs/{org}/billing/balance")
    month = end.replace(day=1, hour=0, minute=0, second=0)
    assert FUNDS - balance["balanceCents"] == _cents(start, month), "what the month cost that ended"
    assert FUNDS - balance["availableCents"] == _cents(start, end), "all that was used"
    figure = f"{wall * 1e3:.0f} ms, {cpu * 1e3:.0f} ms of CPU"
    return (f"thirty days of {WORKLOADS} workloads at once, settled to the cent", figure, "under 1 s")


def _cents(since: datetime, until: datetime) -> int:
    """Returns the cost of the workloads in a period, in whole cents."""
    return WORKLOADS * PRICE * (int(until.timestamp()) - int(since.timestamp())) // 3600

"""The clock ends when it is told to, whatever wakes it at that moment."""

from __future__ import annotations

import asyncio

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.clock.clock import Clock
from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.store import Store

NOW = 1_800_000_000 * SECOND


async def _rounds_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("rounds", range(6))
async def test_a_clock_that_is_told_to_end_just_after_something_woke_it_ends(rounds: int) -> None:
    store = Store.ephemeral()
    clock = Clock(store, {}, [], lambda: NOW, "real")
    running = asyncio.create_task(clock.run())
    for subject in ("waited for", "waking"):
        with store.transaction(at=NOW) as tx:
            tx.schedule(NOW + DAY, "happens", subject)
        await _rounds_of_the_loop(rounds if subject == "waking" else 10)
    running.cancel()
    await _rounds_of_the_loop(10)
    assert running.cancelled()

"""However much falls due at one instant, others have their turn while it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.clock import clock
from relay_localcloud.clock.clock import Clock
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store

if TYPE_CHECKING:
    from relay_localcloud.kernel.due import DueItem
    from relay_localcloud.kernel.store import Tx

COUNT = 50
NOW = 1_800_000_000 * SECOND


class _Overdue:
    """A cloud in which much is overdue; every slice is one transition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock, "SLICE_SECONDS", 0.0)
        self.happened: list[str] = []
        self.rounds = 0
        self.store = Store.ephemeral()
        self.clock = Clock(self.store, {"happens": self._happens}, [], lambda: NOW, "real")
        with self.store.transaction(at=NOW) as tx:
            for number in range(COUNT):
                tx.schedule(NOW, "happens", str(number))

    def _happens(self, _: Tx, item: DueItem) -> None:
        self.happened.append(item.subject)

    async def count(self) -> None:
        """How often somebody else has a turn meanwhile."""
        while len(self.happened) < COUNT:
            self.rounds += 1
            await asyncio.sleep(0)


async def test_a_request_waits_for_all_of_it_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    overdue = _Overdue(monkeypatch)
    counting = asyncio.create_task(overdue.count())
    await overdue.clock.caught_up()
    assert overdue.happened == [str(number) for number in range(COUNT)]
    await counting
    assert overdue.rounds >= COUNT - 1


async def test_what_falls_due_while_nobody_asks_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    overdue = _Overdue(monkeypatch)
    running = asyncio.create_task(overdue.clock.run())
    await overdue.count()
    running.cancel()
    assert overdue.rounds >= COUNT - 1

"""The cloud's own clock, and the settling of what falls due on it.

Modes: `real` (one second a second, with an offset once it was set or advanced), `frozen` (moves only on request) and
`scaled` (`rate` seconds a second). Everything that takes time in the cloud is an item on the due-queue.

Order is exact: before a transaction opens, every transition that fell due runs, in order of due time, each at its own
due time. Calls to webhook receivers and the work of batches take real time, so they run concurrently; while the clock
is moved by hand, no transition overtakes them past their `barrier`, and the move ends when they have ended.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Connection

from relay_localcloud.clock.outbound import Outbound
from relay_localcloud.clock.state import ClockChange, ClockError, ClockState, Mode
from relay_localcloud.kernel import due
from relay_localcloud.kernel.disk import PATIENCE_SECONDS, Unwritable
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import LAST, SECOND, timestamp
from relay_localcloud.kernel.store import Store, Tx, read_meta, write_meta

_log = logging.getLogger(__name__)

SLICE_SECONDS = 0.02
"""Seconds for which transitions run in a row before requests get a turn; a single transition may exceed them."""

LONGEST_SLEEP_SECONDS = 60.0

KEPT_EVERY = 10 * SECOND
"""The most that the stored time may lag behind the machine's clock whenever the cloud does anything."""


class Clock:
    """Tells the cloud's time, and runs what falls due."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, DueHandler],
        outbound: Sequence[Outbound],
        wall: Callable[[], int],
        first_mode: Mode,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._outbound = outbound
        self._wall = wall
        self._first_mode = first_mode
        self._held: int | None = None  # how far a move has progressed
        self._settling = False
        self._moving = asyncio.Lock()
        self._wake = asyncio.Event()
        self._next: DueItem | None = None
        self._next_is_known = False
        self.state = self._load()
        store.current_time = self._settled_now
        store.queue_changed = self._look_again
        for each in outbound:
            each.changed = self._wake.set

    def now(self) -> int:
        """The cloud's time; during a move, how far the move has progressed."""
        return self.state.at(self._wall()) if self._held is None else self._held

    async def change(self, change: ClockChange) -> ClockState:
        """Change mode and rate, then move; returns when all due items are done, outbound calls included."""
        async with self._moving:
            now = self.now()
            gap = self.state.gap if change.gap == "apply" else 0
            target = (now if change.move_to is None else change.move_to) + change.advance_by + gap
            state = _changed(self.state, change, now, target, self._wall())
            # Written before anything runs: after a kill during the move, all of it is overdue, and none in the future.
            with self._store.transaction() as tx:
                _write(tx.connection, state)
            self.state, self._held = state, now
            try:
                await self._move(target)
            finally:
                self._held = None
                self._wake.set()
            return self.state

    async def caught_up(self) -> None:
        """Return when nothing is overdue, or the disk fails it; others get their turn between slices of it."""
        with suppress(Unwritable):
            while (item := self._next_transition()) is not None and item.due_at <= (now := self.now()):
                self._settle(now, SLICE_SECONDS)
                await asyncio.sleep(0)

    def keep(self, tx: Tx) -> None:
        """Store the current time, for a start after the machine's clock has jumped."""
        if self._held is None and self.state.rate:
            self.state = self.state.read(self._wall())
            _write(tx.connection, self.state)

    async def run(self) -> None:
        """Wake whenever something falls due, for ever."""
        try:
            while True:
                self._wake.clear()
                pause = self._run_what_is_due()
                await asyncio.sleep(0)  # due items may take more than a slice, and set the event each time
                # Not `wait_for`, which in Python 3.11 ignores a cancellation just after the event was set.
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        finally:
            self._keep()

    def _run_what_is_due(self) -> float | None:
        """Run due items; returns real seconds until the next run. Items that failed on the disk stay due."""
        try:
            if self._held is None:
                self._keep_in_time()
                now = self.now()
                self._settle(now, SLICE_SECONDS)
                self._begin(now, at_due_time=False, horizon=now)
            return self._pause()
        except Unwritable as error:
            _log.warning("What is due waits for the disk: %s", error)
            return PATIENCE_SECONDS

    def reload(self) -> None:
        """Read the time again: the state was replaced, so that a move under way no longer applies."""
        self._next_is_known = False
        self.state, self._held = self._load(), None
        self._look_again()

    def _load(self) -> ClockState:
        wall = self._wall()
        with self._store.transaction(at=0) as tx:
            kept = read_meta(tx.connection, "clock")
            if kept is None:
                state = ClockState(mode=self._first_mode, rate=_rate(self._first_mode, 1.0), cloud=wall, wall=wall)
                _write(tx.connection, state)
                return state
        state = ClockState.model_validate_json(kept).resumed(wall)
        _tell(state)
        return state

    def _keep_in_time(self) -> None:
        goes_by_itself = self.state.rate and self._held is None and not self._settling
        if goes_by_itself and self._wall() - self.state.wall >= KEPT_EVERY:
            self._keep()

    def _keep(self) -> None:
        with suppress(Unwritable), self._store.transaction(at=0) as tx:
            self.keep(tx)

    def _settled_now(self) -> int:
        self._keep_in_time()
        now = self.now()
        if self._settling:
            return now
        try:
            self._settle(now)
        except Unwritable:
            # Nothing may overtake a failed transition: for transactions, time stands still until the disk recovers.
            waiting = self._next_transition()
            return now if waiting is None else min(now, waiting.due_at)
        return now

    def _settle(self, until: int, within: float = math.inf) -> None:
        """Run the transitions due by `until`, in order; none starts after `within` real seconds."""
        self._settling = True
        last_begins = time.perf_counter() + within
        try:
            while (item := self._next_transition()) and item.due_at <= until:
                self._run(item)
                if time.perf_counter() >= last_begins:
                    break
        finally:
            self._settling = False

    def _run(self, item: DueItem) -> None:
        self._next_is_known = False
        with self._store.transaction(at=item.due_at) as tx:
            due.remove(tx.connection, item.id)
            self._handlers[item.kind](tx, item)
            following = due.next_transition(tx.connection)
        self._next, self._next_is_known = following, True

    async def _move(self, target: int) -> None:
        while True:
            item, call_at = self._next_transition(), self._first(lambda each: each.earliest())
            item_at = None if item is None or item.due_at > target else item.due_at
            if call_at is not None and call_at > target:
                call_at = None
            barrier = None if call_at is None else self._first(lambda each: each.barrier())
            if item_at is not None and (barrier is None or item_at < barrier):
                self._held = max(self.now(), item_at)
                self._settle(self._held, SLICE_SECONDS)
                self._begin(self._held, at_due_time=True, horizon=self._held)
                await asyncio.sleep(0)
            elif call_at is not None:
                self._held = max(self.now(), call_at)
                self._begin(self._held, at_due_time=True, horizon=target if item_at is None else item_at - 1)
                await self._one_finished()
            else:
                return

    def _begin(self, until: int, *, at_due_time: bool, horizon: int) -> None:
        for each in self._outbound:
            each.begin(until, at_due_time, horizon)

    def _first(self, instant: Callable[[Outbound], int | None]) -> int | None:
        return min((at for each in self._outbound if (at := instant(each)) is not None), default=None)

    async def _one_finished(self) -> None:
        tasks = [task for each in self._outbound for task in each.tasks]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    def _next_transition(self) -> DueItem | None:
        if not self._next_is_known:
            with self._store.transaction(at=0) as tx:
                self._next = due.next_transition(tx.connection)
            self._next_is_known = True
        return self._next

    def _look_again(self) -> None:
        self._next_is_known = False
        self._wake.set()

    def _pause(self) -> float | None:
        """Real seconds until something falls due; None if nothing is scheduled or the clock is frozen."""
        if self._held is not None or self.state.rate == 0:
            return None
        transition = self._next_transition()
        candidates = (None if transition is None else transition.due_at, self._first(lambda each: each.next_due()))
        dues = [due_at for due_at in candidates if due_at is not None]
        if not dues:
            return None
        return min(max(min(dues) - self.now(), 0) / self.state.rate / SECOND, LONGEST_SLEEP_SECONDS)


def kept_time(tx: Tx) -> int | None:
    """The cloud's time when it was last stored: before the clock runs, that of the former process; None if none ran."""
    kept = read_meta(tx.connection, "clock")
    return None if kept is None else ClockState.model_validate_json(kept).cloud


def _rate(mode: Mode, scaled: float) -> float:
    return {"real": 1.0, "frozen": 0.0, "scaled": scaled}[mode]


def _changed(state: ClockState, change: ClockChange, now: int, target: int, wall: int) -> ClockState:
    if change.gap is not None and not state.gap:
        raise ClockError("the clock has no gap to apply or dismiss")
    mode = change.mode or state.mode
    if change.rate is not None and mode != "scaled" and change.rate != _rate(mode, change.rate):
        raise ClockError(f"rate needs mode scaled, and the mode is {mode}")
    if mode == "scaled" and state.mode != "scaled" and change.rate is None:
        raise ClockError("mode scaled needs a rate")
    if mode == "scaled" and change.rate == 0:
        raise ClockError("rate must be above 0: to stop the clock, set mode frozen")
    if target < now:
        raise ClockError(f"the clock cannot go back: it already shows {timestamp(now)}")
    if target > LAST:
        raise ClockError("the clock cannot go beyond the year 9999")
    rate = _rate(mode, state.rate if change.rate is None else change.rate)
    return ClockState(mode=mode, rate=rate, cloud=target, wall=wall, ahead=0 if change.gap else state.ahead)


def _tell(state: ClockState) -> None:
    if state.gap:
        _log.warning(
            "The machine's clock is %d s ahead of where this cloud's time stopped. It ends and bills nothing for that "
            'time: POST /_localcloud/clock {"gap": "apply"} lets it pass, {"gap": "dismiss"} forgets it.',
            state.ahead // SECOND,
        )
    elif state.ahead < 0:
        _log.warning("The machine's clock is %d s behind this cloud's time, which continues.", -state.ahead // SECOND)


def _write(connection: Connection, state: ClockState) -> None:
    write_meta(connection, "clock", state.model_dump_json())

"""Due items that take real time: they run concurrently beside the clock, each kind with its own limits.

An item stays on the due-queue until its outcome is written, so a killed process does it again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from relay_localcloud.clock.call_queue import CallQueue
from relay_localcloud.kernel import due
from relay_localcloud.kernel.acting import ORGANIZATION
from relay_localcloud.kernel.disk import PATIENCE_SECONDS, Unwritable
from relay_localcloud.kernel.due import QueuedCall
from relay_localcloud.kernel.store import Store, Tx

_OWNERS_KNOWN: Final = 10_000
"""Lanes whose organization is cached."""


class Outbound(ABC):
    """Starts items of one kind when the clock finds them due: up to `in_all` at once, up to `per_lane` of a lane.

    `CallQueue` divides these places among organizations.
    """

    precedes = 1
    """After how long from an item's due time a transition waits for the item; by default, any later one does."""

    def __init__(self, store: Store, kind: str, in_all: int, per_lane: int) -> None:
        self._store = store
        self._kind = kind
        self._owner_of = lru_cache(_OWNERS_KNOWN)(self._read_owner)
        self._new_queue = partial(CallQueue, in_all, per_lane, self._owner_of)
        self.tasks: set[asyncio.Task[bool]] = set()
        self.changed: Callable[[], None] = lambda: None
        """Called when an item has been queued or has ended; the clock sets it."""
        store.call_queued[kind] = self._queued
        self._queue = self._read_queue()

    @abstractmethod
    async def _attempt(self, queued: QueuedCall, at: int, horizon: int) -> None:
        """Do one item at the cloud's time `at`; nothing else changes before `horizon`."""

    @abstractmethod
    def _owner(self, tx: Tx, lane: str) -> str | None:
        """The organization of a lane; None if the lane is gone."""

    def barrier(self) -> int | None:
        """The first instant whose transitions must wait for an unfinished item; None for no wait."""
        earliest = self.earliest()
        return None if earliest is None else earliest + self.precedes

    async def abandon(self) -> None:
        """Stop what is under way without an outcome; it stays due."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start_over(self) -> None:
        """Stop what is under way without an outcome, and read the due items of the new state."""
        for task in self.tasks:
            task.cancel()
        self._owner_of.cache_clear()
        self._queue = self._read_queue()

    def begin(self, until: int, at_due_time: bool, horizon: int) -> None:
        """Start items due by `until`, as many as may run at once; their time is `until`, or their due time."""
        while (call := self._queue.take(until)) is not None:
            self._start(call, call.due_at if at_due_time else until, horizon)

    def next_due(self) -> int | None:
        """When the next item that may start falls due; None if there is none."""
        return self._queue.next_due()

    def pending(self, organization_id: str) -> int:
        """How many items of an organization are unfinished."""
        return self._queue.pending(organization_id)

    def earliest(self) -> int | None:
        """The earliest due time, past or future, of all unfinished items."""
        return self._queue.earliest()

    def _read_queue(self) -> CallQueue:
        queue = self._new_queue()
        with self._store.transaction(at=0) as tx:
            calls = due.queued_calls(tx.connection, self._kind)
        for call in calls:
            queue.add(call)
        return queue

    def _read_owner(self, lane: str) -> str:
        with self._store.transaction(at=0) as tx:
            return self._owner(tx, lane) or ""

    def _queued(self, call: QueuedCall) -> None:
        self._queue.add(call)
        self.changed()

    async def _patient_attempt(self, call: QueuedCall, at: int, horizon: int) -> bool:
        """Try one item; False, after a wait, if the disk failed: it stays under way until it is tried again."""
        try:
            ORGANIZATION.set(self._owner_of(call.lane))
            await self._attempt(call, at, horizon)
        except Unwritable:
            await asyncio.sleep(PATIENCE_SECONDS)
            return False
        return True

    def _start(self, call: QueuedCall, at: int, horizon: int) -> None:
        attempt = self._patient_attempt(call, at, horizon)
        task = asyncio.create_task(attempt, name=f"{self._kind} {call.item_id}")
        self.tasks.add(task)
        queue = self._queue

        def ended(task: asyncio.Task[bool]) -> None:
            self.tasks.discard(task)
            queue.finished(call)
            error = None if task.cancelled() else task.exception()
            if error is None and not task.cancelled() and not task.result():
                queue.add(call)
            self.changed()
            if error is not None:
                # A defect here, not in the receiver: the item stays due and is tried again at the next start.
                message = f"an item of the kind {self._kind} failed inside the local cloud"
                asyncio.get_running_loop().call_exception_handler(
                    {"message": message, "exception": error, "task": task}
                )

        task.add_done_callback(ended)

"""A fixed number of workers between the queue and the reconcilers."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.passes import KindReconciler
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.observability.logs import LogContext

logger = logging.getLogger(__name__)

_MISTAKE_DELAY = 60.0
"""Seconds before the next pass over an object whose last one failed in an unforeseen way."""


@dataclass(slots=True)
class Workers:
    """Runs passes until drained."""

    queue: Queue[ObjectKey]
    reconcilers: Mapping[str, KindReconciler]
    count: int
    leading: Callable[[], bool]
    """Checked before every pass: a replica that no longer leads must not touch the cloud."""
    _idle: set[asyncio.Task[None]] = field(default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _draining: bool = False

    async def run(self) -> None:
        """Work until cancelled or drained, or until every worker has found that this replica no longer leads."""
        self._tasks = [asyncio.create_task(self._work(), name=f"worker-{number}") for number in range(self.count)]
        try:
            ended, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                if not task.cancelled():
                    task.result()
        finally:
            for task in self._tasks:
                task.cancel()

    async def drain(self, seconds: float) -> None:
        """Take no new keys; passes in progress, and the recording of what was paid for, have this long to finish."""
        self._draining = True
        for task in list(self._idle):
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # Recording goes on beside the passes, since one of those may take all of the time.
                await asyncio.gather(self._passes_ended(), self._persist())
                await self._persist()

    async def _passes_ended(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _persist(self) -> None:
        await asyncio.gather(*(reconciler.persist() for reconciler in self.reconcilers.values()))

    async def _work(self) -> None:
        me = asyncio.current_task()
        while me is not None and not self._draining:
            self._idle.add(me)
            taken = await self.queue.take()
            self._idle.discard(me)
            try:
                if not self.leading():
                    return
                await self._reconcile(taken)
                await asyncio.sleep(0)  # passes that await nothing, and come back at once, must leave time to all else
            finally:
                self.queue.done(taken.key)

    async def _reconcile(self, taken: Taken[ObjectKey]) -> None:
        key = taken.key
        try:
            await self.reconcilers[key.kind].reconcile(taken)
        except Exception:
            # The last resort: an unforeseen error in one object must not end the work on others.
            with LogContext(kind=key.kind, namespace=key.namespace, name=key.name):
                logger.exception("a pass failed unexpectedly; the object is looked at again in a minute")
            self.queue.add_after(key, _MISTAKE_DELAY, Priority.RETRY)

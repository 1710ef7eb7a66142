"""Long work beside the queue: bounded in number, in fair shares, one at a time for an object, ended cleanly."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeAlias

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.queue import Priority, Queue
from relay_operator.flows.batch.actions import Work
from relay_operator.flows.batch.places import Places, Share
from relay_operator.flows.batch.plan import Transfer
from relay_operator.flows.batch.result import WorkResult, WorkTroubled
from relay_operator.flows.batch.throughput import MOVED, LeastSpeed, Moved

LongWork: TypeAlias = Callable[[], Coroutine[None, None, WorkResult]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """Which work, for which object, in which round: what another job came to is not this one's result."""

    uid: str
    work: Work
    round: int


@dataclass(slots=True)
class _Running:
    job: Job
    task: asyncio.Task[WorkResult]


@dataclass(slots=True)
class Transfers:
    """Runs jobs; each one's end wakes its object, whose next pass records what it came to.

    An job that is dropped is cancelled; whatever it was doing is safe to be cut off at any point and done again.
    """

    queue: Queue[ObjectKey]
    places: Places
    least_speed: LeastSpeed = field(default_factory=LeastSpeed)
    _running: dict[ObjectKey, _Running] = field(default_factory=dict)
    _ending: set[asyncio.Task[WorkResult]] = field(default_factory=set)

    def start(self, key: ObjectKey, job: Job, account: str, work: LongWork) -> None:
        """Begin, when there is a place; the same job under way goes on, another one's is dropped.

        `account` is whose connection the work uses.
        """
        running = self._running.get(key)
        if running is not None and running.job == job:
            return
        self.drop(key)
        run = self._run(Share(key.namespace, account), work)
        task = asyncio.create_task(run, name=f"{job.work.name.lower()} {key}")
        self._running[key] = _Running(job, task)
        task.add_done_callback(lambda done: self._ended(key, done))

    def state(self, key: ObjectKey, job: Job) -> Transfer:
        """How far this very job is."""
        running = self._running.get(key)
        if running is None or running.job != job or running.task.cancelled():
            return Transfer.IDLE
        return Transfer.DONE if running.task.done() else Transfer.BUSY

    def result(self, key: ObjectKey) -> WorkResult:
        """What the job that is done came to; it stays until it is dropped."""
        return self._running[key].task.result()

    def drop(self, key: ObjectKey) -> bool:
        """The object's job is over, wanted no longer, or recorded; whether it was cut off in the middle."""
        running = self._running.pop(key, None)
        if running is None or running.task.done():
            return False
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)
        running.task.cancel()
        return True

    async def close(self) -> None:
        """End all jobs and wait for them."""
        tasks = [running.task for running in self._running.values()] + list(self._ending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            logger.info("long work has ended: the next leader does it again (%d under way)", len(tasks))

    async def _run(self, share: Share, work: LongWork) -> WorkResult:
        async with self.places.one(share):
            try:
                return await self._watched(work)
            except asyncio.CancelledError:
                if _told_to_end():
                    raise
                logger.warning("long work was interrupted; it is tried again later")
                return WorkTroubled(Reason.WAITING_FOR_RETRY, "it was interrupted; it is tried again")
            except Exception:
                # The last line: a mistake of ours in one job must not be lost, nor repeated without end or pause.
                logger.exception("long work failed unexpectedly; it is tried again later")
                return WorkTroubled(Reason.WAITING_FOR_RETRY, "it failed unexpectedly; the operator's log says why")

    async def _watched(self, work: LongWork) -> WorkResult:
        """What the work comes to; it is cut off if it moves next to nothing while others wait for its place."""
        moved = Moved()
        MOVED.set(moved)
        task = asyncio.create_task(work())
        try:
            while True:
                before = moved.size
                await asyncio.wait([task], timeout=self.least_speed.seconds)
                if task.done():
                    return task.result()
                if self.places.wanted and moved.size - before < self.least_speed.size:
                    text = (
                        f"it moved {moved.size - before} bytes in {self.least_speed.seconds:.0f} s while others "
                        "waited: they go first, and it is tried again"
                    )
                    return WorkTroubled(Reason.WAITING_FOR_RETRY, text)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _ended(self, key: ObjectKey, task: asyncio.Task[WorkResult]) -> None:
        running = self._running.get(key)
        if running is not None and running.task is task and not task.cancelled():
            self.queue.add(key, Priority.CHANGE)


def _told_to_end() -> bool:
    """Whether the task itself was cancelled, and not something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

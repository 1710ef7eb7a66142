"""Long work beside the queue: bounded in number, in fair shares, one job per object, ended cleanly."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeAlias

from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch_spec import BatchOutput
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
    """What to do, for which object, in which round, with which output; the result of another job does not count."""

    uid: str
    work: Work
    round: int
    output: BatchOutput


@dataclass(slots=True)
class _Running:
    job: Job
    work: LongWork
    """As it was decided last, until the job has its place."""
    task: asyncio.Task[WorkResult] = field(init=False)


@dataclass(slots=True)
class Transfers:
    """Runs jobs; the end of each wakes its object, whose next pass records the result.

    Dropping a job cancels it; all long work may be interrupted at any point and repeated.
    """

    queue: Queue[ObjectKey]
    places: Places
    least_speed: LeastSpeed = field(default_factory=LeastSpeed)
    _running: dict[ObjectKey, _Running] = field(default_factory=dict)
    _ending: set[asyncio.Task[WorkResult]] = field(default_factory=set)

    def start(self, key: ObjectKey, job: Job, account: str, work: LongWork) -> None:
        """Start the job once there is a place; the same job continues if it runs, another job of the object is dropped.

        `account` is the account whose connection the work uses. A job that waits does what was decided last.
        """
        running = self._running.get(key)
        if running is not None and running.job == job:
            running.work = work
            return
        self.drop(key)
        running = self._running[key] = _Running(job, work)
        run = self._run(Share(key.namespace, account), running)
        running.task = asyncio.create_task(run, name=f"{job.work.name.lower()} {key}")
        running.task.add_done_callback(lambda done: self._ended(key, done))

    def state(self, key: ObjectKey, job: Job) -> Transfer:
        """The state of exactly this job."""
        running = self._running.get(key)
        if running is None or running.job != job or running.task.cancelled():
            return Transfer.IDLE
        return Transfer.DONE if running.task.done() else Transfer.BUSY

    def has_other(self, key: ObjectKey, job: Job) -> bool:
        """Whether the object has another job, which ran before the spec changed, or still runs."""
        running = self._running.get(key)
        return running is not None and running.job != job

    def result(self, key: ObjectKey) -> WorkResult:
        """The result of a finished job, which stays until the job is dropped."""
        return self._running[key].task.result()

    def drop(self, key: ObjectKey) -> bool:
        """Drop the object's job, which is over, recorded or no longer wanted. Returns whether that interrupted it."""
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

    async def _run(self, share: Share, running: _Running) -> WorkResult:
        async with self.places.one(share):
            try:
                return await self._watched(running.work)
            except asyncio.CancelledError:
                if _told_to_end():
                    raise
                logger.warning("long work was interrupted; it is tried again later")
                return WorkTroubled(Reason.WAITING_FOR_RETRY, "it was interrupted; it is tried again")
            except Exception:
                # The last resort: a bug in one job must neither go unnoticed nor repeat without end or pause.
                logger.exception("long work failed unexpectedly; it is tried again later")
                return WorkTroubled(Reason.WAITING_FOR_RETRY, "it failed unexpectedly; the operator's log says why")

    async def _watched(self, work: LongWork) -> WorkResult:
        """Run the work; it is interrupted if it hardly moves anything while other jobs wait for its place."""
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
    """Whether this task itself was cancelled, rather than something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

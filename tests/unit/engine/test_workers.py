"""Workers: how many passes at a time, what a mistake in one does to the others, and how they end."""

import asyncio
from dataclasses import dataclass, field

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.queue import Lane, Priority, Queue, Shares, Taken
from relay_operator.engine.workers import Workers
from tests.support.eventually import PATIENCE_SECONDS, eventually


@dataclass
class Passes:
    """A reconciler that waits until it may go on."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    mistakes: set[str] = field(default_factory=set)
    recorded: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        self.begun.append(taken.key.name)
        if taken.key.name in self.mistakes:
            raise ZeroDivisionError
        await self.go.wait()
        self.ended.append(taken.key.name)

    async def persist(self) -> None:
        self.ended.append("all that was paid for is recorded")
        await self.recorded.wait()


@dataclass
class Office:
    """Two workers over a queue."""

    shares: Shares[ObjectKey] = field(default_factory=Shares)
    passes: Passes = field(default_factory=Passes)
    leading: bool = True

    def __post_init__(self) -> None:
        self.queue: Queue[ObjectKey] = Queue(asyncio.get_running_loop().time, self.shares)
        self.workers = Workers(self.queue, {"GpuPod": self.passes}, 2, lambda: self.leading)
        self.running = asyncio.create_task(self.workers.run())

    def add(self, *names: str) -> None:
        for name in names:
            self.queue.add(key(name), Priority.CHANGE)

    async def begun(self, *names: str) -> None:
        async def look() -> list[str]:
            return sorted(self.passes.begun)

        await eventually(look, lambda seen: seen == sorted(names), every=0.01)


def key(name: str) -> ObjectKey:
    return ObjectKey("GpuPod", "team-a", name)


async def test_so_many_passes_run_at_a_time_and_no_more() -> None:
    office = Office()
    office.add("a", "b", "c")
    await office.begun("a", "b")
    assert len(office.queue) == 1
    office.passes.go.set()
    await office.begun("a", "b", "c")
    office.running.cancel()


@dataclass
class Restless(Passes):
    """A reconciler whose passes await nothing and come back at once, so many times."""

    queue: Queue[ObjectKey] | None = None
    left: int = 10_000

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        self.left -= 1
        self.go.set()
        if self.queue is not None and self.left > 0:
            self.queue.add(taken.key, Priority.CHANGE)


async def test_passes_that_await_nothing_and_come_back_at_once_leave_time_to_all_else() -> None:
    passes = Restless()
    office = Office(passes=passes)
    passes.queue = office.queue
    office.add("a")
    await passes.go.wait()
    assert passes.left > 0
    office.running.cancel()


async def test_an_account_whose_cloud_hangs_holds_up_no_other() -> None:
    office = Office(Shares(lanes=lambda each: (Lane(each.name[0], 1),)))
    office.add("a1", "a2", "a3", "b1")
    await office.begun("a1", "b1")
    assert len(office.queue) == 2
    office.passes.go.set()
    await office.begun("a1", "a2", "a3", "b1")
    office.running.cancel()


async def test_a_mistake_in_one_pass_ends_no_other_and_the_object_rests(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.passes.mistakes = {"a", "b"}
    office.passes.go.set()
    office.add("a", "b", "c", "d")
    await office.begun("a", "b", "c", "d")
    assert {delayed.name for delayed in office.queue._delayed} == {"a", "b"}
    assert not office.queue.is_working(key("a"))
    assert "ZeroDivisionError" in caplog.text
    office.running.cancel()


class _BrokenQueue(Queue[ObjectKey]):
    def done(self, key: ObjectKey) -> None:
        raise ZeroDivisionError


async def test_a_mistake_in_the_queue_ends_all_workers_and_is_told() -> None:
    queue, passes = _BrokenQueue(asyncio.get_running_loop().time), Passes()
    passes.go.set()
    queue.add(key("a"), Priority.CHANGE)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Workers(queue, {"GpuPod": passes}, 2, lambda: True).run(), PATIENCE_SECONDS)


async def test_draining_takes_nothing_more_and_waits_for_what_is_under_way() -> None:
    office = Office()
    office.add("a")
    await office.begun("a")
    draining = asyncio.create_task(office.workers.drain(10))
    await asyncio.sleep(0)
    office.add("b")
    office.passes.go.set()
    office.passes.recorded.set()
    await asyncio.wait_for(asyncio.gather(draining, office.running), PATIENCE_SECONDS)
    recorded = "all that was paid for is recorded"
    assert (office.passes.begun, sorted(office.passes.ended)) == (["a"], ["a", recorded, recorded])
    assert office.passes.ended[-1] == recorded


async def test_what_was_paid_for_is_recorded_while_a_pass_takes_all_of_the_time() -> None:
    office = Office()
    office.add("a")
    await office.begun("a")
    office.passes.recorded.set()
    await asyncio.wait_for(office.workers.drain(0.1), PATIENCE_SECONDS)
    assert office.passes.ended == ["all that was paid for is recorded"]
    office.running.cancel()


async def test_draining_does_not_wait_for_ever() -> None:
    office = Office()
    office.add("a")
    await office.begun("a")
    await asyncio.wait_for(office.workers.drain(0.01), PATIENCE_SECONDS)
    assert "a" not in office.passes.ended
    office.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await office.running


async def test_draining_before_anything_ran_is_done_at_once() -> None:
    queue: Queue[ObjectKey] = Queue(asyncio.get_running_loop().time)
    await asyncio.wait_for(Workers(queue, {}, 2, lambda: True).drain(60), PATIENCE_SECONDS)


async def test_a_replica_that_leads_no_longer_starts_no_pass() -> None:
    office = Office(leading=False)
    office.add("a", "b")
    await asyncio.wait_for(office.running, PATIENCE_SECONDS)
    assert office.passes.begun == []

"""The queue: what comes first, what is done once, what waits, and whom it wakes."""

import asyncio
from collections.abc import Callable

import pytest

from relay_operator.engine.queue import Priority, Queue, Taken
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.engine.queues import drained, taken
from tests.unit.flows.managed.world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> Queue[str]:
    return Queue(clock.monotonic)


async def test_the_most_urgent_goes_first_and_equals_in_their_order(queue: Queue[str]) -> None:
    for key, priority in (("poll", 4), ("first", 2), ("second", 2), ("delete", 0), ("event", 1)):
        queue.add(key, Priority(priority))
    assert await drained(queue) == ["delete", "event", "first", "second", "poll"]


async def test_a_key_is_ready_at_most_once(queue: Queue[str]) -> None:
    for priority in (Priority.POLL, Priority.POLL, Priority.REPAIR):
        queue.add("a", priority)
    assert len(queue) == 1
    assert await drained(queue) == ["a"]


async def test_a_more_urgent_reason_moves_a_key_forward_and_keeps_its_age(queue: Queue[str], clock: Clock) -> None:
    queue.add("a", Priority.POLL)
    clock.seconds = 5
    queue.add("b", Priority.CHANGE)
    queue.add("a", Priority.DELETE)
    first = await taken(queue)
    assert first == Taken("a", Priority.DELETE, 0.0)
    assert await drained(queue) == ["b"]


async def test_a_key_is_with_one_worker_and_runs_once_more_for_what_came_meanwhile(queue: Queue[str]) -> None:
    queue.add("a", Priority.CHANGE)
    assert await taken(queue) is not None
    assert queue.is_working("a")
    queue.add("a", Priority.CHANGE)
    queue.add("a", Priority.DELETE)
    assert await taken(queue) is None
    queue.done("a")
    assert not queue.is_working("a")
    again = await taken(queue)
    assert again is not None
    assert again.priority is Priority.DELETE
    queue.done("a")
    assert await taken(queue) is None


@pytest.mark.parametrize("priority", [Priority.POLL, Priority.RETRY])
async def test_polls_come_together_at_whole_seconds(queue: Queue[str], clock: Clock, priority: Priority) -> None:
    for key, delay in {"c": 11, "b": 10.9, "a": 10.1}.items():
        queue.add_after(key, delay, priority)
    clock.seconds = 10.9
    assert await drained(queue) == ([] if priority is Priority.POLL else ["a", "b"])
    clock.seconds = 11
    assert await drained(queue) == (["c", "b", "a"] if priority is Priority.POLL else ["c"])


async def test_a_key_that_is_delayed_again_and_again_leaves_nothing_behind(queue: Queue[str], clock: Clock) -> None:
    queue.add_after("b", 500_000, Priority.POLL)
    for _ in range(1000):
        queue.add_after("a", 1_000_000, Priority.POLL)
        queue.add("a", Priority.CHANGE)
        assert await drained(queue) == ["a"]
    queue.add_after("a", 1_000_000, Priority.POLL)
    assert len(queue._due) < 100
    clock.seconds = 3_000_000
    assert await drained(queue) == ["b", "a"]


async def test_a_delayed_key_comes_when_it_is_due(queue: Queue[str], clock: Clock) -> None:
    queue.add_after("a", 10, Priority.POLL)
    assert len(queue) == 0
    clock.seconds = 9.9
    assert await drained(queue) == []
    clock.seconds = 10
    assert await drained(queue) == ["a"]


DELAYS: dict[str, tuple[Callable[[Queue[str]], None], float]] = {
    "the earlier of two stays": (lambda queue: queue.add_after("a", 20, Priority.POLL), 10),
    "an earlier one counts": (lambda queue: queue.add_after("a", 5, Priority.POLL), 5),
    "none at all is now": (lambda queue: queue.add_after("a", 0, Priority.POLL), 0),
    "one that is gone by is now": (lambda queue: queue.add_after("a", -1, Priority.POLL), 0),
    "ready is now": (lambda queue: queue.add("a", Priority.POLL), 0),
}


@pytest.mark.parametrize(("then", "due"), DELAYS.values(), ids=DELAYS)
async def test_of_two_times(queue: Queue[str], clock: Clock, then: Callable[[Queue[str]], None], due: float) -> None:
    queue.add_after("a", 10, Priority.POLL)
    then(queue)
    seen = []
    for moment in range(31):
        clock.seconds = moment
        seen += [moment] * len(await drained(queue))
    assert seen == [due]


async def test_a_delay_for_a_ready_key_is_dropped_since_its_pass_decides_anew(queue: Queue[str], clock: Clock) -> None:
    queue.add("a", Priority.CHANGE)
    queue.add_after("a", 5, Priority.POLL)
    await drained(queue)
    clock.seconds = 10
    assert await drained(queue) == []


async def test_a_delay_set_during_a_pass_is_kept_and_one_from_before_is_not(queue: Queue[str], clock: Clock) -> None:
    queue.add_after("a", 5, Priority.POLL)
    queue.add("a", Priority.CHANGE)
    assert await taken(queue) is not None
    queue.add_after("a", 20, Priority.POLL)
    queue.done("a")
    clock.seconds = 6
    assert await drained(queue) == []
    clock.seconds = 20
    assert await drained(queue) == ["a"]


async def test_what_came_for_a_key_while_it_waited_to_run_again_loses_its_delay(
    queue: Queue[str], clock: Clock
) -> None:
    queue.add("a", Priority.CHANGE)
    assert await taken(queue) is not None
    queue.add_after("a", 5, Priority.POLL)
    queue.add("a", Priority.EVENT)
    queue.done("a")
    assert await drained(queue) == ["a"]
    clock.seconds = 10
    assert await drained(queue) == []


async def test_the_oldest_tells_since_when_somebody_waits(queue: Queue[str], clock: Clock) -> None:
    assert queue.oldest is None
    clock.seconds = 3
    queue.add("a", Priority.CHANGE)
    clock.seconds = 7
    queue.add("b", Priority.DELETE)
    assert queue.oldest == 3
    await drained(queue)
    assert queue.oldest is None


async def test_one_key_wakes_one_waiting_worker(queue: Queue[str]) -> None:
    workers = [asyncio.create_task(queue.take()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a", Priority.CHANGE)
    await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_SECONDS)
    assert sum(worker.done() for worker in workers) == 1
    queue.add("b", Priority.CHANGE)
    queue.add("c", Priority.CHANGE)
    keys = sorted(one.key for one in await asyncio.gather(*workers))
    assert keys == ["a", "b", "c"]


async def test_a_worker_that_is_cancelled_as_it_wakes_wakes_another(queue: Queue[str]) -> None:
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a", Priority.CHANGE)
    first.cancel()
    assert (await asyncio.wait_for(second, PATIENCE_SECONDS)).key == "a"
    assert first.cancelled()


async def test_a_worker_that_gave_up_waiting_is_passed_over(queue: Queue[str]) -> None:
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    queue.add("a", Priority.CHANGE)
    assert (await asyncio.wait_for(second, PATIENCE_SECONDS)).key == "a"


async def test_waiting_workers_are_woken_by_what_becomes_due_the_earliest_first() -> None:
    loop = asyncio.get_running_loop()
    stopped: float | None = loop.time()
    queue: Queue[str] = Queue(lambda: loop.time() if stopped is None else stopped)
    queue.add_after("later", 0.02, Priority.CHANGE)
    worker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add_after("never", 3600, Priority.CHANGE)
    queue.add_after("sooner", 0.01, Priority.CHANGE)
    stopped = None  # all three were added at one moment, however long that took
    assert (await asyncio.wait_for(worker, PATIENCE_SECONDS)).key == "sooner"
    assert (await asyncio.wait_for(queue.take(), PATIENCE_SECONDS)).key == "later"


async def test_no_timer_rings_for_a_time_that_no_longer_holds(queue: Queue[str], clock: Clock) -> None:
    for key, delay in (("a", 5.0), ("b", 9.0)):
        queue.add_after(key, delay, Priority.CHANGE)
    queue.add("a", Priority.CHANGE)
    assert await drained(queue) == ["a"]
    assert queue._timer_due == clock.monotonic() + 9

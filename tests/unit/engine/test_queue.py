"""The queue: what comes first, what is done once, what waits, and whom it wakes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from relay_operator.engine.queue import Lane, Lanes, Priority, Queue, Shares, Taken
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.flows.managed.world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> Queue[str]:
    return Queue(clock.monotonic)


async def taken(queue: Queue[str]) -> Taken[str] | None:
    """What a worker would get without waiting."""
    try:
        async with asyncio.timeout(0):
            return await queue.take()
    except TimeoutError:
        return None


async def drained(queue: Queue[str]) -> list[str]:
    keys = []
    while (one := await taken(queue)) is not None:
        keys.append(one.key)
        queue.done(one.key)
    return keys


async def test_the_most_urgent_goes_first_and_equals_in_their_order(queue: Queue[str]) -> None:
    for key, priority in (("poll", 4), ("first", 2), ("second", 2), ("delete", 0), ("event", 1)):
        queue.add(key, Priority(priority))
    assert await drained(queue) == ["delete", "event", "first", "second", "poll"]


def _is_batch(key: str) -> bool:
    return key.startswith("batch")


async def test_among_equals_those_that_give_way_go_last_but_before_what_is_less_urgent(clock: Clock) -> None:
    queue = Queue[str](clock.monotonic, Shares(_is_batch))
    for key, priority in (("batch-1", 2), ("batch-2", 2), ("poll", 4), ("pod", 2), ("batch-deleted", 0)):
        queue.add(key, Priority(priority))
    assert await drained(queue) == ["batch-deleted", "pod", "batch-1", "batch-2", "poll"]


async def test_a_bounded_number_of_those_that_give_way_is_worked_on_at_once(clock: Clock) -> None:
    queue = Queue[str](clock.monotonic, Shares(_is_batch, 2))
    for key in ("batch-1", "batch-2", "batch-3"):
        queue.add(key, Priority.DELETE)
    queue.add("pod", Priority.POLL)
    got = [one.key for _ in range(4) if (one := await taken(queue)) is not None]
    assert got == ["batch-1", "batch-2", "pod"]
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.done("batch-1")
    assert (await waiting).key == "batch-3"


def _in_lanes(clock: Clock, in_lane: int = 2) -> Queue[str]:
    """Keys such as `account/key`; what stands before a colon is passed over."""

    def lanes(key: str) -> Lanes:
        return (Lane(key.rpartition(":")[2].partition("/")[0], in_lane),) if "/" in key else ()

    return Queue(clock.monotonic, Shares(_is_batch, 1, lanes))


def _nested(clock: Clock, inner: int, outer: int) -> Queue[str]:
    """Keys such as `team/account/key`."""

    def lanes(key: str) -> Lanes:
        team, account, _ = key.split("/")
        return Lane((team, account), inner), Lane(team, outer)

    return Queue(clock.monotonic, Shares(lanes=lanes))


async def free_to_take(queue: Queue[str]) -> list[str]:
    """What idle workers would get, none of whom comes to an end."""
    keys = []
    while (one := await taken(queue)) is not None:
        keys.append(one.key)
    return keys


async def test_a_lane_has_its_share_of_the_workers_and_the_others_find_one_that_is_free(clock: Clock) -> None:
    queue = _in_lanes(clock)
    for key in ("a/1", "a/2", "a/3", "a/4", "b/1", "none"):
        queue.add(key, Priority.CHANGE)
    assert await free_to_take(queue) == ["a/1", "a/2", "b/1", "none"]
    assert len(queue) == 2
    queue.done("a/1")
    assert await free_to_take(queue) == ["a/3"]
    for key in ("a/2", "a/3", "b/1", "none"):
        queue.done(key)
    assert await free_to_take(queue) == ["a/4"]
    queue.done("a/4")
    assert (len(queue), queue._parked, queue._in_lane, queue._working, queue._last) == (0, {}, {}, {}, {})


async def test_what_waits_for_its_lane_goes_by_priority_and_then_in_its_order(clock: Clock) -> None:
    queue = _in_lanes(clock, in_lane=1)
    for key, priority in (("a/0", 0), ("a/poll", 4), ("a/1", 2), ("a/2", 2)):
        queue.add(key, Priority(priority))
    assert await free_to_take(queue) == ["a/0"]
    queue.add("a/delete", Priority.DELETE)
    assert await free_to_take(queue) == []
    order, last = [], "a/0"
    for _ in range(4):
        queue.done(last)
        (last,) = await free_to_take(queue)
        order.append(last)
    assert order == ["a/delete", "a/1", "a/2", "a/poll"]


async def test_a_worker_that_waits_is_woken_by_its_place_in_the_lane(clock: Clock) -> None:
    queue = _in_lanes(clock, in_lane=1)
    queue.add("a/1", Priority.CHANGE)
    queue.add("a/2", Priority.CHANGE)
    assert await free_to_take(queue) == ["a/1"]
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.done("a/1")
    assert (await waiting).key == "a/2"


async def test_those_that_give_way_do_not_keep_the_place_of_others_in_their_lane(clock: Clock) -> None:
    queue = _in_lanes(clock, in_lane=1)
    for key in ("batch:b/1", "a/1", "batch:a/1", "a/2"):
        queue.add(key, Priority.CHANGE)
    assert await free_to_take(queue) == ["a/1", "batch:b/1"]
    queue.done("a/1")
    assert await free_to_take(queue) == ["a/2"]
    for key in ("a/2", "batch:b/1"):
        queue.done(key)
    assert await free_to_take(queue) == ["batch:a/1"]


async def test_what_moved_forward_or_to_another_lane_leaves_its_place_to_the_next(clock: Clock) -> None:
    lanes = {"x": "a", "y": "a", "z": "a", "busy": "a"}
    queue = Queue[str](clock.monotonic, Shares(lanes=lambda key: (Lane(lanes[key], 1),)))
    for key in ("busy", "x", "y", "z"):
        queue.add(key, Priority.POLL)
    assert await free_to_take(queue) == ["busy"]
    lanes["x"] = lanes["y"] = "b"
    queue.add("x", Priority.CHANGE)
    assert await free_to_take(queue) == ["x"]
    queue.done("busy")  # x had waited first for this place, and y is next
    queue.add("y", Priority.CHANGE)
    assert await free_to_take(queue) == ["z"]
    queue.done("x")
    assert await free_to_take(queue) == ["y"]


async def test_a_lane_within_another_leaves_the_workers_that_it_may_not_have_to_the_rest(clock: Clock) -> None:
    queue = _nested(clock, inner=2, outer=3)
    for key in ("t/a/1", "t/a/2", "t/a/3", "t/b/1", "t/b/2", "u/c/1"):
        queue.add(key, Priority.CHANGE)
    assert await free_to_take(queue) == ["t/a/1", "t/a/2", "t/b/1", "u/c/1"]
    queue.done("t/b/1")
    assert await free_to_take(queue) == ["t/b/2"]
    queue.done("t/a/1")
    assert await free_to_take(queue) == ["t/a/3"]
    for key in ("t/a/2", "t/a/3", "t/b/2", "u/c/1"):
        queue.done(key)
    assert (len(queue), queue._parked, queue._in_lane, queue._working) == (0, {}, {}, {})


async def test_what_finds_its_lane_full_leaves_its_place_in_the_outer_one_to_the_next(clock: Clock) -> None:
    queue = _nested(clock, inner=1, outer=2)
    for key in ("t/b/1", "t/c/1"):
        queue.add(key, Priority.POLL)
    assert await free_to_take(queue) == ["t/b/1", "t/c/1"]
    for key in ("t/a/1", "t/a/2", "t/d/1"):
        queue.add(key, Priority.POLL)
    assert await free_to_take(queue) == []
    queue.add("t/a/0", Priority.CHANGE)
    queue.done("t/c/1")
    assert await free_to_take(queue) == ["t/a/0"]
    queue.done("t/b/1")  # a/2 waited for this place before d/1, but its account has what it may have
    assert await free_to_take(queue) == ["t/d/1"]


@pytest.mark.parametrize("seed", range(200))
async def test_no_key_waits_while_all_its_lanes_have_a_worker_for_it(clock: Clock, seed: int) -> None:
    """Whatever comes, moves forward and ends, each lane keeps its bound, and who could be taken is."""
    chance = Random(seed)
    queue = _nested(clock, inner=chance.randint(1, 2), outer=chance.randint(1, 4))
    keys = [f"{team}/{account}/{number}" for team in "tu" for account in "abcd" for number in range(3)]
    working = list[str]()
    for _ in range(60):
        if working and chance.random() < 0.5:
            queue.done(working.pop(chance.randrange(len(working))))
        else:
            queue.add(chance.choice(keys), chance.choice(list(Priority)))
        if chance.random() < 0.5:
            working += await free_to_take(queue)
            held = Counter(lane for key in working for lane in queue.shares.lanes(key))
            assert all(many <= lane.workers for lane, many in held.items())
            waiting = [key for key in queue._pending if key not in working]
            assert all(any(held[lane] >= lane.workers for lane in queue.shares.lanes(key)) for key in waiting)
    working += await free_to_take(queue)
    while working:
        queue.done(working.pop())
        working += await free_to_take(queue)
    assert (len(queue), queue._parked, queue._in_lane) == (0, {}, {})
    assert (queue._last, queue._in_line) == ({}, {})


async def test_a_key_has_the_lanes_that_it_has_when_it_is_taken(clock: Clock) -> None:
    lanes = dict.fromkeys(("x", "y", "z"), "a")
    queue = Queue[str](clock.monotonic, Shares(lanes=lambda key: (Lane(lanes[key], 1),)))
    for key in lanes:
        queue.add(key, Priority.CHANGE)
    assert await free_to_take(queue) == ["x"]
    lanes["y"] = "b"
    queue.done("x")
    assert await free_to_take(queue) == ["y", "z"]


def _of_tenants(clock: Clock, in_lane: int = 20) -> Queue[str]:
    """Keys such as `team-1`, all in one lane."""
    return Queue(clock.monotonic, Shares(lanes=lambda _: (Lane("shared", in_lane),), tenant=lambda key: key[:-2]))


@pytest.mark.parametrize("in_lane", [1, 10])
async def test_tenants_take_turns_however_many_keys_each_has(clock: Clock, in_lane: int) -> None:
    queue = _of_tenants(clock, in_lane)
    for key in ("a-1", "a-2", "a-3", "a-4", "b-1", "c-1", "c-2"):
        queue.add(key, Priority.CHANGE)
    assert await drained(queue) == ["a-1", "b-1", "c-1", "a-2", "c-2", "a-3", "a-4"]


async def test_a_tenant_who_comes_late_has_the_next_turn_and_none_that_was_missed(clock: Clock) -> None:
    queue = _of_tenants(clock)
    for number in range(8):
        queue.add(f"a-{number}", Priority.CHANGE)
    assert [one.key for _ in range(4) if (one := await taken(queue)) is not None] == ["a-0", "a-1", "a-2", "a-3"]
    for number in range(3):
        queue.add(f"b-{number}", Priority.CHANGE)
    assert await free_to_take(queue) == ["a-4", "b-0", "a-5", "b-1", "a-6", "b-2", "a-7"]


async def test_what_a_tenant_only_looks_at_takes_no_turn_of_its_changes(clock: Clock) -> None:
    queue = _of_tenants(clock)
    for number in range(5):
        queue.add(f"a-{number}", Priority.POLL)
    for key in ("a-5", "b-1", "b-2"):
        queue.add(key, Priority.CHANGE)
    assert (await drained(queue))[:3] == ["a-5", "b-1", "b-2"]


async def test_what_moved_forward_gives_its_turn_back(clock: Clock) -> None:
    queue = _of_tenants(clock)
    for number in range(5):
        queue.add(f"a-{number}", Priority.POLL)
        queue.add(f"a-{number}", Priority.CHANGE)
    queue.add("c-1", Priority.REPAIR)
    assert await drained(queue) == [*(f"a-{number}" for number in range(5)), "c-1"]
    queue.add("c-1", Priority.REPAIR)
    for key in ("a-6", "b-1", "b-2"):
        queue.add(key, Priority.POLL)
    assert await drained(queue) == ["a-6", "b-1", "b-2", "c-1"]


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
    queue.add_after("b", 2_000_000, Priority.POLL)
    for _ in range(1000):
        queue.add_after("a", 1_000_000, Priority.POLL)
        queue.add("a", Priority.CHANGE)
        assert await drained(queue) == ["a"]
    queue.add_after("a", 1_000_000, Priority.POLL)
    assert len(queue._due) < 100
    clock.seconds = 3_000_000
    assert await drained(queue) == ["a", "b"]


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

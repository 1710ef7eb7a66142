"""Which keys get how many of the workers, and in whose turn."""

import asyncio
from collections import Counter
from random import Random

import pytest

from relay_operator.engine.queue import Lane, Lanes, Priority, Queue, Shares
from tests.unit.engine.queues import drained, free_to_take, taken
from tests.unit.flows.managed.world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


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


async def test_a_key_that_finds_its_lane_full_wakes_nobody(clock: Clock) -> None:
    queue = _in_lanes(clock, in_lane=1)
    queue.add("a/1", Priority.CHANGE)
    assert await free_to_take(queue) == ["a/1"]
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    waiters = len(queue._waiters)
    queue.add("a/2", Priority.CHANGE)
    assert len(queue._waiters) == waiters
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


async def test_what_moved_forward_has_no_second_place_when_it_is_added_again(clock: Clock) -> None:
    queue = _in_lanes(clock)
    queue.add("a/1", Priority.POLL)
    queue.add("a/1", Priority.DELETE)
    first = await taken(queue)
    assert first is not None
    queue.done(first.key)
    queue.add("b/1", Priority.POLL)
    queue.add("a/1", Priority.POLL)
    assert await drained(queue) == ["b/1", "a/1"]

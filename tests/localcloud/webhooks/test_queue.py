"""Which calls to receivers may start, and in what order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.clock.call_queue import CallQueue
from relay_localcloud.kernel.due import QueuedCall

IN_ALL, PER_LANE = 9, 2
LANES = "abcdef"
OWNERS = {"a": "one", "b": "one", "c": "one", "d": "two", "e": "two", "f": "three"}

CALLS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(LANES)), max_size=60).map(
    lambda pairs: [QueuedCall(due_at, number, lane) for number, (due_at, lane) in enumerate(pairs)]
)


def queue_of(calls: list[QueuedCall]) -> CallQueue:
    queue = CallQueue(IN_ALL, PER_LANE, OWNERS.__getitem__)
    for call in calls:
        queue.add(call)
    return queue


def start_all(queue: CallQueue, until: int) -> list[QueuedCall]:
    started = []
    while (call := queue.take(until)) is not None:
        started.append(call)
    return started


def of_owner(calls: list[QueuedCall], owner: str) -> list[QueuedCall]:
    return [call for call in calls if OWNERS[call.lane] == owner]


def has_share(under_way: list[QueuedCall], owner: str) -> bool:
    return 3 * len(of_owner(under_way, owner)) < IN_ALL - len(under_way)


def may_start(under_way: list[QueuedCall], call: QueuedCall) -> bool:
    """Whether neither its lane nor its organization has all that it may."""
    in_lane = sum(other.lane == call.lane for other in under_way)
    return in_lane < PER_LANE and has_share(under_way, OWNERS[call.lane])


@given(CALLS, st.data())
def test_whatever_may_start_does_and_nothing_else(calls: list[QueuedCall], data: st.DataObject) -> None:
    queue, under_way, waiting = queue_of(calls), list[QueuedCall](), set(calls)
    while True:
        while (call := queue.take(20)) is not None:
            assert may_start(under_way, call)
            under_way.append(call)
            waiting.remove(call)
        assert not [call for call in waiting if may_start(under_way, call)]
        if not under_way:
            return
        queue.finished(under_way.pop(data.draw(st.integers(0, len(under_way) - 1))))


@given(st.lists(st.sampled_from("abcdeg"), max_size=40), st.integers(1, 5))
def test_who_comes_next_finds_room_however_many_calls_hang(lanes: list[str], others: int) -> None:
    queue = CallQueue(64, 64, lambda lane: lane)
    for number, lane in enumerate([*lanes, *"abcde"[:others] * 64]):
        queue.add(QueuedCall(0, number, lane))
    start_all(queue, 0)
    queue.add(QueuedCall(1, 1_000, "newcomer"))
    assert queue.take(1) == QueuedCall(1, 1_000, "newcomer")


@given(CALLS, st.data())
def test_every_call_starts_once_and_each_lane_keeps_its_order(calls: list[QueuedCall], data: st.DataObject) -> None:
    queue = queue_of(calls)
    under_way = start_all(queue, 20)
    started = list(under_way)
    while under_way:
        queue.finished(under_way.pop(data.draw(st.integers(0, len(under_way) - 1))))
        more = start_all(queue, 20)
        under_way += more
        started += more
    assert sorted(started) == sorted(calls)
    assert (queue.next_due(), queue.earliest()) == (None, None)
    for lane in LANES:
        of_lane = [call for call in started if call.lane == lane]
        assert of_lane == sorted(of_lane)


@given(CALLS)
def test_what_is_pending_is_what_is_not_finished_whosever_its_lane_was(calls: list[QueuedCall]) -> None:
    owners = dict(OWNERS)
    queue = CallQueue(IN_ALL, PER_LANE, owners.__getitem__)
    for call in calls:
        queue.add(call)
    owners.clear()  # every lane is gone
    assert sum(map(queue.pending, set(OWNERS.values()))) == len(calls)
    under_way = start_all(queue, 20)
    while under_way:
        queue.finished(under_way.pop())
        under_way += start_all(queue, 20)
    assert sum(map(queue.pending, set(OWNERS.values()))) == 0


@given(CALLS, st.integers(0, 20))
def test_the_earliest_is_told_whether_it_waits_or_is_under_way(calls: list[QueuedCall], until: int) -> None:
    queue = queue_of(calls)
    start_all(queue, until)
    assert queue.earliest() == min((call.due_at for call in calls), default=None)


@given(CALLS, st.integers(0, 20))
def test_nothing_that_could_start_now_is_announced_for_now(calls: list[QueuedCall], until: int) -> None:
    queue = queue_of(calls)
    start_all(queue, until)
    announced = queue.next_due()
    assert announced is None or announced > until

"""Which calls to receivers may start, and in what order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.clock.call_queue import CallQueue
from relay_localcloud.kernel.due import QueuedCall

IN_ALL, PER_LANE = 5, 2

CALLS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), max_size=60).map(
    lambda pairs: [QueuedCall(due_at, number, lane) for number, (due_at, lane) in enumerate(pairs)]
)


def queue_of(calls: list[QueuedCall]) -> CallQueue:
    queue = CallQueue(IN_ALL, PER_LANE)
    for call in calls:
        queue.add(call)
    return queue


def start_all(queue: CallQueue, until: int) -> list[QueuedCall]:
    started = []
    while (call := queue.take(until)) is not None:
        started.append(call)
    return started


@given(CALLS, st.integers(0, 20))
def test_no_lane_and_not_all_together_have_more_under_way_than_allowed(calls: list[QueuedCall], until: int) -> None:
    started = start_all(queue_of(calls), until)
    due = [call for call in calls if call.due_at <= until]
    assert len(started) == min(IN_ALL, sum(min(PER_LANE, sum(call.lane == lane for call in due)) for lane in "abc"))
    assert all(sum(call.lane == lane for call in started) <= PER_LANE for lane in "abc")


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
    for lane in "abc":
        of_lane = [call for call in started if call.lane == lane]
        assert of_lane == sorted(of_lane)


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

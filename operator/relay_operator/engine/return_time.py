"""When an object is looked at again. Pure; randomness is passed in."""

from datetime import datetime
from typing import assert_never

from relay_operator.engine.backoff import PollIntervals, RetryPolicy, jittered
from relay_operator.engine.memory import Memory
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Return, Told

_SHORTLY = 0.5


def return_time(
    told: Told,
    memory: Memory,
    now: datetime,
    policy: RetryPolicy,
    intervals: PollIntervals,
    *,
    unread: bool,
    deleting: bool,
) -> tuple[float, Priority] | None:
    """Seconds until the next pass, and its priority; None if only an event wakes the object.

    `unread`: the cloud could not be read.
    """
    report = told.report
    if report is None and unread:
        return policy.quick.after(memory.unanswered, policy.random), Priority.RETRY
    if report is None or report.retry is not None or report.next_attempt is not None:
        return max(((told.next_attempt or now) - now).total_seconds(), 0), Priority.RETRY
    slower = 2 ** min(memory.quiet_looks, 16)
    match report.back:
        case Return.NEVER:
            return None
        case Return.AT_ONCE:
            return 0.0, Priority.EVENT
        case Return.SOON:
            return 0.0, Priority.DELETE if deleting else Priority.CHANGE
        case Return.SHORTLY:
            return min(_SHORTLY * slower, intervals.transition), Priority.RETRY
        case Return.TRANSITION:
            interval = min(intervals.transition * slower, intervals.settled)
            return jittered(interval, intervals.jitter, policy.random), Priority.RETRY
        case Return.STEADILY:
            return jittered(intervals.transition, intervals.jitter, policy.random), Priority.RETRY
        case Return.SETTLED:
            return jittered(intervals.settled, intervals.jitter, policy.random), Priority.POLL
        case _ as never:
            assert_never(never)

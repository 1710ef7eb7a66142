"""What is restarted or recreated, and how soon again: a crash loop must not be a spending loop. Pure."""

from datetime import datetime, timedelta

from relay_operator.api.meta import Resource
from relay_operator.api.parts import OnFailed, OnInterrupted, OnTerminated
from relay_operator.api.parts import Recovery as RecoverySpec
from relay_operator.api.workload import BILLED, SpecT, StatusT, WorkloadStatus
from relay_operator.engine.backoff import Backoff
from relay_operator.flows.managed.predicates import (
    ON_THE_WAY,
    created_at,
    refresh_asked,
    running_wanted,
    runtime_used_up,
    since_in,
)
from relay_operator.flows.managed.view import Difference, Recovery, Seen
from relay_operator.flows.managed.workload import asked, told

_LASTING = timedelta(minutes=10)
"""A run this long ends a series of failures: the next recovery is not delayed."""

_BACKOFF = Backoff(initial=10.0, limit=300.0)
"""As the kubelet delays restarts of containers; the first recovery is not delayed."""
LONGEST_WAIT = timedelta(seconds=_BACKOFF.limit)
_NO_RECOVERY = RecoverySpec()
ANEW = frozenset({Difference.REPLACEABLE, Difference.SUPERSEDED})
"""Differences for which another resource is created, without waiting until it is Ready."""
_ENDED = {Seen.FAILED: "failed", Seen.INTERRUPTED: "interrupted", Seen.GONE: "terminated"}
"""The `status.state` that each of these leads to."""


def recovery(obj: Resource[SpecT, StatusT], seen: Seen, now: datetime) -> Recovery:
    """What `spec.recovery` requests for the state seen; what is to be stopped keeps its volume instead.

    Where the maximum runtime is used up, another would run as long again.
    """
    wanted = asked(obj.spec).recovery or _NO_RECOVERY
    match seen:
        case Seen.GONE if wanted.on_terminated is OnTerminated.RECREATE and not runtime_used_up(obj, now):
            return Recovery.RECREATE
        case _ if not running_wanted(obj, now):
            return Recovery.NONE
        case Seen.INTERRUPTED if wanted.on_interrupted is OnInterrupted.RECREATE:
            since = since_in(obj, _ENDED[seen], now)
            return Recovery.RECREATE if now - since >= timedelta(seconds=wanted.after_seconds) else Recovery.NONE
        case Seen.FAILED if wanted.on_failed is OnFailed.RESTART:
            return Recovery.RESTART
        case Seen.FAILED if wanted.on_failed is OnFailed.RECREATE:
            return Recovery.RECREATE
        case _:
            return Recovery.NONE


def lasted(obj: Resource[SpecT, StatusT], until: datetime) -> bool:
    """Whether it has run as now for long by then, or did if its run has ended, so that a series of failures is over."""
    state, begun = obj.status.state, told(obj.status).running_since
    if begun is None or state in ON_THE_WAY:
        return False
    steady_since = max(begun, obj.status.state_since or begun) if state in BILLED else begun
    return until - steady_since >= _LASTING


def in_a_row(obj: Resource[SpecT, StatusT], seen: Seen, now: datetime) -> int:
    """Consecutive restarts and recreations without a long run between them; the time that it loads is none of it."""
    return 0 if lasted(obj, _since(obj, seen, now)) else told(obj.status).recoveries or 0


def due(obj: Resource[SpecT, StatusT], seen: Seen, now: datetime) -> datetime:
    """When it may be restarted or recreated again, counted from when its state was first seen."""
    made = in_a_row(obj, seen, now)
    return _since(obj, seen, now) + timedelta(seconds=_BACKOFF.after(made, _whole) if made else 0)


def is_counted(obj: Resource[SpecT, StatusT], difference: Difference) -> bool:
    """Whether status counts what is recreated for such a difference."""
    return isinstance(obj.status, WorkloadStatus) and difference is not Difference.SUPERSEDED


def next_like_it(obj: Resource[SpecT, StatusT], now: datetime) -> datetime:
    """When another may be created although the cloud shows this one otherwise than it was asked for.

    The next one will most likely differ in the same way. Where status counts none of them, this is the longest wait.
    """
    made = created_at(obj, now)
    return now if made is None else made + LONGEST_WAIT


def held_back(
    obj: Resource[SpecT, StatusT],
    seen: Seen,
    requested: Recovery,
    difference: Difference,
    now: datetime,
    *,
    as_made: bool = False,
) -> bool:
    """Whether a recovery has to wait since one was made lately; a changed spec or a requested refresh does not wait.

    `as_made`: the resource was made from this very spec, and differs from it all the same.
    """
    if _changed(obj) or refresh_asked(obj):
        return False
    if difference in ANEW and not is_counted(obj, difference):
        return as_made and now < next_like_it(obj, now)
    if requested is Recovery.NONE and difference is not Difference.REPLACEABLE:
        return False
    return now < due(obj, seen, now)


def counted(obj: Resource[SpecT, StatusT], seen: Seen, requested: Recovery, now: datetime) -> int:
    """Consecutive recoveries, with the one that begins now; a recreation for a changed spec does not count."""
    return in_a_row(obj, seen, now) + (requested is not Recovery.NONE or not _changed(obj))


def _changed(obj: Resource[SpecT, StatusT]) -> bool:
    return obj.status.observed_generation != obj.metadata.generation


def _since(obj: Resource[SpecT, StatusT], seen: Seen, now: datetime) -> datetime:
    return since_in(obj, _ENDED.get(seen) or obj.status.state or "", now)


def _whole() -> float:
    """Without randomness: status shows the time, and a later pass must compute the same one."""
    return 1.0

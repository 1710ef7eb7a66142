"""What a schedule's status says. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatchschedule import (
    SHOWN_ACTIVE,
    BatchReference,
    InferenceBatchSchedule,
    InferenceBatchScheduleStatus,
)
from relay_operator.engine import conditions
from relay_operator.engine.conditions import Wanted
from relay_operator.flows.managed.status import merge_patch
from relay_operator.flows.schedule.decide import Child, active, last_success


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps batches from being started until somebody acts."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ScheduleFinding:
    """What one pass found and did."""

    children: Sequence[Child]
    now: datetime
    started: datetime | None = None
    """The time whose batch was started, or found to have been."""
    next: datetime | None = None
    trouble: Trouble | None = None


def new_status(schedule: InferenceBatchSchedule, finding: ScheduleFinding) -> InferenceBatchScheduleStatus:
    """What status should say after the pass."""
    before, running = schedule.status, active(finding.children)
    references = [BatchReference(name=child.name, uid=child.uid) for child in running[:SHOWN_ACTIVE]]
    ends = [end for end in (before.last_successful_time, last_success(finding.children)) if end is not None]
    generation = schedule.metadata.generation
    written = conditions.written(before.conditions, _conditions(schedule, finding), generation, finding.now)
    return before.model_copy(
        update={
            "active": references or None,
            "active_batches": len(running),
            "last_schedule_time": finding.started or before.last_schedule_time,
            "last_successful_time": max(ends, default=None),
            "next_schedule_time": finding.next,
            "reconcile_at": schedule.metadata.annotations.get(meta.RECONCILE_AT),
            "observed_generation": generation,
            "conditions": written,
        }
    )


def status_patch(before: InferenceBatchScheduleStatus, after: InferenceBatchScheduleStatus) -> dict[str, JsonValue]:
    """The merge patch between the two; empty where nothing changed."""
    return merge_patch(_dumped(before), _dumped(after))


def _dumped(status: InferenceBatchScheduleStatus) -> dict[str, JsonValue]:
    dumped: dict[str, JsonValue] = status.model_dump(mode="json", exclude_none=True)
    return dumped


def paused(schedule: InferenceBatchSchedule) -> bool:
    return schedule.metadata.annotations.get(meta.PAUSED) == "true"


def _conditions(schedule: InferenceBatchSchedule, finding: ScheduleFinding) -> Iterator[Wanted]:
    trouble = finding.trouble
    if trouble is not None:
        yield Wanted(ConditionType.READY, "False", trouble.reason, trouble.message)
        yield Wanted(ConditionType.STALLED, "True", trouble.reason, trouble.message)
    elif schedule.spec.suspend:
        yield Wanted(ConditionType.READY, "True", Reason.SUSPENDED, "nothing is started while spec.suspend is true")
    else:
        yield Wanted(ConditionType.READY, "True", Reason.SCHEDULED, "a batch is started at each time of the schedule")
    if paused(schedule):
        yield Wanted(ConditionType.PAUSED, "True", Reason.PAUSED, "the annotation paused is set")

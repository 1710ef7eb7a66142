"""The status of a schedule. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatchschedule import (
    SHOWN_ACTIVE,
    BatchReference,
    InferenceBatchSchedule,
    InferenceBatchScheduleStatus,
)
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return, held_by, paused
from relay_operator.engine.status import conditions_of, of_every_pass
from relay_operator.flows.schedule.decide import Child, active, last_success


@dataclass(frozen=True, slots=True)
class Trouble:
    """What prevents new batches until people act."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ScheduleFinding:
    """The findings and results of one pass."""

    children: Sequence[Child]
    now: datetime
    started: datetime | None = None
    """The time whose batch was started, or was found started."""
    next: datetime | None = None
    trouble: Trouble | None = None
    one_output: str = ""
    """The output of all batches, which none may take from another; empty if there is no such output."""


def new_status(schedule: InferenceBatchSchedule, finding: ScheduleFinding) -> InferenceBatchScheduleStatus:
    """The status after the pass."""
    before, running = schedule.status, active(finding.children)
    references = [BatchReference(name=child.name, uid=child.uid) for child in running[:SHOWN_ACTIVE]]
    ends = [end for end in (before.last_successful_time, last_success(finding.children)) if end is not None]
    wanted = conditions_of(before.conditions, report_of(schedule, finding), finding.now)
    return before.model_copy(
        update={
            "active": references or None,
            "active_batches": len(running),
            "last_schedule_time": finding.started or before.last_schedule_time,
            "last_successful_time": max(ends, default=None),
            "next_schedule_time": finding.next,
            **of_every_pass(before, schedule.metadata, wanted, finding.now, looked=True),
        }
    )


def report_of(
    schedule: InferenceBatchSchedule, finding: ScheduleFinding, looks: tuple[tuple[float, Priority], ...] = ()
) -> Report:
    """The report on whether batches start."""
    is_paused = schedule.metadata.held
    extra = (held_by(schedule.metadata),) if is_paused else ()
    if (trouble := finding.trouble) is not None:
        return Report(
            "False", ConditionType.STALLED, trouble.reason, trouble.message, Return.NEVER, extra=extra, looks=looks
        )
    if is_paused:
        return replace(paused(schedule.status, schedule.metadata), looks=looks)
    if not schedule.spec.suspend:
        message = f"a batch is started at each time of the schedule{_contested(finding.one_output)}"
        return Report("True", None, Reason.SCHEDULED, message, Return.NEVER, looks=looks)
    text = "nothing is started while spec.suspend is true"
    suspended = Wanted(ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)
    return Report("True", None, Reason.SUSPENDED, text, Return.NEVER, extra=(suspended,), looks=looks)


def _contested(output: str) -> str:
    return output and (
        f"; all have the output {output}, so that each after the first fails with OutputExists: put a placeholder such "
        "as {name} into it, or set output.onExisting to Replace"
    )

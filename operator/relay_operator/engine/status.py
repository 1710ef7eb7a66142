"""The desired status, and the smallest patch that leads to it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from relay_operator.api.conditions import Condition, ConditionType, ObjectStatus
from relay_operator.api.meta import RECONCILE_AT, Model, ObjectMeta
from relay_operator.engine import conditions
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.report import Report

StatusT = TypeVar("StatusT", bound=Model)


def of_every_pass(
    before: ObjectStatus, metadata: ObjectMeta, wanted: Iterable[Wanted], now: datetime, *, looked: bool
) -> dict[str, object]:
    """The fields that every pass sets; `looked`: what `reconcile-at` requests was done."""
    return {
        "observed_generation": metadata.generation,
        "reconcile_at": metadata.echo(RECONCILE_AT) if looked else before.reconcile_at,
        "conditions": conditions.written(before.conditions, wanted, metadata.generation, now),
    }


def conditions_of(before: Sequence[Condition], report: Report, now: datetime) -> Iterator[Wanted]:
    """`Ready` always; `Reconciling` and `Stalled` only while true; the others while they have something to report."""
    ready = conditions.find(before, ConditionType.READY)
    if report.ready is None and ready is not None:
        yield conditions.as_it_was(ready, ready.observed_generation)
    else:
        yield Wanted(ConditionType.READY, report.ready or "False", report.reason, report.message)
    if report.trouble is not None:
        waits = report.patient and not conditions.waited_out(before, report.reason, now)
        trouble = ConditionType.RECONCILING if waits else report.trouble
        yield Wanted(trouble, "True", report.reason, report.message)
    yield from report.extra
    yield from _carried_over(before, report)


def _carried_over(before: Sequence[Condition], report: Report) -> Iterator[Wanted]:
    """What still holds if the cloud was not read; what it may cost is part of what `Ready` says."""
    if not report.unseen:
        return
    unknown, dear = ConditionType.CREATE_OUTCOME_UNKNOWN, ConditionType.BUDGET_EXCEEDED
    told = {each.type for each in report.extra}
    for kind in (unknown, dear) if report.ready is None else (unknown,):
        known = conditions.find(before, kind)
        if known is not None and kind not in told:
            yield conditions.as_it_was(known)


def whole_seconds(now: datetime, wait: float) -> datetime:
    """The time after a wait, rounded up to the whole seconds of status."""
    return (now + timedelta(seconds=wait + 0.999)).replace(microsecond=0)


def storable(status: StatusT) -> StatusT:
    """The status without values that the CRD's bounds refuse: one odd value must not keep the id from being written.

    `id` and `former` stay. A value that is a model itself was validated when it was created.
    """
    try:
        type(status).model_validate(vars(status))
    except ValidationError as refused:
        odd = {error["loc"][0] for error in refused.errors(include_input=False)} - {"id", "former"}
        fields = type(status).model_fields.items()
        return status.model_copy(update={name: None for name, field in fields if odd & {name, field.alias}})
    return status


def dumped(status: ObjectStatus, only: set[str] | None = None) -> dict[str, JsonValue]:
    """The status as JSON, whole or only these fields; empty texts are left out."""
    fields: dict[str, JsonValue] = status.model_dump(mode="json", exclude_none=True, include=only)
    return {name: value for name, value in fields.items() if value != ""}


def status_patch(before: ObjectStatus, after: ObjectStatus) -> dict[str, JsonValue]:
    """The merge patch from one status to the other; empty if they are equal."""
    known = vars(before)
    changed = {name for name, value in vars(after).items() if value != known[name]}
    had = {name for name in changed if known[name] is not None}
    return merge_patch(dumped(before, had) if had else {}, dumped(after, changed)) if changed else {}


def merge_patch(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The merge patch (RFC 7386) from `before` to `after`; lists are replaced whole."""
    patch: dict[str, JsonValue] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif (old := before[name]) != value:
            patch[name] = merge_patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch

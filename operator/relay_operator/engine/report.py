"""What a pass reports about its object, and when it returns: one form and one table of refusals for all flows. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Literal, TypeAlias

from relay_client import errors
from relay_client.errors import CloudError, clause
from relay_operator.api.conditions import ConditionType, ObjectStatus, Reason
from relay_operator.api.meta import ObjectMeta
from relay_operator.engine import conditions
from relay_operator.engine.account import AccountRefused, AccountWaiting
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.leftover import Leftover
from relay_operator.engine.queue import Priority


class Return(Enum):
    """When to look at the object again, if no next attempt is set."""

    NEVER = auto()  # an event will wake it, or it is being deleted
    SOON = auto()  # there is a next step
    SHORTLY = auto()  # the cloud has most likely done it already, and no event reports it
    AT_ONCE = auto()  # a webhook was faster than the answer that it is about
    TRANSITION = auto()  # the cloud is working on it: the longer nothing changes, the later
    STEADILY = auto()  # the cloud is working on it, at a cost that has a limit
    SETTLED = auto()  # as desired, or waiting for people


class RetryKind(Enum):
    """How a refused attempt is repeated."""

    QUICK = auto()  # exponential backoff from its beginning
    SLOW = auto()  # only people, or a change elsewhere, can help: the longest backoff
    ADVISED = auto()  # the cloud's Retry-After if it gave one, else backoff


Trouble: TypeAlias = Literal[ConditionType.RECONCILING, ConditionType.STALLED]


@dataclass(frozen=True, slots=True)
class Report:
    """The next contents of status; `ready` None leaves the Ready condition as it is."""

    ready: Literal["True", "False", "Unknown"] | None
    trouble: Trouble | None
    reason: str
    """A `Reason`; why something ended may be one of another release."""
    message: str
    back: Return = Return.TRANSITION
    retry: RetryKind | None = None
    retry_after: float | None = None
    extra: tuple[Wanted, ...] = ()
    deletion_deadline: datetime | None = None
    next_attempt: datetime | None = None
    """The time that is waited for, if it is known without a retry."""
    patient: bool = False
    """Whether `trouble` may resolve by itself: it is Reconciling at first, and Stalled once it has lasted."""
    looks: tuple[tuple[float, Priority], ...] = ()
    """Further passes: seconds from now, and priority."""
    unseen: bool = False
    """Whether the cloud was not read, so that what was unknown still is."""


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of a pass."""

    before: ObjectStatus
    after: ObjectStatus
    """The status as it was read, and the desired one."""
    report: Report | None
    """None if there is nothing to report."""
    next_attempt: datetime | None = None
    """The time that status gives for the next attempt."""
    due: tuple[datetime, ...] = ()
    """Times at which a pass is due although nothing has changed."""
    name: str = ""
    """The name of what was done; empty means the name of the action."""
    summary: str = ""
    """The message for the log; empty means the report's message."""
    once_written: Callable[[], object] | None = None
    """Called once status is written, to forget what status records by then."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """How status reports one kind of refusal."""

    reason: Reason
    stalled: bool
    retry: RetryKind


MAY_COME = frozenset({Reason.ACCOUNT_MISSING, Reason.SECRET_MISSING})
"""What often appears a moment later: another part of a GitOps run applies it, or a controller that copies Secrets."""
_MAY_BE_ADMITTED = frozenset({Reason.ACCOUNT_MISSING, Reason.ACCOUNT_NOT_ALLOWED})
"""What the labels of a namespace may end, of which no event tells."""
LAST_OWNER = "LAST_OWNER"
"""The operator's code for a conflict that the cloud reports without one."""
REPLICAS_OUT_OF_BOUNDS = "REPLICAS_OUT_OF_BOUNDS"
"""The operator's code for a conflict that it sees before it calls the cloud."""
_SUSPENDED = Refusal(Reason.ACCOUNT_SUSPENDED, stalled=True, retry=RetryKind.SLOW)
_BY_CODE: Mapping[str, Refusal] = {
    "account_suspended": _SUSPENDED,
    "account_unavailable": _SUSPENDED,
    "POD_NODE_BUSY": Refusal(Reason.POD_NODE_BUSY, stalled=False, retry=RetryKind.QUICK),
    "POD_NODE_OFFLINE": Refusal(Reason.POD_NODE_OFFLINE, stalled=False, retry=RetryKind.QUICK),
    "POD_STOPPING": Refusal(Reason.POD_STOPPING, stalled=False, retry=RetryKind.QUICK),
    "POD_NODE_NO_INFINIBAND": Refusal(Reason.POD_NODE_NO_INFINIBAND, stalled=True, retry=RetryKind.SLOW),
    LAST_OWNER: Refusal(Reason.LAST_OWNER, stalled=True, retry=RetryKind.SLOW),
    "LANE_INTENT_REQUIRED": Refusal(Reason.LANE_INTENT_REQUIRED, stalled=True, retry=RetryKind.SLOW),
    "SPEND_LIMIT_REACHED": Refusal(Reason.WAITING_FOR_BUDGET, stalled=False, retry=RetryKind.SLOW),
    REPLICAS_OUT_OF_BOUNDS: Refusal(Reason.REPLICAS_OUT_OF_BOUNDS, stalled=True, retry=RetryKind.SLOW),
}
_TELLING = (errors.BadRequest, errors.PaymentRequired, errors.Forbidden, errors.Conflict)
"""Errors whose code says more than their status, which section 7 does not give for each code."""
_REFUSALS: tuple[tuple[type[CloudError], Refusal], ...] = (
    (errors.CapacityExhausted, Refusal(Reason.WAITING_FOR_CAPACITY, stalled=False, retry=RetryKind.ADVISED)),
    (errors.RateLimited, Refusal(Reason.RATE_LIMITED, stalled=False, retry=RetryKind.ADVISED)),
    (errors.PaymentRequired, Refusal(Reason.BALANCE_EXHAUSTED, stalled=True, retry=RetryKind.SLOW)),
    (errors.Unauthorized, Refusal(Reason.ACCOUNT_UNAUTHORIZED, stalled=True, retry=RetryKind.ADVISED)),
    (errors.Forbidden, Refusal(Reason.ACCOUNT_FORBIDDEN, stalled=True, retry=RetryKind.SLOW)),
    (errors.NotServed, Refusal(Reason.NOT_SERVED, stalled=True, retry=RetryKind.SLOW)),
    (errors.BadRequest, Refusal(Reason.SPEC_INVALID, stalled=True, retry=RetryKind.SLOW)),
    (errors.Conflict, Refusal(Reason.CONFLICT, stalled=False, retry=RetryKind.QUICK)),
    (errors.NotFound, Refusal(Reason.CONFLICT, stalled=False, retry=RetryKind.QUICK)),
    (errors.Gone, Refusal(Reason.CONFLICT, stalled=False, retry=RetryKind.QUICK)),
)
_UNREACHABLE = Refusal(Reason.CLOUD_UNAVAILABLE, stalled=False, retry=RetryKind.ADVISED)


def refusal(error: CloudError) -> Refusal:
    """The row for an error: a 400, 402, 403, 409 or 422 by its code, if that is known, other errors by their class."""
    by_code = _BY_CODE.get(error.code or "") if isinstance(error, _TELLING) else None
    return by_code or next((row for kind, row in _REFUSALS if isinstance(error, kind)), _UNREACHABLE)


def refused(error: CloudError) -> Report:
    """The report on a call that the cloud refused, and that is repeated."""
    row = refusal(error)
    trouble: Trouble = ConditionType.STALLED if row.stalled else ConditionType.RECONCILING
    return Report("False", trouble, row.reason, error.message, retry=row.retry, retry_after=error.retry_after)


def unfunded(refusal: Report, reason: Reason = Reason.WAITING_FOR_BUDGET) -> Report:
    """The report on a refusal for lack of funds: a create or a growth can wait, so that it is not Stalled."""
    exceeded = Wanted(ConditionType.BUDGET_EXCEEDED, "True", reason, refusal.message)
    return replace(refusal, trouble=ConditionType.RECONCILING, reason=reason, extra=(exceeded,))


def unknown(reason: Reason, message: str, back: Return = Return.TRANSITION, *, stalled: bool = False) -> Report:
    """The report on a create with an unknown outcome; `stalled`: a person has to find out."""
    extra = (Wanted(ConditionType.CREATE_OUTCOME_UNKNOWN, "True", reason, message),)
    trouble: Trouble = ConditionType.STALLED if stalled else ConditionType.RECONCILING
    return Report("False", trouble, reason, message, back, extra=extra)


def late_create(late: Leftover, *, reached: bool) -> Wanted:
    """The condition about a resource that was created too late, in a cloud that its account still calls or not."""
    what = f"the resource {late.id}, named {late.name!r}, is being ended"
    if not reached:
        what = (
            f"the resource {late.id}, named {late.name!r}, cannot be ended, since {late.account} no longer calls the "
            "URL that it was created with: give that URL to it, or to another account of the organization, until this "
            f"is over, or, if the resource is gone, delete the operator's ConfigMap {late.config_map}"
        )
    message = f"the cloud acted on a create that had been given up: {what}"
    return Wanted(ConditionType.LATE_CREATE, "True", Reason.LATE_CREATE, message)


def unrecorded(trouble: str) -> Wanted:
    """The condition about a resource that is left in the cloud and cannot be recorded."""
    return Wanted(ConditionType.LEFTOVER_UNRECORDED, "True", Reason.LEFTOVER_UNRECORDED, trouble)


def held(trouble: str, left: Sequence[str]) -> Report:
    """The report on an object that stays until what it leaves in the cloud is recorded."""
    why = unrecorded(trouble)
    message = (
        f"{conditions.some(left)} stays in the cloud, and the object goes once that is written down; "
        f"{clause(why.message)}. To let it go without a record, remove its finalizers"
    )
    return Report(None, ConditionType.STALLED, Reason.LEFTOVER_UNRECORDED, message, Return.NEVER, extra=(why,))


_UNSEEN = Wanted(
    ConditionType.PAUSED, "True", Reason.PAUSED, "the annotation paused is set: what status tells of the cloud is old"
)
_WATCHED = replace(_UNSEEN, message="the annotation paused is set: the operator looks, and changes nothing")
_UNPLANNED = Wanted(
    ConditionType.PAUSED,
    "True",
    Reason.PAUSED,
    "the annotation plan-only is set: for this kind it holds back everything, and no plan is made",
)


def held_by(metadata: ObjectMeta, *, watched: bool = False) -> Wanted:
    """The condition of an object that an annotation holds back entirely; `watched`: it is still looked at."""
    held = (_WATCHED if watched else _UNSEEN) if metadata.paused else _UNPLANNED
    if metadata.deletion_timestamp is None:
        return held
    return replace(held, message=f"{clause(held.message)}; the deletion waits until it is removed")


def paused(before: ObjectStatus, metadata: ObjectMeta) -> Report:
    """The report on an object that is left alone; `Ready` stays, but is False for a spec that has changed since."""
    ready = conditions.find(before.conditions, ConditionType.READY)
    held = before.observed_generation != metadata.generation or (ready is not None and ready.reason == Reason.PAUSED)
    if metadata.deletion_timestamp is not None:
        held = False  # deletion raises the generation without a change of the spec
    by = held_by(metadata)
    return Report("False" if held else None, None, Reason.PAUSED, by.message, Return.NEVER, extra=(by,), unseen=True)


def disabled(kind: str, before: ObjectStatus, metadata: ObjectMeta) -> Report:
    """The report on an object of a disabled kind, which is neither read nor changed.

    An object that was Ready stays so; a transition is not followed any further.
    """
    ready = conditions.find(before.conditions, ConditionType.READY)
    stays = ready is not None and ready.status == "True" and before.observed_generation == metadata.generation
    message = (
        f"objects of the kind {kind} are switched off, since the cloud's description does not show the calls that they "
        f"need: add {kind} to RELAY_ASSUMED_KINDS (the chart's value assumedKinds), or delete the object, and what it "
        "has in the cloud is still ended"
    )
    return Report(
        None if stays else "False", ConditionType.STALLED, Reason.KIND_DISABLED, message, Return.NEVER, unseen=True
    )


def blind(error: CloudError | None, *, unreachable: bool) -> Report | None:
    """The report on a cloud that cannot be read; None if it can, or if it is silent and not yet `unreachable`.

    `Ready` stays as it was last seen. A refused key is reported at once, silence only after a while.
    """
    if error is None:
        return None
    row = refusal(error)
    if row.reason is Reason.CLOUD_UNAVAILABLE and not unreachable:
        return None
    return Report(
        None,
        ConditionType.STALLED,
        row.reason,
        error.message,
        retry=row.retry,
        retry_after=error.retry_after,
        unseen=True,
    )


def outdated(message: str) -> Report:
    """The report on a CRD that would drop what has to be recorded."""
    return Report("False", ConditionType.STALLED, Reason.CRD_OUTDATED, message, Return.SETTLED)


def deletion_waits(message: str) -> str:
    """The message about what a deletion waits for."""
    return f"{clause(message)}; the deletion waits for it (the annotation abandon lets go without touching the cloud)"


def without_account(account: AccountWaiting | AccountRefused, *, deleting: bool, recorded: bool) -> Report:
    """The report on an object without a usable account; `recorded`: it has something in the cloud."""
    message = deletion_waits(account.message) if deleting else account.message
    back = Return.TRANSITION if account.reason in _MAY_BE_ADMITTED else Return.SETTLED
    if recorded:
        patient = account.reason in MAY_COME and not deleting
        return Report(None, ConditionType.STALLED, account.reason, message, back, patient=patient, unseen=True)
    if isinstance(account, AccountRefused):
        return Report("False", ConditionType.STALLED, account.reason, message, back, unseen=True)
    return Report("False", ConditionType.RECONCILING, Reason.WAITING_FOR_ACCOUNT, message, back, unseen=True)

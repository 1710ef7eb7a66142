"""The results of actions and of long work, as types."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from relay_client import CloudError, NotFound
from relay_client.errors import clause
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import (
    SHOWN_REASONS,
    Ending,
    FailureReason,
    OutputStatus,
    PartStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.meta import CreateIntent, Identity
from relay_operator.engine.actions import Nothing
from relay_operator.records.problems import Problems
from relay_operator.records.results import Reasons
from relay_wire.batches import Batch


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The round's records are in the cloud; without parts, no record may be sent again."""

    parts: tuple[PartStatus, ...]
    records: int
    digest: str = ""
    retried: int = 0
    """In a later round: records that had failed before."""
    reasons: tuple[FailureReason, ...] = ()
    """In a later round: why records had failed before, whether sent again or not."""
    made_for: Identity | None = None
    """Whose the files are, and in which cloud: the account may have got another URL since."""


@dataclass(frozen=True, slots=True)
class Published:
    """The output is written."""

    output: OutputStatus
    counts: RequestCounts
    unanswered: int
    lost: int
    """Files with results that the cloud no longer has."""
    at: datetime
    problems: tuple[Problem, ...] = ()
    reasons: tuple[FailureReason, ...] = ()
    ending: Ending | None = None
    """Why nothing more was sent; None if all was sent. If it was published before, as it was then."""
    usage: Usage | None = None
    begun: datetime | None = None
    """When the batch began: where several write to the same place, this tells which of them is the latest."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The cloud has no file of this object any more."""


@dataclass(frozen=True, slots=True)
class WorkRefused:
    """It can never succeed; the batch fails for this reason."""

    reason: Reason
    message: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkTroubled:
    """It may succeed later: by itself, or, if `stalled`, once somebody fixes what the message names."""

    reason: Reason
    message: str
    stalled: bool = False
    retry_after: float | None = None


def frequent(reasons: Reasons) -> tuple[FailureReason, ...]:
    """The most frequent reasons, for the status."""
    return tuple(FailureReason(code=code, count=count) for code, count in reasons.counts.most_common(SHOWN_REASONS))


def shown(problems: Problems) -> tuple[Problem, ...]:
    """Some of the problems, for the status: at least the first of each code."""
    return tuple(Problem(line=each.line or None, code=each.code, message=each.message[:512]) for each in problems.first)


def no_access(error: NotFound) -> WorkTroubled:
    """The meaning of a 404 for a request that named nothing (section 7, "Batch and file endpoints")."""
    text = f"{clause(error.message)}: the cloud answers so if the organization has no access to batches"
    return WorkTroubled(Reason.ACCOUNT_FORBIDDEN, text, stalled=True)


WorkResult: TypeAlias = Uploaded | Published | Cleared | WorkRefused | WorkTroubled


class StoppedError(Exception):
    """Carries the result of long work out of the middle of it."""

    def __init__(self, came: WorkRefused | WorkTroubled) -> None:
        super().__init__(came.message)
        self.came = came


@dataclass(frozen=True, slots=True)
class Begun:
    """The intent is written."""

    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Paid:
    """The batch exists: its id must reach status, whatever happens."""

    part: PartStatus
    batch: Batch


@dataclass(frozen=True, slots=True)
class NotPaid:
    """The cloud refused the create, or it was not sent. `vanished`: the cloud no longer has the part's file."""

    part: PartStatus
    error: CloudError
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The cloud may or may not have acted on a create; its marker stays."""

    part: PartStatus
    error: CloudError


@dataclass(frozen=True, slots=True)
class CancelRefused:
    """The cloud refused the cancellation."""

    error: CloudError


@dataclass(frozen=True, slots=True)
class Hindered:
    """The output cannot be started."""

    came: WorkRefused | WorkTroubled


Result: TypeAlias = Nothing | Begun | Paid | NotPaid | Unknown | CancelRefused | Hindered

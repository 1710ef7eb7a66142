"""What came of an action, and what long work came to. Results are types, matched exhaustively."""

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
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.actions import Nothing
from relay_operator.records.problems import Problems
from relay_operator.records.results import Reasons
from relay_wire.batches import Batch


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The round's records are in the cloud; none if nothing may be sent again."""

    parts: tuple[PartStatus, ...]
    records: int
    digest: str = ""
    retried: int = 0
    """Of a later round: records that had failed before."""
    reasons: tuple[FailureReason, ...] = ()
    """Of a later round: why records had failed before, sent again or not."""


@dataclass(frozen=True, slots=True)
class Published:
    """The output is where it belongs."""

    output: OutputStatus
    counts: RequestCounts
    unanswered: int
    lost: int
    """Files with results that the cloud does not have any more."""
    at: datetime
    problems: tuple[Problem, ...] = ()
    reasons: tuple[FailureReason, ...] = ()
    ending: Ending | None = None
    """Why it ended and what it cost: known only if it was published before and the status that told it was lost."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Cleared:
    """Nothing of ours is left in the cloud."""


@dataclass(frozen=True, slots=True)
class WorkRefused:
    """It can never be done; the batch fails for this reason."""

    reason: Reason
    message: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkTroubled:
    """It may be done later: by itself, or, where `stalled`, when somebody mends what the message names."""

    reason: Reason
    message: str
    stalled: bool = False
    retry_after: float | None = None


def frequent(reasons: Reasons) -> tuple[FailureReason, ...]:
    """The reasons that are shown."""
    return tuple(FailureReason(code=code, count=count) for code, count in reasons.counts.most_common(SHOWN_REASONS))


def shown(problems: Problems) -> tuple[Problem, ...]:
    """The first problems, as status tells them."""
    return tuple(Problem(line=each.line or None, code=each.code, message=each.message[:512]) for each in problems.first)


def no_access(error: NotFound) -> WorkTroubled:
    """What a 404 means if nothing was named that could be absent (section 7, "Batch and file endpoints")."""
    text = f"{clause(error.message)}: the cloud answers so if the organization has no access to batches"
    return WorkTroubled(Reason.ACCOUNT_FORBIDDEN, text, stalled=True)


WorkResult: TypeAlias = Uploaded | Published | Cleared | WorkRefused | WorkTroubled


class StoppedError(Exception):
    """Carries what the work came to out of the middle of it."""

    def __init__(self, came: WorkRefused | WorkTroubled) -> None:
        super().__init__(came.message)
        self.came = came


@dataclass(frozen=True, slots=True)
class Begun:
    """The intent is written."""

    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Paid:
    """The batch exists: its id must reach status whatever happens."""

    part: PartStatus
    batch: Batch


@dataclass(frozen=True, slots=True)
class NotPaid:
    """The cloud said no, or was never asked. `vanished`: the part's file is not in the cloud any more."""

    part: PartStatus
    error: CloudError
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A create may or may not have been acted upon; its marker stays."""

    part: PartStatus
    error: CloudError


@dataclass(frozen=True, slots=True)
class CancelRefused:
    """The cloud did not take the cancellation."""

    error: CloudError


@dataclass(frozen=True, slots=True)
class Hindered:
    """The output cannot be begun."""

    came: WorkRefused | WorkTroubled


Result: TypeAlias = Nothing | Begun | Paid | NotPaid | Unknown | CancelRefused | Hindered

"""What publishing leaves beside the answers: a status that is lost is rebuilt from it, and nothing paid twice. Pure."""

from datetime import datetime
from typing import Final

from pydantic import Field, ValidationError

from relay_operator.api.inferencebatch import (
    Ending,
    FailureReason,
    InferenceBatchStatus,
    OutputStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.meta import Model, Time
from relay_operator.flows.batch.result import Published

LONGEST: Final = 128 * 1024
"""Bytes of a mark that is read."""


class Mark(Model):
    """How a batch ended, as far as nothing but its status told it."""

    token: str = Field(min_length=1, max_length=64)  # of the batch that wrote it
    at: Time
    output: OutputStatus
    counts: RequestCounts
    unanswered: int = Field(ge=0)
    lost: int = Field(ge=0)
    problems: list[Problem] = Field(default_factory=list)
    reasons: list[FailureReason] = Field(default_factory=list)
    ending: Ending | None = None
    usage: Usage | None = None


def mark_of(token: str, came: Published, status: InferenceBatchStatus, now: datetime) -> str:
    """The text to leave."""
    return Mark(
        token=token,
        at=now,
        output=came.output,
        counts=came.counts,
        unanswered=came.unanswered,
        lost=came.lost,
        problems=list(came.problems),
        reasons=list(came.reasons),
        ending=status.ending,
        usage=status.usage,
    ).model_dump_json(exclude_none=True)


def published_by(token: str, text: str | bytes) -> Published | None:
    """What the batch of this token published; None if the text is no mark of its."""
    try:
        mark = Mark.model_validate_json(text)
    except ValidationError:
        return None
    if mark.token != token:
        return None
    return Published(
        output=mark.output,
        counts=mark.counts,
        unanswered=mark.unanswered,
        lost=mark.lost,
        problems=tuple(mark.problems),
        reasons=tuple(mark.reasons),
        at=mark.at,
        ending=mark.ending,
        usage=mark.usage,
    )

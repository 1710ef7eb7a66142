"""The mark beside published answers, from which a lost status is rebuilt, so that nothing is paid for twice. Pure."""

from dataclasses import fields
from typing import Final

from pydantic import Field, ValidationError

from relay_operator.api.inferencebatch import (
    Ending,
    FailureReason,
    OutputStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.meta import Model, Time
from relay_operator.flows.batch.result import Published

LONGEST: Final = 128 * 1024
"""The most bytes of a mark to read."""
_PUBLISHED: Final = tuple(field.name for field in fields(Published))


class Mark(Model):
    """How a batch ended, as far as only its status shows it: the fields of `Published`, and the batch's token."""

    token: str = Field(min_length=1, max_length=64)  # of the batch that wrote the mark
    at: Time
    output: OutputStatus
    counts: RequestCounts
    unanswered: int = Field(ge=0)
    lost: int = Field(ge=0)
    problems: tuple[Problem, ...] = ()
    reasons: tuple[FailureReason, ...] = ()
    ending: Ending | None = None
    usage: Usage | None = None


def mark_of(token: str, came: Published) -> str:
    """The text of the mark."""
    return Mark(token=token, **{name: getattr(came, name) for name in _PUBLISHED}).model_dump_json(exclude_none=True)


def published_by(token: str, text: str | bytes) -> Published | None:
    """What the batch of this token published; None if the text is not a mark of that batch."""
    try:
        mark = Mark.model_validate_json(text)
    except ValidationError:
        return None
    if mark.token != token:
        return None
    return Published(**{name: getattr(mark, name) for name in _PUBLISHED})

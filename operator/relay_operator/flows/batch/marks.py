"""The mark beside published answers, from which a lost status is rebuilt, so that nothing is paid for twice. Pure."""

from dataclasses import fields
from datetime import datetime
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from relay_operator.api.inferencebatch import (
    SHOWN_PROBLEMS,
    SHOWN_REASONS,
    Ending,
    FailureReason,
    OutputStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.meta import Model, Time
from relay_operator.engine.fit_schema import INT64
from relay_operator.flows.batch.result import Published

LONGEST: Final = 128 * 1024
"""The most bytes of a mark to read."""
_PUBLISHED: Final = tuple(field.name for field in fields(Published))


_NumbersT = TypeVar("_NumbersT", bound=Model)


def _within_int64(value: _NumbersT) -> _NumbersT:
    if any(isinstance(number, int) and number > INT64 for _, number in value):
        raise ValueError("a number is larger than the API server takes")
    return value


_Fitting = AfterValidator(_within_int64)


class Mark(Model):
    """How a batch ended, as far as only its status shows it: the fields of `Published`, and the batch's token.

    Whoever may write to the output can edit it: what no status can hold is not a mark.
    """

    token: str = Field(min_length=1, max_length=64)  # of the batch that wrote the mark
    at: Time
    output: Annotated[OutputStatus, _Fitting]
    counts: Annotated[RequestCounts, _Fitting]
    unanswered: int = Field(ge=0)
    lost: int = Field(ge=0)
    problems: tuple[Annotated[Problem, _Fitting], ...] = Field((), max_length=SHOWN_PROBLEMS)
    reasons: tuple[Annotated[FailureReason, _Fitting], ...] = Field((), max_length=SHOWN_REASONS)
    ending: Ending | None = None
    usage: Annotated[Usage, _Fitting] | None = None
    begun: Time | None = None  # unknown in marks of earlier releases


def mark_of(token: str, came: Published) -> str:
    """The text of the mark."""
    return Mark(token=token, **{name: getattr(came, name) for name in _PUBLISHED}).model_dump_json(exclude_none=True)


def published_by(token: str, text: str | bytes) -> Published | None:
    """What the batch of this token published; None if the text is not a mark of that batch."""
    mark = _read(text)
    if mark is None or mark.token != token:
        return None
    return Published(**{name: getattr(mark, name) for name in _PUBLISHED})


def is_later(text: str | bytes, token: str, begun: datetime) -> bool:
    """Whether the text is the mark of another batch, which began after the one with this token."""
    mark = _read(text)
    return mark is not None and mark.token != token and (mark.begun or mark.at) > begun


def _read(text: str | bytes) -> Mark | None:
    try:
        return Mark.model_validate_json(text)
    except ValidationError:
        return None

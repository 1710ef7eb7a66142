"""What the cloud says, brought within what the CRDs take: nothing odd in it keeps a status from being written. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from relay_operator.api.meta import Model

_INT64 = 2**63 - 1
_MOMENT: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)
_ERA = (datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
"""Go's zero time is in the year 1: a moment that was never set. Neither end can overflow in any time zone."""


def fit_schema(model: type[Model], told: Mapping[str, object]) -> dict[str, object]:
    """The values of these fields as the model's bounds have them: texts cut, numbers capped, what is neither absent."""
    return {name: _fit(model.model_fields[name], value) for name, value in told.items()}


def moment(text: str | None) -> datetime | None:
    """A moment the cloud tells; None where it is none, or was never set."""
    try:
        told = _MOMENT.validate_python(text)
    except (ValidationError, OverflowError):
        return None
    return told if _ERA[0] <= told <= _ERA[1] else None


def _fit(field: FieldInfo, value: object) -> object:
    match value:
        case str():
            return _text(field, value)
        case int() if not isinstance(value, bool):
            return _number(field, value)
        case _:
            return value


def _text(field: FieldInfo, text: str) -> str | None:
    longest = next((bound.max_length for bound in field.metadata if isinstance(bound, MaxLen)), len(text))
    shortest = next((bound.min_length for bound in field.metadata if isinstance(bound, MinLen)), 0)
    if len(text) < shortest:
        return None
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _number(field: FieldInfo, number: int) -> int | None:
    least = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), -_INT64)
    most = next((bound.le for bound in field.metadata if isinstance(bound, Le)), _INT64)
    assert isinstance(least, int), "bounds of whole numbers are whole"
    assert isinstance(most, int), "bounds of whole numbers are whole"
    return min(number, most) if number >= least else None

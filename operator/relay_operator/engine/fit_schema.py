"""Fits what the cloud says into the CRDs' bounds, so that no odd value keeps a status from being written. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AwareDatetime, TypeAdapter, ValidationError

from relay_operator.api.meta import Model

INT64 = 2**63 - 1
"""The largest number that the API server takes."""
_MOMENT: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)
_ERA = (datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
"""A moment that was never set is Go's zero time, in the year 1. Neither end can overflow in any time zone."""


def fit_schema(model: type[Model], told: Mapping[str, object]) -> dict[str, object]:
    """The values within the model's bounds: long texts are cut, large numbers capped, values below a minimum None."""
    return {name: value if value is None else _fit(_bounds(model, name), value) for name, value in told.items()}


def moment(text: str | None) -> datetime | None:
    """The moment that the cloud names; None if it is malformed, or was never set."""
    try:
        told = _MOMENT.validate_python(text)
    except (ValidationError, OverflowError):
        return None
    return told if _ERA[0] <= told <= _ERA[1] else None


@dataclass(frozen=True, slots=True)
class _Bounds:
    shortest: int
    longest: int
    least: int
    most: int


@cache
def _bounds(model: type[Model], name: str) -> _Bounds:
    bounds = model.model_fields[name].metadata
    least = next((bound.ge for bound in bounds if isinstance(bound, Ge)), -INT64)
    most = next((bound.le for bound in bounds if isinstance(bound, Le)), INT64)
    assert isinstance(least, int), "bounds of whole numbers are whole"
    assert isinstance(most, int), "bounds of whole numbers are whole"
    return _Bounds(
        shortest=next((bound.min_length for bound in bounds if isinstance(bound, MinLen)), 0),
        longest=next((bound.max_length for bound in bounds if isinstance(bound, MaxLen)), INT64),
        least=least,
        most=most,
    )


def _fit(bounds: _Bounds, value: object) -> object:
    if isinstance(value, str):
        if len(value) > bounds.longest:
            return value[: bounds.longest - 1] + "…"
        return value if len(value) >= bounds.shortest else None
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, bounds.most) if value >= bounds.least else None
    return value

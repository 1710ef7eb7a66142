"""Instants as the local cloud keeps them: integers, microseconds since 1970-01-01T00:00:00Z."""

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LAST = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The last instant that an RFC 3339 string can show; later ones are cut to it."""


def timestamp(instant: int) -> str:
    """Write an instant as RFC 3339 in UTC (section 1, "Timestamps")."""
    return (_EPOCH + timedelta(microseconds=min(instant, LAST))).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def optional_timestamp(instant: int | None) -> str | None:
    """Write an instant that may be absent."""
    return None if instant is None else timestamp(instant)


def parse_timestamp(text: str) -> int:
    """Read RFC 3339 with a zone; raises ValueError for any other text, or outside 1970..9999."""
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows t and z
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs its zone, such as 2026-01-01T00:00:00Z")
    instant = (moment - _EPOCH) // timedelta(microseconds=1)
    if not 0 <= instant <= LAST:
        raise ValueError("a timestamp lies between the years 1970 and 9999")
    return instant


def seconds(amount: float) -> int:
    """Convert seconds to microseconds, to the nearest."""
    return round(amount * SECOND)

"""Whether and when a call is repeated in place. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from relay_client.errors import CloudError, CloudUnavailable, HeldBack, RateLimited, Truncated, Withheld
from relay_client.operations import Api

MAX_RETRY_AFTER_SECONDS = 3600.0
"""The longest wait that the cloud can request."""
MAX_BYTES = 3 * 1024 * 1024
"""The most of an answer, of which many may be in memory at once; an environment that it repeats may have 1 MiB, and
three times as much with all its characters escaped."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The limits of a call; times are in seconds."""

    pool_seconds: float = 10.0
    """Wait for a free connection."""
    connect_seconds: float = 5.0
    """Name resolution, TCP and TLS together."""
    attempt_seconds: float = 15.0
    """One attempt of a repeatable call, from the connection to the last byte."""
    total_seconds: float = 60.0
    """The whole call with all waits; also the only attempt of a call that must not be repeated.

    After giving up on a create, nobody knows whether something paid for exists, so it gets all the time there is.
    """
    idle_seconds: float = 30.0
    """Wait for the next piece while a file is sent or received; the transfer as a whole is unbounded."""
    max_attempts: int = 4
    first_backoff_seconds: float = 0.25
    max_backoff_seconds: float = 5.0
    """Also the longest `Retry-After` that is waited for in place."""
    max_response_bytes: int = 8 * 1024 * 1024
    """Of a text, and of an answer that may be large; any other has at most `MAX_BYTES`."""
    recheck_seconds: float = 300.0
    """Wait after a 401 before the key is tried again."""
    outage_failures: int = 0
    """Failures in a row (no answer, or 5xx) before an operation is held back; 0: never.

    Operations that stop billing are never held back.
    """
    outage_seconds: float = 5.0
    """Wait before one request of an operation that is held back."""


def retry_after(value: str | None, wall_now: float) -> float | None:
    """The seconds in a Retry-After header (an integer or an HTTP date, section 7), capped; None if unusable."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), MAX_RETRY_AFTER_SECONDS) if len(text) <= 12 else MAX_RETRY_AFTER_SECONDS
    moment = http_date(text)
    return None if moment is None else min(max(0.0, moment.timestamp() - wall_now), MAX_RETRY_AFTER_SECONDS)


def http_date(text: str) -> datetime | None:
    """The time in a header, in UTC unless the header names a zone; None if it is not a date."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_passing(status: int | None, api: Api) -> bool:
    """Whether section 7 says to retry after the status; None: there was no answer."""
    return status in {None, 429, 502, 503} or (api is Api.MANAGEMENT and status is not None and status >= 500)


def pause(error: CloudError, api: Api, attempt: int, policy: CallPolicy, random: float) -> float | None:
    """Seconds to wait before the next attempt of a repeatable call; None to give up.

    `attempt` counts from 1, `random` is in [0, 1). Exponential backoff with full jitter, on top of the cloud's request.
    """
    passing = isinstance(error, RateLimited | CloudUnavailable) and _is_passing(error.status, api)
    repeatable = passing or isinstance(error, Truncated)
    if not repeatable or isinstance(error, HeldBack | Withheld) or attempt >= policy.max_attempts:
        return None
    if error.status is None and isinstance(error, RateLimited):
        return None  # the limiter has waited already
    ceiling = min(policy.first_backoff_seconds * 2.0 ** (attempt - 1), policy.max_backoff_seconds)
    asked = error.retry_after or 0.0
    if asked > policy.max_backoff_seconds:
        return None
    return asked + ceiling * random

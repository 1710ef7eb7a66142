"""When and after how long a call is repeated in place. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from relay_client.errors import CloudError, CloudUnavailable, HeldBack, RateLimited, Truncated, Withheld

MAX_RETRY_AFTER_SECONDS = 3600.0
"""The longest wait that the cloud can ask for."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The bounds of a call; times are seconds."""

    pool_seconds: float = 10.0
    """Until a connection is free."""
    connect_seconds: float = 5.0
    """Name resolution, TCP and TLS together."""
    attempt_seconds: float = 15.0
    """One attempt of a repeatable call, from the connection to the last byte."""
    total_seconds: float = 60.0
    """The whole call with all waits, and the only attempt of a call that must not be repeated.

    Giving up on a create means not to know whether something paid for exists, so it gets all the time there is.
    """
    idle_seconds: float = 30.0
    """While a file is sent or received, until its next piece; there is no bound for the whole of it."""
    max_attempts: int = 4
    first_backoff_seconds: float = 0.25
    max_backoff_seconds: float = 5.0
    """Also the longest `Retry-After` that is waited for in place."""
    max_response_bytes: int = 8 * 1024 * 1024
    recheck_seconds: float = 300.0
    """After a 401, until the key is tried once more."""
    outage_failures: int = 0
    """Requests of one operation that fail in a row, by no answer or a 5xx, before it is held back; 0: it never is.

    What stops billing is never held back.
    """
    outage_seconds: float = 5.0
    """Until one request of an operation that is held back is tried."""
    may_begin: Callable[[], bool] = _always
    """Asked right before the first byte of each request but a GET, as the pool's own: no means that nothing is sent."""


def retry_after(value: str | None, wall_now: float) -> float | None:
    """Seconds that a Retry-After header asks for (an integer or an HTTP date, section 7), capped; None if unusable."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), MAX_RETRY_AFTER_SECONDS) if len(text) <= 12 else MAX_RETRY_AFTER_SECONDS
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - wall_now), MAX_RETRY_AFTER_SECONDS)


def pause(error: CloudError, attempt: int, policy: CallPolicy, random: float) -> float | None:
    """Seconds to wait before the next attempt of a repeatable call, None to give up.

    `attempt` counts from 1, `random` is in [0, 1). Exponential backoff with full jitter, on top of what the cloud asks.
    """
    repeatable = isinstance(error, RateLimited | CloudUnavailable | Truncated)
    if not repeatable or isinstance(error, HeldBack | Withheld) or attempt >= policy.max_attempts:
        return None
    if error.status is None and isinstance(error, RateLimited):
        return None  # the limiter has waited already
    ceiling = min(policy.first_backoff_seconds * 2.0 ** (attempt - 1), policy.max_backoff_seconds)
    asked = error.retry_after or 0.0
    if asked > policy.max_backoff_seconds:
        return None
    return asked + ceiling * random

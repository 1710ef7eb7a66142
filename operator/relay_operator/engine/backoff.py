"""Waiting times. Pure; randomness is passed in."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relay_operator.engine.report import RetryKind

Random = Callable[[], float]
"""Returns a uniform random number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff from `initial` to `limit` seconds."""

    initial: float
    limit: float

    def after(self, failures: int, random: Random) -> float:
        """Seconds to wait after this many consecutive failures (1 and up); the upper half is random."""
        ceiling = min(self.initial * 2.0 ** min(max(failures - 1, 0), 30), self.limit)
        return ceiling * (0.5 + random() / 2)


def advised(retry_after: float | None, limit: float) -> float:
    """Seconds for which the cloud wants not to be asked: its Retry-After, 0 without one, at most `limit`."""
    return min(retry_after or 0.0, limit)


def jittered(interval: float, share: float, random: Random) -> float:
    """The interval, varied by up to `share` of it either way."""
    return interval * (1 + share * (2 * random() - 1))


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """Seconds between looks at an object, in transition and settled; `jitter` is the share to vary them by."""

    transition: float
    settled: float
    jitter: float


_ADVISED_LATER = 0.25
"""The share by which an attempt is at most later than the cloud advised."""


def is_ahead(agreed: datetime | None, now: datetime, longest: timedelta) -> bool:
    """Whether the agreed time of an attempt is still to come.

    One beyond the longest wait was written while the clock was ahead: it is not waited for.
    """
    return agreed is not None and now < agreed <= now + longest


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a refused attempt waits."""

    quick: Backoff
    random: Random

    @property
    def longest(self) -> timedelta:
        """The longest wait, in the whole seconds of status."""
        return timedelta(seconds=self.quick.limit * (1 + _ADVISED_LATER) + 1)

    def wait(self, retry: RetryKind, retry_after: float | None, failures: int) -> float:
        """Seconds until the next attempt; Retry-After is a minimum, capped at the longest backoff."""
        match retry:
            case RetryKind.SLOW:
                return self.quick.limit
            case RetryKind.ADVISED if retry_after is not None:
                wait = advised(retry_after, self.quick.limit)
                return max(wait, self.quick.initial) * (1 + _ADVISED_LATER * self.random())
            case _:
                return self.quick.after(failures, self.random)

"""How long to wait. Pure; randomness is passed in."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_operator.engine.report import RetryKind

Random = Callable[[], float]
"""Uniform in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential from `initial` to `limit` seconds."""

    initial: float
    limit: float

    def after(self, failures: int, random: Random) -> float:
        """The wait after so many failures in a row (1 and up), the upper half at random."""
        ceiling = min(self.initial * 2.0 ** min(max(failures - 1, 0), 30), self.limit)
        return ceiling * (0.5 + random() / 2)


def jittered(interval: float, share: float, random: Random) -> float:
    """The interval, varied by at most `share` of it to either side."""
    return interval * (1 + share * (2 * random() - 1))


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """When objects are looked at again. Seconds."""

    transition: float
    settled: float
    jitter: float


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How refused attempts are spread."""

    quick: Backoff
    random: Random

    def wait(self, retry: RetryKind, retry_after: float | None, failures: int) -> float:
        """Seconds until the next attempt; Retry-After is a floor, up to the longest backoff."""
        match retry:
            case RetryKind.SLOW:
                return self.quick.limit
            case RetryKind.ADVISED if retry_after is not None:
                advised = min(retry_after, self.quick.limit)
                return max(advised, self.quick.initial) * (1 + self.random() / 4)
            case _:
                return self.quick.after(failures, self.random)

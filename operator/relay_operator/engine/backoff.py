"""How long to wait. Pure; randomness is passed in."""

from collections.abc import Callable
from dataclasses import dataclass

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

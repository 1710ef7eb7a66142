"""How the cloud's time follows from the machine's, without I/O.

Setting the machine's clock does not set the cloud's. While the cloud runs, its time goes on evenly. At a start, it
continues from the latest time that it knew: a clock that went back moves nothing, and an implausibly large gap is held
back until an administrator decides about it, so nothing ends and nothing is billed for it until then.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel

from relay_localcloud.kernel.instants import DAY, LAST

Mode = Literal["real", "frozen", "scaled"]

LARGEST_GAP: Final = DAY
"""How far ahead the machine's clock may be at a start before an administrator must decide."""


class ClockError(ValueError):
    """The clock cannot be changed as requested; the message says why."""


class ClockState(BaseModel):
    """The cloud's time was `cloud` when the machine's clock showed `wall`, both in microseconds.

    `ahead` is how much of the machine's time was not followed; negative if the cloud's time is ahead of it.
    """

    mode: Mode
    rate: float
    cloud: int
    wall: int
    ahead: int = 0

    def at(self, wall: int) -> int:
        """The cloud's time when the machine's clock shows `wall`."""
        return min(self.cloud + round(max(wall - self.wall, 0) * self.rate), LAST)

    def read(self, wall: int) -> "ClockState":
        """The same state with `wall` as its reference."""
        return self.model_copy(update={"cloud": self.at(wall), "wall": max(wall, self.wall)})

    def resumed(self, wall: int) -> "ClockState":
        """The state after a start at which the machine's clock shows `wall`."""
        if self.rate == 0:
            return self
        since = self.ahead + wall - self.wall
        if 0 < since <= LARGEST_GAP:
            return self.model_copy(update={"cloud": self.at(self.wall + since), "wall": wall, "ahead": 0})
        return self.model_copy(update={"wall": wall, "ahead": since})

    @property
    def gap(self) -> int:
        """The gap that an administrator must decide about, in the cloud's time; 0 for none."""
        return round(self.ahead * (self.rate or 1)) if self.ahead > LARGEST_GAP else 0


@dataclass(frozen=True)
class ClockChange:
    """A mode, its rate, and how to move: to an instant, or by a span in microseconds; None leaves it as it is.

    `gap` says whether to follow the machine's gap or to dismiss it.
    """

    mode: Mode | None = None
    rate: float | None = None
    move_to: int | None = None
    advance_by: int = 0
    gap: Literal["apply", "dismiss"] | None = None


def steady() -> Callable[[], int]:
    """A function for the machine's time in microseconds, which goes on evenly even if the machine's clock is set."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the former also counts while the machine sleeps
    offset = time.time_ns() - time.clock_gettime_ns(clock)
    return lambda: (offset + time.clock_gettime_ns(clock)) // 1000

"""How the cloud's time follows from the machine's, without I/O.

Whoever sets the machine's clock does not set the cloud's. While the cloud runs, its time goes on evenly. Where it
starts, it goes on from the highest time that it knew: a clock that went back moves nothing, and a gap that is too large
to be believed is held until an administrator says what it was, so nothing ends and nothing is billed for it until then.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel

from relay_localcloud.kernel.instants import DAY, LAST

Mode = Literal["real", "frozen", "scaled"]

LARGEST_GAP: Final = DAY
"""By how much the machine's clock may be ahead at a start, without anybody being asked."""


class ClockError(ValueError):
    """The clock cannot be changed like that; the message says why."""


class ClockState(BaseModel):
    """The cloud's time was `cloud` when the machine's clock showed `wall`, both in microseconds.

    `ahead` is how much of the machine's time was not gone along with; negative where the cloud's time is ahead of it.
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
        """The same, as of `wall`."""
        return self.model_copy(update={"cloud": self.at(wall), "wall": max(wall, self.wall)})

    def resumed(self, wall: int) -> "ClockState":
        """How the time goes on where the machine's clock shows `wall` at a start."""
        if self.rate == 0:
            return self
        since = self.ahead + wall - self.wall
        if 0 < since <= LARGEST_GAP:
            return self.model_copy(update={"cloud": self.at(self.wall + since), "wall": wall, "ahead": 0})
        return self.model_copy(update={"wall": wall, "ahead": since})

    @property
    def gap(self) -> int:
        """What an administrator is asked about, in the cloud's time; 0 for nothing."""
        return round(self.ahead * (self.rate or 1)) if self.ahead > LARGEST_GAP else 0


@dataclass(frozen=True)
class ClockChange:
    """A mode, its rate, and how to move: to an instant, or by a span in microseconds; None leaves it as it is.

    `gap` says whether the machine's gap is gone along with, or was none.
    """

    mode: Mode | None = None
    rate: float | None = None
    move_to: int | None = None
    advance_by: int = 0
    gap: Literal["apply", "dismiss"] | None = None


def steady() -> Callable[[], int]:
    """The machine's clock as it is now, and evenly from then on, in microseconds, whatever it is set to meanwhile."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the former counts while the machine sleeps
    offset = time.time_ns() - time.clock_gettime_ns(clock)
    return lambda: (offset + time.clock_gettime_ns(clock)) // 1000

"""A line over time, as the coordinates that an SVG draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from relay_localcloud.console.balance_series import Point
from relay_localcloud.console.wording import absolute, money
from relay_localcloud.kernel.instants import SECOND

_TABLE_ENTRIES = 12


@dataclass(frozen=True)
class Chart:
    """The balance at some points, and the floor that it may reach."""

    points: Sequence[Point]
    floor_cents: int
    width: int = 960
    height: int = 240

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The range of amounts; the floor is in it once the balance has come near."""
        amounts = [point.cents for point in self.points]
        lowest, highest = min(amounts), max(amounts)
        room = max((highest - lowest) // 10, 100)
        if lowest - self.floor_cents < 3 * (highest - lowest) + room:
            lowest = min(lowest, self.floor_cents)
        return lowest - room, highest + room

    @property
    def line(self) -> str:
        """The points of a polyline."""
        first, last = self.points[0].second, self.points[-1].second
        if first == last:
            level = self.y(self.points[-1].cents)
            return f"0,{level} {self.width},{level}"
        places = ((self.width * (point.second - first) / (last - first), self.y(point.cents)) for point in self.points)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)

    def y(self, cents: int) -> float:
        """How far from the top an amount is."""
        lowest, highest = self.bounds
        return self.height * (highest - cents) / (highest - lowest)

    @property
    def words(self) -> str:
        """What it shows."""
        (first, at_first), (last, at_last) = ((absolute(p.second * SECOND), money(p.cents)) for p in self.ends)
        return f"Available balance from {first}, {at_first}, to {last}, {at_last}."

    @property
    def ends(self) -> tuple[Point, Point]:
        """The first and the last point."""
        return self.points[0], self.points[-1]

    @property
    def listed(self) -> Sequence[Point]:
        """Some of the points, the newest first, to be read as a table."""
        return self.points[::-1][:: max(len(self.points) // _TABLE_ENTRIES, 1)]

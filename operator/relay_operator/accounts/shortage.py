"""The objects of one account that the cloud refused for lack of funds; they try again once there are more funds."""

from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class Shortage:
    """What this process saw. Times are monotonic seconds; O(1) for each refused or called object.

    The account reads its funds right after the first refusal. A deposit that comes before that reading may go
    unnoticed; the object's own next attempt, at most `backoff_max_seconds` later, then finds the funds.
    """

    forgets: float
    """Seconds after which an object that was not refused again no longer waits."""
    available_cents: int | None = None
    """Available funds when the cloud last reported them."""
    floor_cents: int | None = None
    """The funds below which the cloud stops what runs, as it last reported."""
    read_at: float = 0.0
    """When it reported the available funds."""
    _refused: dict[ObjectKey, float] = field(default_factory=dict)
    """When each object was last refused, the oldest first."""

    def refused(self, key: ObjectKey, now: float) -> bool:
        """Record that the object waits; returns whether no other does."""
        first = not self.waits(now)
        self._refused.pop(key, None)
        self._refused[key] = now
        return first

    def keeps_back(self, key: ObjectKey) -> bool:
        """Whether the funds have not grown since the object was refused."""
        return key in self._refused

    def waits(self, now: float) -> bool:
        """Whether any object waits."""
        while self._refused:
            longest, since = next(iter(self._refused.items()))
            if now - since < self.forgets:
                return True
            del self._refused[longest]
        return False

    def funded_at(self) -> float | None:
        """When the cloud last reported the funds, if they were above the floor; None if not, or if one is unknown."""
        available, floor = self.available_cents, self.floor_cents
        return None if available is None or floor is None or available <= floor else self.read_at

    def seen(self, available_cents: int, floor_cents: int | None, now: float) -> tuple[ObjectKey, ...]:
        """Record the available funds, which usage only reduces. If they grew, returns the objects that try again.

        Without a floor, the last one holds.
        """
        before, self.available_cents, self.read_at = self.available_cents, available_cents, now
        self.floor_cents = self.floor_cents if floor_cents is None else floor_cents
        if before is None or available_cents <= before:
            return ()
        called = tuple(self._refused)
        self._refused.clear()
        return called

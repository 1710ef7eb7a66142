"""Who the cloud refused for want of funds, of one account: called as soon as there are more of them."""

from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class Shortage:
    """What this process saw. Times are monotonic seconds; O(1) for each object that is refused, or called."""

    forgets: float
    """Seconds after which who was not refused again does not wait any more."""
    available_cents: int | None = None
    """As the cloud said last."""
    _refused: dict[ObjectKey, float] = field(default_factory=dict)
    """Since when, the longest first."""

    def refused(self, key: ObjectKey, now: float) -> bool:
        """It waits from now on; whether it is the first."""
        first = not self.waits(now)
        self._refused.pop(key, None)
        self._refused[key] = now
        return first

    def keeps_back(self, key: ObjectKey) -> bool:
        """Whether there are no more funds than when it was refused."""
        return key in self._refused

    def waits(self, now: float) -> bool:
        """Whether anybody does."""
        while self._refused:
            longest, since = next(iter(self._refused.items()))
            if now - since < self.forgets:
                return True
            del self._refused[longest]
        return False

    def seen(self, available_cents: int) -> tuple[ObjectKey, ...]:
        """What there is now; usage alone only lessens it. Who is to try again, if it is more than it was."""
        before, self.available_cents = self.available_cents, available_cents
        if before is None or available_cents <= before:
            return ()
        called = tuple(self._refused)
        self._refused.clear()
        return called

"""Stops calling the cloud with a key that it refused. Pure."""


class Circuit:
    """Open after a 401, until one probe, let through every `recheck_seconds`, is not refused.

    A new key means a new Circuit. Times are seconds of any one monotonic clock.
    """

    def __init__(self, recheck_seconds: float) -> None:
        self._recheck_seconds = recheck_seconds
        self._recheck_at: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until a call may be tried; 0 where it may go now."""
        return 0.0 if self._recheck_at is None else max(0.0, self._recheck_at - now)

    def enter(self, now: float) -> float:
        """As `wait`; where the answer is 0 and the circuit open, the caller is the probe and all others wait again."""
        wait = self.wait(now)
        if wait == 0 and self._recheck_at is not None:
            self._recheck_at = now + self._recheck_seconds
        return wait

    def refused(self, now: float) -> None:
        """The key was refused (401)."""
        self._recheck_at = now + self._recheck_seconds

    def accepted(self) -> None:
        """The cloud answered something that proves the key to be valid."""
        self._recheck_at = None

"""Stops calling the cloud with a key that it refused, and what it does not answer. Pure."""

from dataclasses import dataclass
from math import inf


class Circuit:
    """Open after a 401, until one probe, let through every `recheck_seconds`, is not refused.

    A new key means a new Circuit. Times are seconds of any one monotonic clock.
    """

    def __init__(self, recheck_seconds: float) -> None:
        self._recheck_seconds = recheck_seconds
        self._recheck_at: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until a call may be tried; 0 if it may go now."""
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


@dataclass(slots=True)
class _Run:
    """Failures in a row, and until when nothing more is tried."""

    failures: int = 0
    until: float = -inf
    reason: str = ""
    """Of the last."""


class Outages:
    """Holds back an operation that failed `failures` times in a row, until a probe of it is answered; 0: never.

    Each operation is judged by itself: where creates fail, looks go on. One probe is let through at a time, the next
    `pause_seconds` after the last has failed. Times are seconds of any one monotonic clock.
    """

    def __init__(self, failures: int, pause_seconds: float) -> None:
        self._limit = failures
        self._pause_seconds = pause_seconds
        self._runs: dict[str, _Run] = {}

    def wait(self, operation: str, now: float) -> float:
        """Seconds until the operation may be tried; 0 if it may go now."""
        run = self._runs.get(operation)
        return 0.0 if run is None or run.failures < self._limit else max(0.0, run.until - now)

    def enter(self, operation: str, now: float, lasts: float) -> None:
        """A request goes that takes so long at most: where the operation is held back, the others wait for its end."""
        run = self._runs.get(operation)
        if run is not None and run.failures >= self._limit:
            run.until = now + lasts

    def failed(self, operation: str, now: float, reason: str) -> None:
        """There was no answer, or one that says that there is none (5xx)."""
        if self._limit:
            run = self._runs.setdefault(operation, _Run())
            run.failures, run.until, run.reason = run.failures + 1, now + self._pause_seconds, reason

    def withheld(self, operation: str, now: float) -> None:
        """The request did not go: the next one may."""
        run = self._runs.get(operation)
        if run is not None:
            run.until = min(run.until, now)

    def reason(self, operation: str) -> str:
        """Why the last one failed; empty if it did not."""
        return self._runs.get(operation, _Run()).reason

    def answered(self, operation: str) -> None:
        """The cloud answered, whatever it said."""
        self._runs.pop(operation, None)

"""Stops calls with a key that the cloud refused, and calls that it does not answer. Pure."""

from dataclasses import dataclass
from math import inf


class Circuit:
    """Open after a 401, until a probe, one every `recheck_seconds`, is not refused.

    A new key needs a new Circuit. Times are seconds of one monotonic clock.
    """

    def __init__(self, recheck_seconds: float) -> None:
        self._recheck_seconds = recheck_seconds
        self._recheck_at: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until a call may be tried; 0 if it may go now."""
        return 0.0 if self._recheck_at is None else max(0.0, self._recheck_at - now)

    def enter(self, now: float) -> float:
        """As `wait`; if it returns 0 while the circuit is open, the caller is the probe, and all others wait again."""
        wait = self.wait(now)
        if wait == 0 and self._recheck_at is not None:
            self._recheck_at = now + self._recheck_seconds
        return wait

    def refused(self, now: float) -> None:
        """Record that the cloud refused the key (401)."""
        self._recheck_at = now + self._recheck_seconds

    def accepted(self) -> None:
        """Record an answer that proves the key valid."""
        self._recheck_at = None


@dataclass(slots=True)
class _Run:
    """Failures in a row, and until when no request is tried."""

    failures: int = 0
    until: float = -inf
    reason: str = ""
    """The reason of the last failure."""


class Outages:
    """Holds back an operation that failed `failures` times in a row, until a probe of it is answered; 0: never.

    Each operation is judged by itself: reads continue while creates fail. One probe is sent at a time, the next
    `pause_seconds` after the last one failed. Times are seconds of one monotonic clock.
    """

    def __init__(self, failures: int, pause_seconds: float) -> None:
        self._limit = failures
        self._pause_seconds = pause_seconds
        self._runs: dict[str, _Run] = {}
        self.silent_since: float | None = None
        """When the first of all requests since the last answer failed; None if the last request was answered."""

    def wait(self, operation: str, now: float) -> float:
        """Seconds until the operation may be tried; 0 if it may go now."""
        run = self._runs.get(operation)
        return 0.0 if run is None or run.failures < self._limit else max(0.0, run.until - now)

    def enter(self, operation: str, now: float, lasts: float) -> None:
        """Record a request that takes at most `lasts` seconds; while the operation is held back, others wait for it."""
        run = self._runs.get(operation)
        if run is not None and run.failures >= self._limit:
            run.until = now + lasts

    def failed(self, operation: str, now: float, reason: str) -> None:
        """Record a request without an answer, or with a 5xx."""
        self.silent_since = now if self.silent_since is None else self.silent_since
        if self._limit:
            run = self._runs.setdefault(operation, _Run())
            run.failures, run.until, run.reason = run.failures + 1, now + self._pause_seconds, reason

    def given_up(self, operation: str, now: float) -> None:
        """Record that the sender did not send a request, or not to its end, so that the next one may be sent."""
        if (run := self._runs.get(operation)) is not None:
            run.until = min(run.until, now)

    def reason(self, operation: str) -> str:
        """Why the last request failed; empty if it did not."""
        return self._runs.get(operation, _Run()).reason

    def answered(self, operation: str) -> None:
        """Record that the cloud answered, whatever it said."""
        self.silent_since = None
        self._runs.pop(operation, None)

"""The outcome of a call to a receiver."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """A receiver's status, or an error, or both if the answer broke off; `duration_ms` is real time."""

    status: int | None
    error: str | None
    duration_ms: int
    hung: bool = False
    """Whether the receiver did not answer within the limit."""

    @property
    def delivered(self) -> bool:
        """Whether the receiver accepted the call: only 2xx counts, redirects do not."""
        return self.error is None and self.status is not None and 200 <= self.status < 300

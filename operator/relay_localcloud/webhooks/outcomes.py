"""What came of a call to a receiver."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a receiver answered: a status, or why there is none; `duration_ms` is real time."""

    status: int | None
    error: str | None
    duration_ms: int
    hung: bool = False
    """Whether it left the call unanswered for as long as a receiver may take."""

    @property
    def delivered(self) -> bool:
        """Whether the receiver took it: 2xx only, redirects are failures."""
        return self.error is None and self.status is not None and 200 <= self.status < 300

"""How long the operator doubts before it believes what it does not see."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfirmationDelays:
    """Seconds, but for `searches`."""

    absence: float = 5.0
    """Between the first and the last 404 that together mean gone."""
    newborn: float = 30.0
    """After a create, a 404 means nothing."""
    search: float = 60.0
    """After a create was sent, how long webhooks may yet name it, before people are asked."""
    unknown: float = 600.0
    """After a create whose answer was lost, a list that lacks its name means nothing: the cloud may act late."""
    searches: int = 2
    """Complete lists in a row that must lack the name."""
    termination: float = 30.0
    """How long a termination may take before it is sent again."""
    change: float = 30.0
    """How long any other change may."""

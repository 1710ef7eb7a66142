"""How long the operator waits before it draws conclusions from an absence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfirmationDelays:
    """Seconds, except `searches`, which is a count."""

    absence: float = 5.0
    """Between the first and the last 404 that together mean gone."""
    newborn: float = 30.0
    """After a create, for this long a 404 means nothing."""
    search: float = 60.0
    """After a create was sent, for this long webhooks may still name its resource, before people are asked."""
    unknown: float = 600.0
    """After a create without an answer, for this long a list without its name means nothing: the cloud may act late."""
    searches: int = 2
    """Consecutive complete lists that must lack the name."""
    termination: float = 30.0
    """How long a termination may take before it is sent again."""
    change: float = 30.0
    """How long any other change may take before it is sent again."""

"""What every flow can do with an object in one pass, whatever else it can. Actions are types."""

from dataclasses import dataclass

from relay_operator.api.conditions import Reason


@dataclass(frozen=True, slots=True)
class Ignore:
    """Not ours to touch: deleting, and our finalizer is absent."""


@dataclass(frozen=True, slots=True)
class Release:
    """Remove our finalizer: Kubernetes may let the object go."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Delete the object itself, whose time is up; its resource goes the way of every deleted object's."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until time passes or somebody else acts."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Stall:
    """Only a person can resolve this (or an event that wakes the object)."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Keep:
    """All is as it should be, or on its own way there."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The result of an action that needed no call."""


LETTING_GO = (Ignore, Release, Expire)
"""After these nothing is left to come back for."""
QUIET = frozenset({"Ignore", "Wait", "Stall", "Keep"})
"""Names of actions that are worth a line of the log only where they changed status."""

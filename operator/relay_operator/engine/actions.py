"""Actions that every flow shares: what one pass can do with an object of any kind. Actions are types."""

from dataclasses import dataclass

from relay_operator.api.conditions import Reason


@dataclass(frozen=True, slots=True)
class Ignore:
    """Do nothing: the object is being deleted and lacks our finalizer."""


@dataclass(frozen=True, slots=True)
class Release:
    """Remove our finalizer, so that Kubernetes may delete the object."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Delete the object itself, whose time is up; its resource then ends as that of any deleted object."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until time passes or something changes."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Stall:
    """Do nothing until a person resolves this, or an event wakes the object."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Keep:
    """Change nothing: the resource is as desired, or on its way there."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The result of an action that needed no call."""


LETTING_GO = (Ignore, Release, Expire)
"""The actions after which the object needs no further pass."""
QUIET = frozenset({"Ignore", "Wait", "Stall", "Keep"})
"""Names of actions that are logged only if they changed status."""

"""What the engine can do with one object in one pass. Actions are types; `act` matches them exhaustively."""

from dataclasses import dataclass
from enum import StrEnum

from relay_operator.api.conditions import Reason


class Step(StrEnum):
    """One change that the cloud can make in place. A pass takes the first that applies."""

    STOP = "stop"
    START = "start"
    SCALE = "scale"
    VISIBILITY = "visibility"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Ignore:
    """Not ours to touch: deleting, and our finalizer is absent."""


@dataclass(frozen=True, slots=True)
class Create:
    """Open a new intent and send it: the only action that may spend money on something new."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Send the open intent's name again, because the account says `createRecovery: RetryByName`."""


@dataclass(frozen=True, slots=True)
class CloseIntent:
    """Record that the open intent came to nothing, so that a later pass may make another."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record the resource that was found as this object's own; closes the open intent, if any."""


@dataclass(frozen=True, slots=True)
class Update:
    """Make one change in place."""

    step: Step


@dataclass(frozen=True, slots=True)
class Replace:
    """Record that the resource is to be deleted and made anew. Written before anything is deleted,
    so that its end is never taken for somebody else's doing."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Terminate the resource."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the recorded id of a resource that is gone, so that a later pass creates another."""


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
    """The cloud is as it should be, or on its own way there."""


Action = (
    Ignore
    | Create
    | Resend
    | CloseIntent
    | Adopt
    | Update
    | Replace
    | Delete
    | Forget
    | Release
    | Expire
    | Wait
    | Stall
    | Keep
)

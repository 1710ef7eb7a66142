"""What the engine can do with one object in one pass. Actions are types; `act` matches them exhaustively."""

from dataclasses import dataclass

from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait

STOP = "stop"
START = "start"
RESTART = "restart"
"""Names of the changes of power; a kind names its others as it likes."""


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
class Discard:
    """End what an open intent led to, since the value that the cloud showed of it is lost."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record the resource that was found as this object's own; closes the open intent, if any."""


@dataclass(frozen=True, slots=True)
class Update:
    """Make one change in place."""

    change: str
    """Its name."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The change of this name was sent, and the cloud has yet to show it."""

    change: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Record that the resource is to be deleted and recreated. Written before anything is deleted,
    so that its end is never taken for somebody else's doing."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Terminate the resource."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the recorded id of a resource that is gone, so that a later pass creates another."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is left to be done: the resource is gone, as people asked."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Record the resource as a former one, so that a later pass makes another beside it."""


@dataclass(frozen=True, slots=True)
class EndFormer:
    """Terminate a former resource that nothing uses any more."""


@dataclass(frozen=True, slots=True)
class DropFormer:
    """Drop the record of a former resource that is gone."""


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """Lead others to the new resource, which is Ready: from then on the old one is drained."""


@dataclass(frozen=True, slots=True)
class Reinstate:
    """Record the old resource as the object's own again, since the new one is not to take its place, or is gone."""


Held = (
    Create
    | Resend
    | Discard
    | Update
    | Replace
    | Delete
    | Forget
    | SetAside
    | EndFormer
    | SwitchOver
    | Release
    | Expire
)
"""What the annotation `plan-only` holds back."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Tell what would be done."""

    action: Held


Action = (
    Ignore
    | Create
    | Resend
    | CloseIntent
    | Discard
    | Adopt
    | Update
    | Watch
    | Replace
    | Delete
    | Forget
    | Rest
    | SetAside
    | EndFormer
    | DropFormer
    | SwitchOver
    | Reinstate
    | Propose
    | Release
    | Expire
    | Wait
    | Stall
    | Keep
)

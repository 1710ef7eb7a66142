"""What the managed flow can do with one object in one pass. Actions are types."""

from dataclasses import dataclass

from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait

STOP = "stop"
START = "start"
RESTART = "restart"
"""Names of the changes of power; a kind chooses the names of its other changes."""


@dataclass(frozen=True, slots=True)
class Create:
    """Open a new intent and send its create: the only action that may pay for something new."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Send the open intent's create again, since the account says `createRecovery: RetryByName`."""


@dataclass(frozen=True, slots=True)
class CloseIntent:
    """Record that the open intent created nothing, so that a later pass may open another."""


@dataclass(frozen=True, slots=True)
class Discard:
    """End what an open intent created, since the value that the cloud showed once is lost."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record the resource that was found as this object's own; this closes the open intent, if any."""


@dataclass(frozen=True, slots=True)
class Update:
    """Make one change in place."""

    change: str
    """The name of the change."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Wait until the cloud shows a change that was sent."""

    change: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Record that the resource is to be deleted and recreated.

    This is written before anything is deleted, so that the end of the resource is not taken for somebody else's doing.
    """


@dataclass(frozen=True, slots=True)
class Delete:
    """Terminate the resource."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the recorded id of a resource that is gone, so that a later pass creates another."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing more: the resource is gone, as people requested."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Record the resource as a former one, so that a later pass creates another beside it."""


@dataclass(frozen=True, slots=True)
class EndFormer:
    """Terminate a former resource that nothing uses any more."""


@dataclass(frozen=True, slots=True)
class DropFormer:
    """Drop the record of a former resource that is gone."""


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """Point others to the new resource, which is Ready: from then on the old one is drained."""


@dataclass(frozen=True, slots=True)
class Reinstate:
    """Record the old resource as the object's own again, since the new one is gone, or is not to take its place."""


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
"""The actions that the annotation `plan-only` holds back."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Report what would be done, and do nothing."""

    action: Held


OnlyReported = (
    Ignore
    | CloseIntent
    | Replace
    | Forget
    | Rest
    | SetAside
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
"""The actions that send nothing to the cloud: the report of the pass is all of them."""
Action = Create | Resend | Discard | Adopt | Update | Watch | Delete | EndFormer | OnlyReported

"""What to do next with an account, decided without I/O from a small view. `RULES` is the specification."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_operator.api.conditions import Reason
from relay_operator.engine import rules
from relay_operator.engine.actions import Ignore, Keep, Stall, Wait


@dataclass(frozen=True, slots=True)
class Look:
    """Read money and subscription from the cloud, and correct them as the spec says; `read_only`: leave them."""

    read_only: bool


@dataclass(frozen=True, slots=True)
class Glance:
    """Read only the balance, while some object waits for funds or the cloud is silent; if it rose, look at the rest."""

    read_only: bool


@dataclass(frozen=True, slots=True)
class End:
    """Remove the subscription if `unsubscribe` says so, then release the Secret, then the object."""

    unsubscribe: bool


Action = Ignore | End | Wait | Stall | Look | Glance | Keep


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision depends on."""

    deleting: bool = False
    finalizer: bool = True
    paused: bool = False
    in_use: bool = False
    """Whether objects depend on the account, or a late create has to be ended with it."""
    usable: bool = True
    """Whether the cloud accepts the account's key."""
    reason: Reason = Reason.AVAILABLE
    """Why the account is unusable, if it is."""
    refused: bool = False
    """Whether a person must act before it becomes usable."""
    subscribed: bool = False
    look_due: bool = False
    glance_due: bool = False
    silent: bool = False
    """Whether the cloud has answered nothing for a while: it is only glanced at until it does."""
    overdue: bool = False
    """Whether the account's end has waited long enough for a silent cloud; a dead subscription costs nothing."""


Rule = Callable[[View], Action | None]


def _end(view: View) -> Action | None:
    """End the account once nothing depends on it."""
    if not view.deleting or view.paused or view.in_use:
        return None
    if view.subscribed and view.reason is Reason.CLOUD_UNAVAILABLE and not view.overdue:
        return Wait(Reason.DELETING)
    return End(unsubscribe=view.subscribed and view.usable)


def _unusable(view: View) -> Action | None:
    if view.usable:
        return None
    return Stall(view.reason) if view.refused else Wait(view.reason)


def _look(view: View) -> Action | None:
    """An account being deleted may be in a namespace being deleted, where no Secret can be written: only read."""
    return Look(read_only=view.paused or view.deleting) if view.look_due and not view.silent else None


def _glance(view: View) -> Action | None:
    return Glance(read_only=view.paused or view.deleting) if view.glance_due else None


RULES: tuple[Rule, ...] = (rules.not_ours, _end, _unusable, _look, _glance)


def plan(view: View) -> Action:
    """The first rule of `RULES` that applies; `Keep` if none does."""
    return rules.first(RULES, view) or Keep()

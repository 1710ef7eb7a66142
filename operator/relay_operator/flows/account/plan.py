"""What to do next with an account, decided from a small view without I/O. `RULES` is the specification."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_operator.api.conditions import Reason
from relay_operator.engine import rules
from relay_operator.engine.actions import Ignore, Keep, Stall, Wait


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the cloud for money and subscription, and make both as asked; `read_only`: change nothing."""

    read_only: bool


@dataclass(frozen=True, slots=True)
class Glance:
    """Ask for the balance alone, and look at the rest if it rose: something waits for funds."""

    read_only: bool


@dataclass(frozen=True, slots=True)
class End:
    """Let go of the subscription, where `unsubscribe` says so, of the Secret, and of the object, in this order."""

    unsubscribe: bool


Action = Ignore | End | Wait | Stall | Look | Glance | Keep


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision depends on."""

    deleting: bool = False
    finalizer: bool = True
    paused: bool = False
    in_use: bool = False
    """Objects depend on it."""
    usable: bool = True
    """The cloud takes its key."""
    reason: Reason = Reason.AVAILABLE
    """Why it cannot be used, if it cannot."""
    refused: bool = False
    """A person has to act before it can be."""
    subscribed: bool = False
    look_due: bool = False
    glance_due: bool = False
    overdue: bool = False
    """Its end has waited long enough for a cloud that does not answer; a dead subscription costs nothing."""


Rule = Callable[[View], Action | None]


def _end(view: View) -> Action | None:
    """Nothing depends on it any longer."""
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
    """Whose end has begun may be in a namespace that ends as well, where no Secret can be written."""
    return Look(read_only=view.paused or view.deleting) if view.look_due else None


def _glance(view: View) -> Action | None:
    return Glance(read_only=view.paused or view.deleting) if view.glance_due else None


RULES: tuple[Rule, ...] = (rules.not_ours, _end, _unusable, _look, _glance)


def plan(view: View) -> Action:
    """The first rule of `RULES` that applies; `Keep` if none does."""
    return rules.first(RULES, view) or Keep()

"""The rules that every flow begins with, and how rules make a plan. Pure."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol, TypeVar

from relay_operator.api.conditions import Reason
from relay_operator.engine.account import AccountRefused, AccountWaiting
from relay_operator.engine.actions import Ignore, Stall, Wait

ViewT = TypeVar("ViewT")
ActionT = TypeVar("ActionT")


class Account(Enum):
    """Whether the account can be used."""

    READY = auto()
    WAITING = auto()  # missing, or not usable yet
    REFUSED = auto()  # key refused; URL, namespace or kind not allowed

    @classmethod
    def of(cls, state: AccountWaiting | AccountRefused) -> "Account":
        return cls.WAITING if isinstance(state, AccountWaiting) else cls.REFUSED


class View(Protocol):
    """What these rules read."""

    @property
    def deleting(self) -> bool: ...
    @property
    def finalizer(self) -> bool: ...
    @property
    def paused(self) -> bool: ...


WITHOUT_ACCOUNT: Mapping[Account, Wait | Stall] = {
    Account.WAITING: Wait(Reason.WAITING_FOR_ACCOUNT),
    Account.REFUSED: Stall(Reason.ACCOUNT_REFUSED),
}


def not_ours(view: View) -> Ignore | None:
    return Ignore() if view.deleting and not view.finalizer else None


def paused(view: View) -> Wait | None:
    return Wait(Reason.PAUSED) if view.paused else None


def first(rules: Sequence[Callable[[ViewT], ActionT | None]], view: ViewT) -> ActionT | None:
    """The action of the first rule that applies; None if none does."""
    return next((action for rule in rules if (action := rule(view)) is not None), None)

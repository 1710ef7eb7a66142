"""What the engine needs to know of an account, and who tells it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from relay_client import Cloud, CloudError
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, Identity, ObjectKey
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.unclaimed_ids import UnclaimedIds


@dataclass(frozen=True, slots=True)
class AccountReady:
    """The cloud can be asked with this account's key."""

    key: ObjectKey
    """The account object."""
    cloud: Cloud
    organization_id: str
    unclaimed: UnclaimedIds
    resend_unknown: bool
    """`createRecovery: RetryByName`: a create whose outcome nobody can find out is sent again."""
    adoption_allowed: bool
    serves: frozenset[str] | None = None
    """The kinds that it may be used for; None is all of them."""
    grants: frozenset[str] | None = None
    """The scopes that a key made with it may have; None is all of them."""
    budget: AccountBudget | None = None


@dataclass(frozen=True, slots=True)
class AccountWaiting:
    """Missing, or not usable yet: somebody may still bring it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class AccountRefused:
    """Key refused; URL, namespace or kind not allowed: a person has to act."""

    reason: Reason
    message: str


AccountState: TypeAlias = AccountReady | AccountWaiting | AccountRefused
NOT_ASKED: AccountState = AccountWaiting(Reason.PAUSED, "")
"""Of an object for which nobody needs to know."""


class UsesAccount:
    """Facts of an object that is made with an account."""

    __slots__ = ()
    key: ObjectKey
    account: AccountState

    @property
    def usable_account(self) -> AccountReady:
        """The account of whatever is done in the cloud: the plan does nothing there without one."""
        if not isinstance(self.account, AccountReady):
            raise AssertionError(f"{self.key}: the plan acts on the cloud without an account")
        return self.account


def sent_with(intent: CreateIntent) -> AccountRef | None:
    """The account that the intent names."""
    kind, name = intent.account_parts
    return AccountRef(kind=AccountKind(kind), name=name) if name else None


def pinned(ref: AccountRef | None, recorded: AccountRef | None, intent: CreateIntent | None) -> AccountRef | None:
    """The account to ask: what exists, or may exist, lives where it was created, whatever the spec resolves to today.

    `recorded` is status.account of a resource with an id, `intent` an open one.
    """
    if recorded is not None:
        return recorded
    return (sent_with(intent) if intent is not None else None) or ref


def elsewhere(recorded: Identity | None, account: AccountReady) -> AccountRefused | None:
    """What another organization has, this account can tell nothing of: least of all that it is gone."""
    if recorded is None or recorded.organization in {"", account.organization_id}:
        return None
    message = (
        f"what was created for this object is in the organization {recorded.organization}, and the key of "
        f"{account.key} is of {account.organization_id}: give the account a key of the former"
    )
    return AccountRefused(Reason.IDENTITY_MISMATCH, message)


def not_served(
    key: ObjectKey, account: AccountReady, *, ending: bool, scopes: Sequence[str] = ()
) -> AccountRefused | None:
    """Why the account may not be used for an object of this kind, or for a key with these scopes.

    What there is of it can always be ended.
    """
    beyond = sorted(set(scopes) - account.grants) if account.grants is not None else []
    if ending:
        return None
    if account.serves is not None and key.kind not in account.serves:
        used, help_ = f"used for objects of the kind {key.kind}", "the kind to its spec.allowedKinds"
    elif beyond:
        used, help_ = f"used for a key with {', '.join(beyond)}", "what it is to open to its spec.allowedScopes"
    else:
        return None
    message = (
        f"the {account.key} may not be {used}: a cluster administrator can add {help_}; "
        "or recreate the object with an accountRef to a CloudAccount of this namespace"
    )
    return AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, message)


class Accounts(Protocol):
    """Finds the account of an object."""

    async def resolve(self, namespace: str, ref: AccountRef | None) -> AccountState:
        """`ref` absent: the namespace's CloudAccount `default`, else the ClusterCloudAccount of that name."""
        ...

    def deaf_for(self, account: AccountReady) -> float:
        """Seconds for which nothing is to be created, since its webhooks would not be heard; answered from memory.

        0 once the account is subscribed, or cannot be, or was waited for long enough.
        """
        ...

    def found_by_polling(self, account: AccountReady) -> None:
        """A settled object's poll saw a change that a webhook should have told of."""
        ...

    def failed(self, account: AccountReady, error: CloudError, whose: ObjectKey | None = None) -> None:
        """The cloud did not do what was asked of it: after a 401 the Secret is read again at once.

        `whose`: for which object; after a 402 it is called once the account has more funds.
        """
        ...

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        """Whether this object was refused for want of funds, and there are no more of them since; from memory."""
        ...

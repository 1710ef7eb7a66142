"""The states of an account that the engine distinguishes, and the protocol that resolves accounts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from relay_client import Cloud, CloudError
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import CreateIntent, Identity, ObjectKey, ObjectMeta
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.endpoints import NOWHERE, Endpoints
from relay_operator.engine.entry import Entry
from relay_operator.engine.identity import identity_of, located
from relay_operator.engine.leftover import Reach
from relay_operator.engine.manifests import number
from relay_operator.engine.unclaimed_ids import UnclaimedIds


@dataclass(frozen=True, slots=True)
class AccountReady:
    """The account's key works: the cloud can be called with it."""

    key: ObjectKey
    """The CloudAccount or ClusterCloudAccount."""
    cloud: Cloud
    organization_id: str
    unclaimed: UnclaimedIds
    resend_unknown: bool
    """`createRecovery: RetryByName`: a create whose outcome cannot be found out is sent again."""
    adoption_allowed: bool
    serves: frozenset[str] | None = None
    """The kinds that may use the account; None allows all."""
    grants: frozenset[str] | None = None
    """The scopes that an ApiKey created with the account may have; None allows all."""
    budget: AccountBudget | None = None
    admits: bool = True
    """Whether it admits the object's namespace; if not, the object can only end what the cloud shows as its own."""
    endpoints: Endpoints = NOWHERE
    """The clouds that it calls."""

    @property
    def reach(self) -> Reach:
        """What it sees of what objects left."""
        return Reach(self.key, self.organization_id, self.endpoints)


@dataclass(frozen=True, slots=True)
class AccountWaiting:
    """The account is missing or not usable yet; this may resolve by itself."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class AccountRefused:
    """The key was refused, or the URL, namespace or kind is not allowed: a person has to act."""

    reason: Reason
    message: str


AccountState: TypeAlias = AccountReady | AccountWaiting | AccountRefused
NOT_ASKED = AccountWaiting(Reason.PAUSED, "")
"""The account of an object whose pass does not need one: it is paused."""


class UsesAccount:
    """Facts about an object that is created with an account."""

    __slots__ = ()
    key: ObjectKey
    account: AccountState

    @property
    def usable_account(self) -> AccountReady:
        """The account to act with; the plan acts on the cloud only with a usable one."""
        if not isinstance(self.account, AccountReady):
            raise AssertionError(f"{self.key}: the plan acts on the cloud without an account")
        return self.account


def sent_with(intent: CreateIntent) -> AccountRef | None:
    """The account that the intent names; None if it names none."""
    kind, name = intent.account_parts
    return AccountRef(kind=AccountKind(kind), name=name) if name else None


def pinned(ref: AccountRef | None, recorded: AccountRef | None, intent: CreateIntent | None) -> AccountRef | None:
    """The account to call: a resource that exists, or may exist, stays with the account that created it.

    `ref` is what the spec resolves to now, `recorded` is status.account of a resource with an id, `intent` is an open
    one.
    """
    if recorded is not None:
        return recorded
    return (sent_with(intent) if intent is not None else None) or ref


def elsewhere(recorded: Identity | None, account: AccountReady, endpoint: str | None = None) -> AccountRefused | None:
    """A refusal if another organization, or another cloud than that of `endpoint`, has the resource; None otherwise.

    A key of one organization proves nothing about a resource of another, least of all that it is gone.
    """
    if recorded is None:
        return None
    if recorded.organization not in {"", account.organization_id}:
        message = (
            f"what was created for this object is in the organization {recorded.organization}, and the key of "
            f"{account.key} is of {account.organization_id}: give the account a key of the former"
        )
        return AccountRefused(Reason.IDENTITY_MISMATCH, message)
    if endpoint is not None and moved(recorded, endpoint):
        message = (
            f"what was created for this object was created with another URL than {account.key} has now, whose cloud "
            "may be another: give the account that URL again until the object is gone or finished"
        )
        return AccountRefused(Reason.IDENTITY_MISMATCH, message)
    return None


def identity_in(account: AccountReady, metadata: ObjectMeta, kind: str, installation: str) -> Identity:
    """The identity of what is created for an object of this kind with the account."""
    return identity_of(metadata, installation, account.organization_id, account.endpoints.of(kind))


def as_called(intent: CreateIntent, account: AccountReady, now: Identity) -> CreateIntent:
    """The intent with the account that was really called: anybody can write an intent by hand."""
    made_for = located(intent.identity or now, now)
    return intent.model_copy(update={"identity": made_for, "account": f"{account.key.kind}/{account.key.name}"})


def moved(recorded: Identity | None, endpoint: str) -> bool:
    """Whether the account calls another URL than was recorded: then its cloud's 404 proves nothing."""
    return recorded is not None and bool(recorded.endpoint) and recorded.endpoint != endpoint


def not_served(
    key: ObjectKey, account: AccountReady, *, ending: bool, scopes: Sequence[str] = ()
) -> AccountRefused | None:
    """A refusal if the account may not be used for this kind, or for an ApiKey with these scopes; None otherwise.

    What an object already has can always be ended, so that `ending` refuses nothing.
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


def unguarded(key: ObjectKey, entry: Entry | None) -> str:
    """Why nothing may be created with this account, or not yet; empty if something may.

    It could be gone before what is created with it, which only its key can end.
    """
    if entry is None:
        return ""
    if entry.deleting:
        return f"{key} is being deleted: nothing is created with it"
    if entry.finalizer:
        return ""
    return f"{key} has no finalizer of the operator yet, and nothing is created before that: its conditions say more"


def out_of_funds(entry: Entry | None) -> bool:
    """Whether the account's status has a balance below the cloud's floor, so that models answer nothing (section 7)."""
    if entry is None or ConditionType.FUNDS_LOW not in entry.troubles:
        return False
    status = entry.status()
    return below_floor(status.get("availableCents"), status.get("autoStopFloorCents"))


def below_floor(available_cents: JsonValue, floor_cents: JsonValue) -> bool:
    """Whether the balance is known and below the cloud's floor; without a floor, below 0."""
    return isinstance(available_cents, int) and available_cents < number(floor_cents)


class Accounts(Protocol):
    """Resolves the account of an object, and records what passes learn about it."""

    async def resolve(self, namespace: str, ref: AccountRef | None, *, ending: bool = False) -> AccountState:
        """The account's state; without `ref` the CloudAccount `default`, else the ClusterCloudAccount `default`.

        `ending`: the object only ends what it created itself, which it may also do if the account does not admit the
        namespace any more.
        """

    def deaf_for(self, account: AccountReady) -> float:
        """Seconds for which to create nothing, since the account's webhooks would not be received yet; from memory.

        0 once the account is subscribed, cannot be subscribed, or has been waited for long enough.
        """

    def found_by_polling(self, account: AccountReady) -> None:
        """Record that the poll of a settled object saw a change that a webhook should have reported."""

    def failed(self, account: AccountReady, error: CloudError, whose: ObjectKey | None = None) -> None:
        """Record an error of the cloud; after a 401 the Secret is read again at once.

        `whose` is the object of the call: after a 402 it is queued once the account has more funds.
        """

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        """Whether the cloud refused this object for lack of funds, and no funds have been added since; from memory."""

    def seen_funded(self, account: AccountReady) -> float | None:
        """Seconds since the cloud last told of funds, if they were above its floor; None if not; from memory."""

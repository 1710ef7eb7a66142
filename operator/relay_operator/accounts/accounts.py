"""Resolves an object's accountRef to a `Cloud`: account, Secret, key, organization; cached by key."""

import time
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakValueDictionary

from relay_client import CloudError, ConnectionPool, PaymentRequired, Unauthorized
from relay_client.list_room import ListRoom
from relay_client.operations import INFERENCE_NAMES
from relay_kube.kube import Kube
from relay_operator.accounts.connecting import Connection, Connector, kept, limiter
from relay_operator.accounts.namespace_selector import Admission
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.cloudaccount import RateLimit
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.account_users import DEFAULT_NAME, named_account
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.settings import Settings
from relay_operator.webhooks.deliveries import Evidence
from relay_operator.webhooks.signing_secrets import SigningSecrets
from relay_wire.account import Whoami

_DEAF_SECONDS = 20.0
"""How long an account's first create waits for its webhook subscription, which a cloud may never make."""
_MAY_ADMIT = "a cluster administrator can give the namespace the labels of its spec.allowedNamespaces, or change these"
_SILENT_SECONDS = 30.0
"""How long no call is answered before the account itself asks, though its next look is not due."""


class Accounts:
    """The engine's `Accounts`. Reads objects from the cache, Secrets from the API server, and whoami from the cloud."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        cache: Cache,
        queue: Queue[ObjectKey],
        pool: ConnectionPool,
        shared_kinds: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._pool = pool
        self._connector = Connector(settings, kube, cache, pool, shared_kinds, clock)
        self._connections: dict[ObjectKey, Connection] = {}
        self._rooms: WeakValueDictionary[str | ObjectKey, ListRoom] = WeakValueDictionary()
        self._admission = Admission(kube, clock)
        self.webhook_secrets = SigningSecrets(settings.webhook_secret_overlap_seconds, clock)
        """The secrets that webhook deliveries may be signed with."""

    async def close(self) -> None:
        """Close the connections to all clouds."""
        await self._pool.aclose()

    async def resolve(self, namespace: str, ref: AccountRef | None, *, ending: bool = False) -> AccountState:
        """The account of an object of this namespace. Raises KubeError if the API server cannot be asked."""
        key = self.key_for(namespace, ref)
        if key is None:
            return AccountWaiting(Reason.ACCOUNT_MISSING, _no_default(namespace, None))
        if not await self.admits(key, namespace):
            if ending:
                return _for_ends_only(await self.state(key))
            if ref is None:
                return AccountWaiting(Reason.ACCOUNT_MISSING, _no_default(namespace, key))
            return AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, _not_admitted(key, namespace))
        return await self.state(key)

    async def admits(self, key: ObjectKey, namespace: str) -> bool:
        """Whether the account, if it is shared, admits the namespace; one that does not exist admits all.

        Raises KubeError if the API server cannot be asked.
        """
        entry = self._cache.get(key)
        if entry is None or key.kind != AccountKind.CLUSTER_CLOUD_ACCOUNT:
            return True
        return await self._admission.admitted(entry.body, namespace)

    def key_for(self, namespace: str, ref: AccountRef | None) -> ObjectKey | None:
        """The account that a reference names, even if it does not exist; without a reference, the default, or None."""
        return self._cache.default_account(namespace) if ref is None else named_account(namespace, ref.kind, ref.name)

    async def state(self, key: ObjectKey) -> AccountState:
        """Whether the account can be used. Rereads its Secret after a while, and after the cloud refused the key."""
        entry = self._cache.get(key)
        if entry is None:
            return AccountWaiting(Reason.ACCOUNT_MISSING, _missing(key))
        if self._connection(key).seen[0] not in {"", entry.uid}:
            self.forget(key)  # what is known belongs to a former account of this name
        connection = self._connection(key)
        async with connection.turn:
            known = connection.state
            if known is not None and not self._is_stale(connection, entry):
                return known
            # If the API server cannot be asked, others go on with what is known.
            connection.fresh_until = self._clock() + self._rereads_after(known)
            state = await self._connector.look(key, entry, connection)
            connection.state, connection.seen = state, (entry.uid, entry.generation)
            connection.suspected = connection.doubted = False
            connection.fresh_until = self._clock() + self._rereads_after(state)
            if isinstance(state, AccountReady):
                connection.last_usable = state
                if connection.usable_since is None:
                    connection.usable_since = self._clock()
            # Another key or spec may allow what was refused before: a scope, a namespace.
            if type(state) is not type(known) or (isinstance(state, AccountReady) and state is not known):
                self._wake(key, first=known is None)
            return state

    def _rereads_after(self, state: AccountState | None) -> float:
        is_ready = isinstance(state, AccountReady)
        return self._settings.secret_reread_seconds if is_ready else self._settings.poll_transition_seconds

    def deaf_for(self, account: AccountReady) -> float:
        """Seconds for which to create nothing, since the account's webhooks would not be received yet."""
        connection = self._connections.get(account.key)
        if not self._settings.webhook_public_url or connection is None or connection.listening:
            return 0.0
        since = connection.usable_since if connection.usable_since is not None else self._clock()
        return max(since + _DEAF_SECONDS - self._clock(), 0.0)

    def listens(self, key: ObjectKey) -> bool:
        """Whether the account is subscribed, or known never to be."""
        connection = self._connections.get(key)
        return connection is not None and connection.listening

    def listening(self, key: ObjectKey) -> None:
        """Record that the account is subscribed, or never will be: waiting creates go ahead."""
        connection = self._connection(key)
        if connection.listening:
            return
        connection.listening = True
        self.wake_creates(key)

    def wake_creates(self, key: ObjectKey) -> None:
        """Wake the objects that have nothing yet: what they waited for with this account is there."""
        for dependent, entry in self._cache.users(key):
            if not entry.cloud_id:
                self._queue.add(dependent, Priority.CHANGE)

    def found_by_polling(self, account: AccountReady) -> None:
        """Record that polling found a change that a webhook should have reported."""
        self.evidence(account.key).untold += 1

    def heard(self, key: ObjectKey) -> None:
        """Record that a webhook of the account arrived."""
        evidence = self.evidence(key)
        evidence.untold, evidence.arrived = 0, True

    def evidence(self, key: ObjectKey) -> Evidence:
        """Evidence of whether the account's webhooks arrive."""
        return self._connection(key).evidence

    def failed(self, account: AccountReady, error: CloudError, whose: ObjectKey | None = None) -> None:
        """Record an error of a call with the account's Cloud; `whose` is the object that the call was for."""
        connection = self._connections.get(account.key)
        if connection is None:
            return
        if isinstance(error, Unauthorized) and connection.state is account:
            if error.operation not in INFERENCE_NAMES:
                connection.suspected = True
            else:
                connection.doubt(self._clock())
        since = account.cloud.silent_since
        if self.silent(account) and since != connection.silent_since:
            connection.silent_since = since
            self._queue.add(account.key, Priority.CHANGE)
        refused = whose if isinstance(error, PaymentRequired) else None
        if refused is not None and connection.shortage.refused(refused, self._clock()):
            self._queue.add(account.key, Priority.CHANGE)  # the balance that a later deposit is compared with

    def silent(self, account: AccountReady) -> bool:
        """Whether the cloud has answered none of the account's calls for a while, and one was sent."""
        since = account.cloud.silent_since
        return since is not None and self._clock() - since >= _SILENT_SECONDS

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        """Whether the cloud refused this object for lack of funds, and no funds have been added since."""
        connection = self._connections.get(account.key)
        return connection is not None and connection.shortage.keeps_back(key)

    def short(self, key: ObjectKey) -> bool:
        """Whether any object waits for the account's funds."""
        connection = self._connections.get(key)
        return connection is not None and connection.shortage.waits(self._clock())

    def seen_funded(self, account: AccountReady) -> float | None:
        """Seconds since the cloud last told of funds, if they were above its floor; None if not."""
        connection = self._connections.get(account.key)
        at = None if connection is None else connection.shortage.funded_at()
        return None if at is None else self._clock() - at

    def funds(self, key: ObjectKey, available_cents: int, floor_cents: int | None = None) -> bool:
        """Record the available funds. If they grew, refused objects try again; returns whether any does."""
        called = self._connection(key).shortage.seen(available_cents, floor_cents, self._clock())
        for dependent in called:
            self._queue.add(dependent, Priority.CHANGE)
        return bool(called)

    def whoami(self, key: ObjectKey) -> Whoami | None:
        """What is kept of the cloud's last answer about the account's key; None if there is none yet."""
        connection = self._connections.get(key)
        return None if connection is None else connection.who

    def organization_is_called(self, key: ObjectKey, name: str) -> None:
        """Record the organization's current name in the answer of `whoami`."""
        connection = self._connections.get(key)
        if connection is not None and connection.who is not None:
            connection.who = kept(connection.who.model_copy(update={"organization_name": name}))

    def organization_of(self, key: ObjectKey) -> str | None:
        """The organization of the account's key; None if the cloud that the account calls now has not said yet."""
        connection = self._connections.get(key)
        if connection is None or connection.who is None or connection.endpoint != self._cache.endpoint(key):
            return None
        return connection.who.organization_id

    def unclaimed(self, key: ObjectKey) -> UnclaimedIds:
        """Ids that this account's webhooks named and no object records."""
        return self._connection(key).unclaimed

    def forget(self, key: ObjectKey) -> None:
        """Drop everything known of an account whose object is gone."""
        self._connections.pop(key, None)
        self.webhook_secrets.drop(key)

    def _wake(self, key: ObjectKey, *, first: bool) -> None:
        """Wake the objects that wait for the account or rely on it, since it became usable or unusable."""
        if not first:
            self._queue.add(key, Priority.CHANGE)
        for dependent, entry in self._cache.users(key):
            if not (first and entry.settled):
                self._queue.add(dependent, Priority.CHANGE)

    def _connection(self, key: ObjectKey) -> Connection:
        known = self._connections.get(key)
        if known is None:
            shortage = Shortage(2 * self._settings.backoff_max_seconds)
            # A namespace has one room for the lists of all its accounts, however many it has.
            lists = self._rooms.setdefault(key.namespace or key, ListRoom())
            unclaimed = UnclaimedIds(newborn=self._settings.newborn_seconds)
            known = self._connections[key] = Connection(limiter(RateLimit()), RateLimit(), shortage, lists, unclaimed)
        return known

    def _is_stale(self, connection: Connection, entry: Entry) -> bool:
        changed = connection.seen != (entry.uid, entry.generation)
        troubled = connection.suspected or connection.doubted
        return changed or troubled or self._clock() >= connection.fresh_until


def _missing(key: ObjectKey) -> str:
    every = f"cacct -n {key.namespace}" if key.namespace else "ccacct"
    return f"the {key} does not exist: create it, or recreate the object with one that kubectl get {every} lists"


def _for_ends_only(state: AccountState) -> AccountState:
    return replace(state, admits=False, adoption_allowed=False) if isinstance(state, AccountReady) else state


def _not_admitted(key: ObjectKey, namespace: str) -> str:
    return (
        f"the {key} does not admit the namespace {namespace}: {_MAY_ADMIT}; or recreate the object with an accountRef "
        "to a CloudAccount of this namespace"
    )


def _no_default(namespace: str, shared: ObjectKey | None) -> str:
    """The message if there is no default account for the namespace; `shared` is one that does not admit it."""
    if shared is None:
        why, way_out = "there is no ClusterCloudAccount of that name", "create one"
    else:
        why, way_out = f"the {shared} does not admit it", _MAY_ADMIT
    lacks = f"the namespace {namespace} has no CloudAccount named {DEFAULT_NAME}, and {why}"
    return f"{lacks}: {way_out}, or name an account in accountRef"

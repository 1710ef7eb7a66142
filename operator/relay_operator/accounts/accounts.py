"""Resolves an object's accountRef to a `Cloud`: account, Secret, key, organization; cached by key."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

import orjson
from pydantic import ValidationError

from relay_client import (
    CallPolicy,
    Cloud,
    CloudError,
    ConnectionPool,
    PaymentRequired,
    RateLimiter,
    Runtime,
    Unauthorized,
)
from relay_client.errors import clause
from relay_client.list_room import ListRoom
from relay_client.operations import INFERENCE_NAMES, WHOAMI
from relay_kube.kube import Kube, Refused
from relay_operator.accounts.key_secret import ApiKey, NoKey, read_api_key
from relay_operator.accounts.namespace_selector import Admission
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.cloudaccount import CloudAccount, ClusterCloudAccount, CreateRecovery, RateLimit
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.account_users import DEFAULT_NAME, named_account
from relay_operator.engine.backoff import advised
from relay_operator.engine.cache import Cache
from relay_operator.engine.endpoints import called
from relay_operator.engine.entry import Entry
from relay_operator.engine.manifests import part
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.objectstores.allowed_urls import why_refused
from relay_operator.settings import Settings
from relay_operator.webhooks.deliveries import Evidence
from relay_operator.webhooks.signing_secrets import SigningSecrets
from relay_wire.account import Whoami

_DEAF_SECONDS = 20.0
"""How long an account's first create waits for its webhook subscription, which a cloud may never make."""
_RECHECK_SECONDS = 300.0
"""How long after the cloud refused a key the operator tries the same key again."""
_OUTAGE_FAILURES = 10
"""Failures in a row of one operation before its requests are held back; a single object hardly reaches this."""

_LONGEST_SCOPE = _MOST_SCOPES = 64
_LONGEST_NAME = 256
"""More than status shows, so that it marks what is cut."""

AnyAccount = CloudAccount | ClusterCloudAccount


@dataclass(slots=True)
class _Connection:
    """What is known of one account; `state` is None before the first look at it."""

    limiter: RateLimiter
    rate_limit: RateLimit
    shortage: Shortage
    lists: ListRoom
    unclaimed: UnclaimedIds = field(default_factory=UnclaimedIds)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    state: AccountState | None = None
    last_usable: AccountReady | None = None
    who: Whoami | None = None
    endpoint: str = ""
    """Which cloud said so."""
    made_of: tuple[str, ...] = ()
    """Account uid, account generation and Secret version; a change requires a new Cloud."""
    seen: tuple[str, int] = ("", 0)
    fresh_until: float = 0.0
    recheck_at: float = 0.0
    suspected: bool = False
    """Whether the cloud refused the key to any caller."""
    doubted: bool = False
    """Whether the inference URL refused the key: only the management API tells whether the key or the URL is wrong."""
    doubt_at: float = float("-inf")
    """When the next refusal of the inference URL raises a doubt: a wrong URL refuses for as long as it is wrong."""
    usable_since: float | None = None
    evidence: Evidence = field(default_factory=Evidence)
    listening: bool = False
    """Whether the webhook subscription exists, or is known to be impossible."""


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
        self._allowed = settings.allowed_prefixes()
        self._kube = kube
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._shared_kinds = shared_kinds
        self._pool = pool
        self._connections: dict[ObjectKey, _Connection] = {}
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
            return AccountWaiting(Reason.ACCOUNT_MISSING, _no_default(namespace))
        if not await self.admits(key, namespace):
            if ending:
                return _for_ends_only(await self.state(key))
            if ref is None:
                return AccountWaiting(Reason.ACCOUNT_MISSING, _no_default(namespace))
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
            state = await self._look(key, entry, connection)
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
            elif self._clock() >= connection.doubt_at:
                connection.doubted, connection.doubt_at = True, self._clock() + _RECHECK_SECONDS
        refused = whose if isinstance(error, PaymentRequired) else None
        if refused is not None and connection.shortage.refused(refused, self._clock()):
            self._queue.add(account.key, Priority.CHANGE)  # the balance that a later deposit is compared with

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        """Whether the cloud refused this object for lack of funds, and no funds have been added since."""
        connection = self._connections.get(account.key)
        return connection is not None and connection.shortage.keeps_back(key)

    def short(self, key: ObjectKey) -> bool:
        """Whether any object waits for the account's funds."""
        connection = self._connections.get(key)
        return connection is not None and connection.shortage.waits(self._clock())

    def funds(self, key: ObjectKey, available_cents: int) -> bool:
        """Record the available funds. If they grew, refused objects try again; returns whether any does."""
        called = self._connection(key).shortage.seen(available_cents)
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
            connection.who = _kept(connection.who.model_copy(update={"organization_name": name}))

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

    def _connection(self, key: ObjectKey) -> _Connection:
        known = self._connections.get(key)
        if known is None:
            shortage = Shortage(2 * self._settings.backoff_max_seconds)
            # A namespace has one room for the lists of all its accounts, however many it has.
            lists = self._rooms.setdefault(key.namespace or key, ListRoom())
            known = self._connections[key] = _Connection(_limiter(RateLimit()), RateLimit(), shortage, lists)
        return known

    def _connect(
        self, urls: tuple[str, str | None], api_key: str, organization_id: str | None, connection: _Connection
    ) -> Cloud:
        return Cloud(
            urls[0],
            api_key,
            inference_url=urls[1],
            organization_id=organization_id,
            pool=self._pool,
            limiter=connection.limiter,
            lists=connection.lists,
            policy=CallPolicy(recheck_seconds=_RECHECK_SECONDS, outage_failures=_OUTAGE_FAILURES),
            runtime=Runtime(clock=self._clock),
            user_agent="relay-operator",
        )

    def _is_stale(self, connection: _Connection, entry: Entry) -> bool:
        changed = connection.seen != (entry.uid, entry.generation)
        troubled = connection.suspected or connection.doubted
        return changed or troubled or self._clock() >= connection.fresh_until

    async def _look(self, key: ObjectKey, entry: Entry, connection: _Connection) -> AccountState:
        try:
            account = parse_account(key, entry)
        except ValidationError as invalid:
            problem = invalid.errors(include_url=False, include_input=False)[0]
            return AccountRefused(Reason.SPEC_INVALID, f"the {key} cannot be read: {problem['msg']}")
        refusal = self._not_allowed(account)
        if refusal is not None:
            return AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, refusal)
        api_key = await self._api_key(account)
        if isinstance(api_key, NoKey):
            connection.made_of = ()  # the same key may come back, and is tried then
            if account.metadata.deletion_timestamp is not None and connection.last_usable is not None:
                return connection.last_usable  # in a dying namespace, the Secret may go before the paid resources
            return AccountWaiting(Reason.SECRET_MISSING, api_key.message)
        made_of = (entry.uid, str(entry.generation), api_key.version)
        if connection.state is not None and connection.made_of == made_of:
            same = await self._unchanged(connection)
            if same is not None:
                return same
        state = await self._connected(key, account, api_key, connection)
        connection.made_of = made_of  # only now: a look that was cancelled has not tried this key
        return state

    async def _unchanged(self, connection: _Connection) -> AccountState | None:
        """The state, if this same key need not be tried again; else None."""
        now, state = self._clock(), connection.state
        if isinstance(state, AccountReady) and connection.doubted:
            connection.suspected = connection.suspected or await _refuses_key(state.cloud)
        if isinstance(state, AccountReady) and connection.suspected:
            connection.recheck_at = now + _RECHECK_SECONDS
            return _unauthorized("the cloud refuses the API key")
        if isinstance(state, AccountReady) or now < connection.recheck_at:
            return state
        return None

    async def _connected(
        self, key: ObjectKey, account: AnyAccount, api_key: ApiKey, connection: _Connection
    ) -> AccountState:
        connection.recheck_at = 0.0  # what was refused before was another key, or is tried again now
        _limit(connection, account.spec.rate_limit or RateLimit())
        base_url = account.spec.base_url or self._settings.default_base_url
        urls = base_url, account.spec.inference_url or self._settings.default_inference_url or None
        try:
            who = await self._connect(urls, api_key.value, None, connection).call(WHOAMI)
            cloud = self._connect(urls, api_key.value, who.organization_id, connection)
        except Unauthorized as error:
            connection.recheck_at = self._clock() + _RECHECK_SECONDS
            return _unauthorized(error.message)
        except CloudError as error:
            connection.recheck_at = self._clock() + advised(error.retry_after, self._settings.backoff_max_seconds)
            return AccountWaiting(Reason.CLOUD_UNAVAILABLE, error.message)
        except ValueError as unfit:
            connection.recheck_at = self._clock() + _RECHECK_SECONDS
            return _unauthorized(str(unfit))
        # The key of another organization gets "not found" for these resources, so the operator must never ask with it.
        former = connection.who.organization_id if connection.who else account.status.organization_id
        if former and former != who.organization_id and any(depends(key, one) for _, one in self._cache.users(key)):
            connection.recheck_at = self._clock() + _RECHECK_SECONDS
            message = (
                f"the key belongs to the organization {who.organization_id}, and the objects of this account are in "
                f"{former}: put back a key of that organization, or create another account"
            )
            return AccountRefused(Reason.ACCOUNT_FORBIDDEN, message)
        endpoints = called(urls[0], urls[1] or "")
        connection.who, connection.endpoint = _kept(who), endpoints.management
        resend = account.spec.create_recovery is CreateRecovery.RETRY_BY_NAME
        adoption, serves = account.spec.allow_adoption, served_kinds(account, self._shared_kinds)
        grants, organization = granted_scopes(account), who.organization_id
        budget = account.spec.budget
        return AccountReady(
            key,
            cloud,
            organization,
            connection.unclaimed,
            resend,
            adoption,
            serves,
            grants,
            budget,
            endpoints=endpoints,
        )

    def _not_allowed(self, account: AnyAccount) -> str | None:
        spec, own = account.spec, self._settings.namespace
        if isinstance(account, ClusterCloudAccount) and (elsewhere := secret_namespace(account)) != own:
            left = f"; it is left to the release in {elsewhere}" if self._settings.watch_namespaces else ""
            return f"apiKeySecretRef.namespace must be the operator's own namespace, {own}{left}"
        if not spec.base_url and not self._settings.default_base_url:
            return "spec.baseUrl is not set, and the operator has no default (RELAY_DEFAULT_BASE_URL)"
        for url in (spec.base_url, spec.inference_url):
            refusal = why_refused(url, self._allowed) if url else None
            if refusal is not None:
                return refusal
        return None

    async def _api_key(self, account: AnyAccount) -> ApiKey | NoKey:
        ref, namespace = account.spec.api_key_secret_ref, secret_namespace(account)
        try:
            return await read_api_key(self._kube, namespace, ref.name, ref.key)
        except Refused as refused:
            return NoKey(f"the Secret {ref.name} in the namespace {namespace} may not be read: {refused}")


def depends(account: ObjectKey, user: Entry) -> bool:
    """Whether a user of the account may have something in the cloud that only this account can end.

    An object that only names a shared account does not count: the account may not even admit its namespace.
    """
    return account.kind == AccountKind.CLOUD_ACCOUNT or bool(user.cloud_id) or user.attempted


def is_anothers(settings: Settings, key: ObjectKey, entry: Entry) -> bool:
    """Whether another operator manages the account: each with watched namespaces has those with a key in its own.

    Such an operator sees only some of the account's users. One that sees all manages all, since nobody else would.
    """
    if not settings.watch_namespaces or key.kind != AccountKind.CLUSTER_CLOUD_ACCOUNT:
        return False
    return part(orjson.loads(entry.body), "spec", "apiKeySecretRef").get("namespace") != settings.namespace


def parse_account(key: ObjectKey, entry: Entry) -> AnyAccount:
    """Parse the account in the cache. Raises ValidationError."""
    model = CloudAccount if key.kind == AccountKind.CLOUD_ACCOUNT else ClusterCloudAccount
    return model.model_validate_json(entry.body)


def served_kinds(account: AnyAccount, by_default: frozenset[str]) -> frozenset[str] | None:
    """The kinds that the account may be used for; None if all are allowed."""
    if isinstance(account, CloudAccount):
        return None
    allowed = account.spec.allowed_kinds
    return by_default if allowed is None else frozenset(allowed)


def granted_scopes(account: AnyAccount) -> frozenset[str] | None:
    """The scopes that a key created with the account may have; None if all are allowed."""
    return None if isinstance(account, CloudAccount) else frozenset(account.spec.allowed_scopes or ())


def secret_namespace(account: AnyAccount) -> str:
    """The namespace of the account's Secrets."""
    if isinstance(account, ClusterCloudAccount):
        return account.spec.api_key_secret_ref.namespace
    return account.metadata.namespace


def _kept(who: Whoami) -> Whoami:
    """What status shows of the answer: an answer may have 3 MiB, and that of every account is kept."""
    scopes = sorted({scope[:_LONGEST_SCOPE] for scope in who.scopes})[:_MOST_SCOPES]
    name = who.organization_name and who.organization_name[:_LONGEST_NAME]
    return who.model_copy(update={"principal_type": "", "organization_name": name, "scopes": scopes})


async def _refuses_key(cloud: Cloud) -> bool:
    try:
        await cloud.call(WHOAMI)
    except CloudError as error:  # any other says nothing about the key
        return isinstance(error, Unauthorized)
    return False


def _missing(key: ObjectKey) -> str:
    every = f"cacct -n {key.namespace}" if key.namespace else "ccacct"
    return f"the {key} does not exist: create it, or name one that kubectl get {every} lists"


def _for_ends_only(state: AccountState) -> AccountState:
    return replace(state, admits=False, adoption_allowed=False) if isinstance(state, AccountReady) else state


def _not_admitted(key: ObjectKey, namespace: str) -> str:
    return (
        f"the {key} does not admit the namespace {namespace}: a cluster administrator can give the namespace the "
        "labels of its spec.allowedNamespaces, or change these; or recreate the object with an accountRef to a "
        "CloudAccount of this namespace"
    )


def _no_default(namespace: str) -> str:
    return (
        f"the namespace {namespace} has no CloudAccount named {DEFAULT_NAME}, and no ClusterCloudAccount of that name "
        "admits it: create one, or name an account in accountRef"
    )


def _unauthorized(message: str) -> AccountRefused:
    return AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, f"{clause(message)}: put a valid key into the Secret")


def _limiter(rate_limit: RateLimit) -> RateLimiter:
    return RateLimiter(rate_limit.requests_per_second, burst=float(max(rate_limit.burst, 2)))


def _limit(connection: _Connection, rate_limit: RateLimit) -> None:
    if connection.rate_limit != rate_limit:
        connection.rate_limit, connection.limiter = rate_limit, _limiter(rate_limit)

"""From an account's object and its Secret to a Cloud, and what is known of the account after that."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import ValidationError

from relay_client import CallPolicy, Cloud, CloudError, ConnectionPool, RateLimiter, Runtime, Unauthorized
from relay_client.errors import clause
from relay_client.list_room import ListRoom
from relay_client.operations import WHOAMI
from relay_kube.errors import Refused
from relay_kube.kube import Kube
from relay_operator.accounts.account_object import (
    depends,
    granted_scopes,
    parse_account,
    served_kinds,
)
from relay_operator.accounts.key_secret import ApiKey, read_api_key
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.api_key import NoKey
from relay_operator.api.cloudaccount import AnyAccount, ClusterCloudAccount, CreateRecovery, RateLimit, secret_namespace
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.backoff import advised
from relay_operator.engine.cache import Cache
from relay_operator.engine.endpoints import called
from relay_operator.engine.entry import Entry
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.objectstores.allowed_urls import UrlPrefix, why_refused
from relay_operator.settings import Settings
from relay_operator.webhooks.deliveries import Evidence
from relay_wire.account import Whoami

_RECHECK_SECONDS = 300.0
"""How long after the cloud refused a key the operator tries the same key again."""
_OUTAGE_FAILURES = 10
"""Failures in a row of one operation before its requests are held back; a single object hardly reaches this."""

_LONGEST_SCOPE = _MOST_SCOPES = 64
_LONGEST_NAME = 256
"""More than status shows, so that it marks what is cut."""


@dataclass(slots=True)
class Connection:
    """What is known of one account; `state` is None before the first look at it."""

    limiter: RateLimiter
    rate_limit: RateLimit
    shortage: Shortage
    lists: ListRoom
    unclaimed: UnclaimedIds
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
    silent_since: float | None = None
    """Since when the cloud answered no call when the account was last told so."""
    usable_since: float | None = None
    evidence: Evidence = field(default_factory=Evidence)
    listening: bool = False
    """Whether the webhook subscription exists, or is known to be impossible."""

    def doubt(self, now: float) -> None:
        """Note that the inference URL refused the key."""
        if now >= self.doubt_at:
            self.doubted, self.doubt_at = True, now + _RECHECK_SECONDS


@dataclass(slots=True)
class Connector:
    """Turns an account's object, its Secret and what the cloud says of the key into an AccountState."""

    settings: Settings
    kube: Kube
    cache: Cache
    pool: ConnectionPool
    shared_kinds: frozenset[str]
    clock: Callable[[], float]
    allowed: tuple[UrlPrefix, ...] = field(init=False)
    """The prefixes of URLs that accounts may name."""

    def __post_init__(self) -> None:
        self.allowed = self.settings.allowed_prefixes()

    async def look(self, key: ObjectKey, entry: Entry, connection: Connection) -> AccountState:
        """The account's state now. Raises KubeError if the API server cannot be asked."""
        try:
            account = parse_account(key, entry)
        except ValidationError as invalid:
            problem = invalid.errors(include_url=False, include_input=False)[0]
            return AccountRefused(Reason.SPEC_INVALID, f"the {key} cannot be read: {problem['msg']}")
        if (refusal := self._not_allowed(account)) is not None:
            return AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, refusal)
        api_key = await self._api_key(account)
        if isinstance(api_key, NoKey):
            connection.made_of = ()  # the same key may come back, and is tried then
            if account.metadata.deletion_timestamp is not None and connection.last_usable is not None:
                return connection.last_usable  # in a dying namespace, the Secret may go before the paid resources
            return AccountWaiting(Reason.SECRET_MISSING, api_key.message)
        made_of = (entry.uid, str(entry.generation), api_key.version)
        if connection.state is not None and connection.made_of == made_of:
            same = await self._unchanged(key, connection)
            if same is not None:
                return same
        state = await self._connected(key, account, api_key, connection)
        connection.made_of = made_of  # only now: a look that was cancelled has not tried this key
        return state

    async def _unchanged(self, key: ObjectKey, connection: Connection) -> AccountState | None:
        """The state, if this same key need not be tried again; else None."""
        now, state = self.clock(), connection.state
        if isinstance(state, AccountReady) and connection.doubted:
            connection.suspected = connection.suspected or await _refuses_key(state.cloud)
        if isinstance(state, AccountReady) and connection.suspected:
            connection.recheck_at = now + _RECHECK_SECONDS
            return _unauthorized(key, "the cloud refuses the API key")
        if isinstance(state, AccountReady) or now < connection.recheck_at:
            return state
        return None

    async def _connected(
        self, key: ObjectKey, account: AnyAccount, api_key: ApiKey, connection: Connection
    ) -> AccountState:
        connection.recheck_at = 0.0  # what was refused before was another key, or is tried again now
        _limit(connection, account.spec.rate_limit or RateLimit())
        base_url = account.spec.base_url or self.settings.default_base_url
        urls = base_url, account.spec.inference_url or self.settings.default_inference_url or None
        try:
            who = await self._connect(urls, api_key.value, None, connection).call(WHOAMI)
            cloud = self._connect(urls, api_key.value, who.organization_id, connection)
        except Unauthorized as error:
            connection.recheck_at = self.clock() + _RECHECK_SECONDS
            return _unauthorized(key, error.message)
        except CloudError as error:
            connection.recheck_at = self.clock() + advised(error.retry_after, self.settings.backoff_max_seconds)
            return AccountWaiting(Reason.CLOUD_UNAVAILABLE, error.message)
        except ValueError as unfit:
            connection.recheck_at = self.clock() + _RECHECK_SECONDS
            return _unauthorized(key, str(unfit))
        # The key of another organization gets "not found" for these resources, so the operator must never ask with it.
        former = connection.who.organization_id if connection.who else account.status.organization_id
        if former and former != who.organization_id and any(depends(key, one) for _, one in self.cache.users(key)):
            connection.recheck_at = self.clock() + _RECHECK_SECONDS
            message = (
                f"the key belongs to the organization {who.organization_id}, and the objects of this account are in "
                f"{former}: put back a key of that organization, or create another account"
            )
            return AccountRefused(Reason.ACCOUNT_FORBIDDEN, message)
        endpoints = called(urls[0], urls[1] or "")
        connection.who, connection.endpoint = kept(who), endpoints.management
        return AccountReady(
            key,
            cloud,
            who.organization_id,
            connection.unclaimed,
            resend_unknown=account.spec.create_recovery is CreateRecovery.RETRY_BY_NAME,
            adoption_allowed=account.spec.allow_adoption,
            serves=served_kinds(account, self.shared_kinds),
            grants=granted_scopes(account),
            budget=account.spec.budget,
            endpoints=endpoints,
        )

    def _connect(
        self, urls: tuple[str, str | None], api_key: str, organization_id: str | None, connection: Connection
    ) -> Cloud:
        return Cloud(
            urls[0],
            api_key,
            inference_url=urls[1],
            organization_id=organization_id,
            pool=self.pool,
            limiter=connection.limiter,
            lists=connection.lists,
            policy=CallPolicy(recheck_seconds=_RECHECK_SECONDS, outage_failures=_OUTAGE_FAILURES),
            runtime=Runtime(clock=self.clock),
            user_agent="relay-operator",
        )

    def _not_allowed(self, account: AnyAccount) -> str | None:
        spec, own = account.spec, self.settings.namespace
        if isinstance(account, ClusterCloudAccount) and (elsewhere := secret_namespace(account)) != own:
            left = f"; it is left to the release in {elsewhere}" if self.settings.watch_namespaces else ""
            return f"apiKeySecretRef.namespace must be the operator's own namespace, {own}{left}"
        if not spec.base_url and not self.settings.default_base_url:
            return "spec.baseUrl is not set, and the operator has no default (RELAY_DEFAULT_BASE_URL)"
        for name, url in (("baseUrl", spec.base_url), ("inferenceUrl", spec.inference_url)):
            refusal = why_refused(url, self.allowed) if url else None
            if refusal is not None:
                return f"spec.{name} of the {account.key}: {refusal}"
        return None

    async def _api_key(self, account: AnyAccount) -> ApiKey | NoKey:
        ref, namespace = account.spec.api_key_secret_ref, secret_namespace(account)
        try:
            return await read_api_key(self.kube, namespace, ref.name, ref.key)
        except Refused as refused:
            return NoKey(f"the Secret {ref.name} in the namespace {namespace} may not be read: {refused}")


def kept(who: Whoami) -> Whoami:
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


def _unauthorized(key: ObjectKey, message: str) -> AccountRefused:
    return AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, f"{clause(message)}: put a valid key into the Secret of {key}")


def limiter(rate_limit: RateLimit) -> RateLimiter:
    return RateLimiter(rate_limit.requests_per_second, burst=float(max(rate_limit.burst, 2)))


def _limit(connection: Connection, rate_limit: RateLimit) -> None:
    if connection.rate_limit != rate_limit:
        connection.rate_limit, connection.limiter = rate_limit, limiter(rate_limit)

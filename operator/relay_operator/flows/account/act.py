"""What is done for an account: its Secret is protected, its organization looked at, and its subscription ended."""

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

from relay_client import Cloud, CloudError, Forbidden, Unauthorized
from relay_client.operations import GET_BALANCE
from relay_kube.errors import KubeError, Refused
from relay_kube.kube import JsonObject
from relay_operator.accounts import key_secret
from relay_operator.accounts.accounts import Accounts
from relay_operator.api import meta
from relay_operator.api.cloudaccount import AnyAccount, CloudAccount
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.engine import finalizer
from relay_operator.engine.account import AccountReady, AccountState, AccountWaiting
from relay_operator.engine.actions import Nothing
from relay_operator.engine.backoff import Backoff, advised, jittered
from relay_operator.engine.endpoints import NOWHERE, Endpoints
from relay_operator.engine.engine import Engine
from relay_operator.engine.fence import fence
from relay_operator.engine.memory import Memory
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.flows.account.bookkeeping import Bookkeeper, Books, Page
from relay_operator.flows.account.observer import AccountObserver
from relay_operator.flows.account.plan import Action, End, Glance, Look, View
from relay_operator.flows.account.report import OrganizationSeen
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings
from relay_wire.billing import Balance

_ANXIOUS_SECONDS = 60.0
"""Seconds between two looks while the cloud may have something that no object records, or the burn is unsettled."""
_GLANCES = 2
"""Intervals (of transitions) between two reads of the balance or burn while some object waits for either.

Also between two looks that `reconcile-at` requests.
"""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AccountMemory(Memory):
    """What this process remembers of one account; times are monotonic seconds."""

    look_at: float = 0.0
    glance_at: float = 0.0
    recheck_at: float = 0.0
    """When the burn may be read again because of doubts."""
    heed_at: float = 0.0
    """When `reconcile-at` may cause a look again."""
    not_before: float = 0.0
    """Until when the cloud wants not to be asked (Retry-After)."""
    told_by: Endpoints = NOWHERE
    """Which cloud that is."""
    looked: tuple[int, AccountState | None] = (-1, None)
    """Generation and state at the last look; a change of either causes a look at once."""
    unready: int = 0
    """Passes in a row that found the account unusable."""
    incomplete: int = 0
    """Looks in a row of which a part failed: the next one comes sooner."""
    alone_since: float | None = None
    """When the account was last used, or not being deleted, as far as this process knows; None before it looked."""
    deaf: str = ""
    """Why there is no webhook subscription, although creates have stopped waiting for one."""
    holds: str = ""
    """The Secret that the account's finalizer is on; empty if there is none."""
    unheld: str = ""
    """Why the Secret cannot be held or released; empty if it can."""
    sweep: SweepMemory = field(default_factory=SweepMemory)
    books: Books = field(default_factory=Books)


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """What a pass gathered; everything after is decided from it alone."""

    key: ObjectKey
    account: AnyAccount
    now: datetime
    state: AccountState
    in_use: Counter[str]
    view: View
    error: None = None

    @property
    def usable(self) -> AccountReady:
        """The account to act with; the plan calls the cloud only with a usable one."""
        if not isinstance(self.state, AccountReady):
            raise AssertionError(f"{self.key}: the plan looks without an account")
        return self.state


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a look; `seen` is None if the cloud did not answer, and `state` says what that means."""

    state: AccountState
    seen: OrganizationSeen | None


@dataclass(frozen=True, slots=True)
class Glanced:
    """The balance was read, and nothing else."""

    balance: Balance


@dataclass(frozen=True, slots=True)
class Ended:
    """The account's finalizer is removed."""


Result = Nothing | Looked | Glanced | Ended


@dataclass(slots=True)
class Actor:
    """Acts for accounts."""

    engine: Engine
    settings: Settings
    accounts: Accounts
    metrics: Metrics
    sweeper: Sweeper
    bookkeeper: Bookkeeper
    budgets: Budgets

    async def act(self, facts: AccountFacts, action: Action, memory: AccountMemory, writer: ObjectWriter) -> Result:
        if not facts.view.deleting:
            await self._protect(facts, memory, writer)
        await self.engine.leftovers.save(())
        match action:
            case Look(read_only):
                return await self._look(facts, memory, read_only=read_only)
            case Glance(read_only):
                return await self._glance(facts, memory, read_only=read_only)
            case End(unsubscribe):
                return await self._end(facts, memory, writer, unsubscribe=unsubscribe)
            case _:
                return Nothing()

    async def _protect(self, facts: AccountFacts, memory: AccountMemory, writer: ObjectWriter) -> None:
        """Set the finalizer and note the held Secret, so that it can be released whatever the spec says later."""
        metadata, kube = facts.account.metadata, self.engine.kube
        held, wanted = metadata.annotations.get(meta.API_KEY_SECRET), self._secret_to_hold(facts.account)
        memory.unheld = ""
        if meta.FINALIZER not in metadata.finalizers or held != wanted:
            if held and held != wanted:
                try:
                    await key_secret.release(kube, metadata.namespace, held, metadata.uid)
                except Refused as refused:
                    memory.unheld, wanted = _keeps_finalizer(held, refused), held
            change: JsonObject = {}
            if meta.FINALIZER not in metadata.finalizers:
                change["finalizers"] = [*metadata.finalizers, meta.FINALIZER]
            if held != wanted:
                change["annotations"] = {meta.API_KEY_SECRET: wanted}
            if change:
                await writer.metadata(change)
                self.accounts.wake_creates(facts.key)
        if wanted is not None:
            memory.holds = wanted
            try:
                await key_secret.hold(kube, metadata.namespace, wanted, metadata.uid, facts.now)
            except Refused as refused:
                memory.unheld = f"the Secret {wanted} may be gone before what it is needed to end: {refused}"

    def _secret_to_hold(self, account: AnyAccount) -> str | None:
        """The Secret in the account's own namespace to hold; a shared account's Secret is the administrator's concern.

        None also if the operator could not release the Secret at the namespace's end.
        """
        name = account.spec.api_key_secret_ref.name
        return name if isinstance(account, CloudAccount) and self.settings.may_hold_secret(name) else None

    async def _glance(self, facts: AccountFacts, memory: AccountMemory, *, read_only: bool) -> Result:
        """Read the balance, one request; if it rose, or a look is due, a look follows and reports the rest."""
        state, intervals = facts.usable, self.engine.intervals
        memory.glance_at = self.engine.clock() + _GLANCES * intervals.transition
        try:
            balance = await state.cloud.call(GET_BALANCE, large=True)
        except CloudError as error:
            self.accounts.failed(state, error)
            if state.cloud.silent_since is not None:
                return self._unanswered(state, error, memory)
            self._heed(state, memory, error.retry_after)
            if isinstance(error, Forbidden):  # this key can never read the balance
                memory.glance_at = self.engine.clock() + intervals.settled
            return Nothing()
        memory.unanswered = 0
        rose = self.accounts.funds(facts.key, balance.available_cents)
        return await self._look(facts, memory, read_only=read_only) if rose or facts.view.look_due else Glanced(balance)

    async def _look(self, facts: AccountFacts, memory: AccountMemory, *, read_only: bool) -> Looked:
        """Look at the organization."""
        account, state, key = facts.account, facts.usable, facts.key
        if is_asked(account):
            memory.heed_at = self.engine.clock() + _GLANCES * self.engine.intervals.transition
        await self._learn_admitted(state)
        paid = self.budgets.paid(state)
        try:
            seen = await self._observer().look(account, self._fenced(facts), read_only=read_only)
            unsettled = self.budgets.looked(
                state,
                seen.balance.available_cents if seen.balance is not None else None,
                seen.usage.burn_per_hour_cents if seen.usage is not None else None,
                paid,
            )
            if not facts.view.paused:
                await self.sweeper.sweep(state, seen.usage, account.spec.orphans, memory.sweep, facts.now)
            seen = await self._accounted(account, state, seen, memory, facts.now, read_only=read_only)
        except Unauthorized as error:
            self.accounts.failed(state, error)
            return Looked(await self.accounts.state(key), None)
        except CloudError as error:
            return self._unanswered(state, error, memory)
        memory.unanswered, memory.deaf = 0, ""
        self._heed(state, memory, seen.retry_after)
        memory.incomplete = memory.incomplete + 1 if seen.passing else 0
        if memory.unheld:
            seen = replace(seen, notes=(*seen.notes, memory.unheld))
        if memory.incomplete >= self.settings.unavailable_after_failures:
            seen = replace(seen, notes=(*seen.notes, *seen.passing))
        memory.looked = (account.metadata.generation, state)
        intervals = self.engine.intervals
        pace = intervals.settled
        if self.sweeper.anxious(key, state, memory.sweep) or unsettled:
            pace = min(pace, _ANXIOUS_SECONDS)
        if memory.incomplete:
            pace = Backoff(intervals.transition, pace).after(memory.incomplete, self.engine.retry_policy.random)
        now = self.engine.clock()
        memory.look_at = now + jittered(pace, intervals.jitter, self.engine.retry_policy.random)
        memory.recheck_at = now + _GLANCES * intervals.transition
        if seen.balance is not None:
            burn = seen.usage.burn_per_hour_cents if seen.usage is not None else None
            floor = seen.usage.auto_stop_floor_cents if seen.usage is not None else None
            self.accounts.funds(key, seen.balance.available_cents, floor)
            self.metrics.on_balance(key.namespace, key.name, seen.balance.available_cents, burn, floor)
        return Looked(state, seen)

    def _unanswered(self, state: AccountReady, error: CloudError, memory: AccountMemory) -> Looked:
        """What a read without an answer means; after a while, or if no other call was answered, a state of its own."""
        self._heed(state, memory, error.retry_after)
        if not self.accounts.listens(state.key) and not self.accounts.deaf_for(state):
            memory.deaf = f"no subscription could be created yet: {error.message}"
        enough = self.settings.unavailable_after_failures
        memory.unanswered = max(memory.unanswered + 1, enough if self.accounts.silent(state) else 0)
        patient = memory.unanswered < enough
        return Looked(state if patient else AccountWaiting(Reason.CLOUD_UNAVAILABLE, error.message), None)

    async def _learn_admitted(self, state: AccountReady) -> None:
        """Find out whose reservations count: those of a former process, of paused objects, and of namespaces let go.

        Those of which nothing can be found out count.
        """
        is_known = True
        for namespace in self.budgets.reserving(state):
            try:
                is_admitted = not is_known or await self.accounts.admits(state.key, namespace)
            except KubeError as error:
                logger.info("whose reservations the %s admits is not known: %s", state.key, error)
                is_known, is_admitted = False, True
            if is_admitted:
                self.budgets.admitted(state.key, namespace)
            else:
                self.budgets.not_admitted(state.key, namespace)

    async def _accounted(
        self,
        account: AnyAccount,
        ready: AccountReady,
        seen: OrganizationSeen,
        memory: AccountMemory,
        now: datetime,
        *,
        read_only: bool,
    ) -> OrganizationSeen:
        """Adds what was spent this month, and on whose resources, if the cloud reports it."""
        if seen.usage is None or seen.usage.breakdown is None:
            return seen
        page = Page(account.key, account.metadata.uid)
        month, trouble = await self.bookkeeper.account(page, ready, seen.usage, memory.books, now, read_only=read_only)
        if month is not None:
            self.metrics.on_spend(account.key.namespace, account.key.name, month.shares)
        return replace(
            seen,
            spend=month.spend if month is not None else None,
            notes=(*seen.notes, trouble) if trouble else seen.notes,
        )

    async def _end(
        self, facts: AccountFacts, memory: AccountMemory, writer: ObjectWriter, *, unsubscribe: bool
    ) -> Result:
        account, metadata = facts.account, facts.account.metadata
        memory.unheld = ""
        if unsubscribe:
            try:
                await self._observer().end(account, self._fenced(facts))
            except CloudError as error:
                logger.warning("the webhook subscription cannot be removed: %s", error)
                if not facts.view.overdue:
                    return Nothing()
        if held := metadata.annotations.get(meta.API_KEY_SECRET):
            try:
                await key_secret.release(self.engine.kube, metadata.namespace, held, metadata.uid)
            except Refused as refused:
                memory.unheld = _keeps_finalizer(held, refused)
                return Nothing()
        await finalizer.release(writer, metadata)
        return Ended()

    def _heed(self, state: AccountReady, memory: AccountMemory, retry_after: float | None) -> None:
        memory.told_by = state.endpoints
        memory.not_before = self.engine.clock() + advised(retry_after, self.settings.backoff_max_seconds)

    def _fenced(self, facts: AccountFacts) -> Cloud:
        """The account's Cloud, which sends no change once people have written another account."""
        return facts.usable.cloud.guarded(fence(self.engine.cache, facts.key, facts.account.metadata, None))

    def _observer(self) -> AccountObserver:
        return AccountObserver(self.engine.kube, self.accounts, self.settings.webhook_public_url)


def is_asked(account: AnyAccount) -> bool:
    """Whether `reconcile-at` requests a look that status does not tell of."""
    return account.metadata.echo(meta.RECONCILE_AT) != account.status.reconcile_at


def _keeps_finalizer(secret: str, refused: Refused) -> str:
    return f"the Secret {secret} keeps a finalizer: {refused}"

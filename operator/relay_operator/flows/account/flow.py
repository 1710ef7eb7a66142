"""The flow of account objects: key, money, subscription, and end."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from relay_client import Cloud, CloudError, Forbidden, Unauthorized
from relay_client.operations import GET_BALANCE
from relay_kube.kube import JsonObject, KubeError, Refused, ResourceType
from relay_operator.accounts import key_secret
from relay_operator.accounts.accounts import Accounts, AnyAccount, depends
from relay_operator.api import meta
from relay_operator.api.cloudaccount import MAX_OWNERLESS, CloudAccount, InUse, Ownerless
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import Definition
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.engine import finalizer
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.actions import Ignore, Nothing, Wait
from relay_operator.engine.backoff import Backoff, advised, jittered
from relay_operator.engine.controller import Engine
from relay_operator.engine.fence import fence
from relay_operator.engine.flow import Told, Turn
from relay_operator.engine.kind import resource_type
from relay_operator.engine.leftovers import Fate, Left
from relay_operator.engine.memory import Memory
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return, held_by
from relay_operator.flows.account.bookkeeping import Bookkeeper, Books, Page
from relay_operator.flows.account.observer import AccountObserver
from relay_operator.flows.account.plan import Action, End, Glance, Look, View, plan
from relay_operator.flows.account.report import AccountFinding, OrganizationSeen, left_over, new_status
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings

_ANXIOUS_SECONDS = 60.0
"""Seconds between two looks while the cloud may have something that no object records, or the burn is unsettled."""
_GLANCES = 2
"""Intervals (of transitions) between two reads of the balance or burn while some object waits for either."""
_GIVE_UP = timedelta(minutes=5)
"""How long the end of an account waits for a cloud that does not answer; a dead subscription costs nothing."""
_HOLD_SECONDS = timedelta(days=1).total_seconds()
"""How long late creates alone hold an account: the cloud may refuse to end them for ever."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AccountMemory(Memory):
    """What this process remembers of one account; times are monotonic seconds."""

    look_at: float = 0.0
    glance_at: float = 0.0
    recheck_at: float = 0.0
    """When the burn may be read again because of doubts."""
    not_before: float = 0.0
    """Until when the cloud wants not to be asked (Retry-After)."""
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
class Ended:
    """The account's finalizer is removed."""


Result = Nothing | Looked | Ended


@dataclass(slots=True)
class AccountFlow:
    """The `Flow` of one of the two kinds of account."""

    definition: Definition
    model: type[AnyAccount]
    engine: Engine
    settings: Settings
    accounts: Accounts
    metrics: Metrics
    plurals: Mapping[str, str]
    """Plurals by kind, of the kinds that use accounts."""
    sweeper: Sweeper
    bookkeeper: Bookkeeper
    budgets: Budgets

    @property
    def type(self) -> ResourceType:
        return resource_type(self.definition)

    def parse(self, body: bytes) -> AnyAccount:
        return self.model.model_validate_json(body)

    def own(self, obj: AnyAccount) -> AnyAccount:
        """The same object: accounts record nothing that is paid for."""
        return obj

    def memory(self, uid: str) -> AccountMemory:
        return AccountMemory(uid)

    async def gather(self, turn: Turn, obj: AnyAccount, memory: AccountMemory) -> AccountFacts:
        state, metadata = await self.accounts.state(turn.key), obj.metadata
        deleting, ready = metadata.deletion_timestamp is not None, isinstance(state, AccountReady)
        if not isinstance(state, AccountReady):
            memory.unanswered = memory.unanswered + 1 if state.reason is Reason.CLOUD_UNAVAILABLE else 0
        heard = ready and self.engine.clock() >= memory.not_before
        look_due = heard and self._look_is_due(obj, state, memory)
        # Counting walks through all dependent objects, so count only for a decision or the status.
        in_use = self._in_use(turn.key) if deleting or look_due else Counter[str]()
        view = View(
            deleting=deleting,
            finalizer=meta.FINALIZER in metadata.finalizers,
            paused=metadata.held,
            in_use=self._is_held(turn.key, memory, used=in_use.total() > 0, deleting=deleting),
            usable=ready,
            reason=Reason.AVAILABLE if isinstance(state, AccountReady) else state.reason,
            refused=isinstance(state, AccountRefused),
            subscribed=obj.status.webhook is not None,
            look_due=look_due,
            glance_due=heard and self.engine.clock() >= memory.glance_at and self.accounts.short(turn.key),
            overdue=turn.now - (metadata.deletion_timestamp or turn.now) > _GIVE_UP,
        )
        return AccountFacts(turn.key, obj, turn.now, state, in_use, view)

    def _look_is_due(self, account: AnyAccount, state: AccountState, memory: AccountMemory) -> bool:
        asked = account.metadata.echo(meta.RECONCILE_AT) != account.status.reconcile_at
        changed = memory.looked != (account.metadata.generation, state)
        now = self.engine.clock()
        doubted = self.budgets.is_doubted(account.key) and now >= memory.recheck_at
        return asked or changed or doubted or now >= memory.look_at

    def _in_use(self, key: ObjectKey) -> Counter[str]:
        return Counter(dependent.kind for dependent, entry in self.engine.cache.users(key) if depends(key, entry))

    def _is_held(self, key: ObjectKey, memory: AccountMemory, *, used: bool, deleting: bool) -> bool:
        """Whether objects use the account, or late creates, which only its key can end, still hold it."""
        now = self.engine.clock()
        if used or not deleting or memory.alone_since is None:
            memory.alone_since = now
        return used or (now - memory.alone_since < _HOLD_SECONDS and bool(self._left(key, Fate.LATE)))

    def plan(self, facts: AccountFacts) -> Action:
        return plan(facts.view)

    def intent(self, facts: AccountFacts) -> CreateIntent | None:
        """None: an account never creates anything that is paid for."""
        return None

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
        """Read the balance, one request; if it rose, a look follows and reports it."""
        state, intervals = facts.usable, self.engine.intervals
        memory.glance_at = self.engine.clock() + _GLANCES * intervals.transition
        try:
            available = (await state.cloud.call(GET_BALANCE, large=True)).available_cents
        except CloudError as error:
            self.accounts.failed(state, error)
            self._heed(memory, error.retry_after)
            if isinstance(error, Forbidden):  # this key can never read the balance
                memory.glance_at = self.engine.clock() + intervals.settled
            return Nothing()
        rose = self.accounts.funds(facts.key, available)
        return await self._look(facts, memory, read_only=read_only) if rose else Nothing()

    async def _look(self, facts: AccountFacts, memory: AccountMemory, *, read_only: bool) -> Looked:
        """Look at the organization. After a while, a cloud that does not answer becomes a state of its own."""
        account, state, key = facts.account, facts.usable, facts.key
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
            memory.unanswered += 1
            self._heed(memory, error.retry_after)
            if not self.accounts.listens(key) and not self.accounts.deaf_for(state):
                memory.deaf = f"no subscription could be created yet: {error.message}"
            patient = memory.unanswered < self.settings.unavailable_after_failures
            return Looked(state if patient else AccountWaiting(Reason.CLOUD_UNAVAILABLE, error.message), None)
        memory.unanswered, memory.deaf = 0, ""
        self._heed(memory, seen.retry_after)
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
            pace = Backoff(intervals.transition, pace).after(memory.incomplete, self._random)
        now = self.engine.clock()
        memory.look_at = now + jittered(pace, intervals.jitter, self._random)
        memory.recheck_at = now + _GLANCES * intervals.transition
        if seen.balance is not None:
            self.accounts.funds(key, seen.balance.available_cents)
            burn = seen.usage.burn_per_hour_cents if seen.usage is not None else None
            floor = seen.usage.auto_stop_floor_cents if seen.usage is not None else None
            self.metrics.on_balance(key.namespace, key.name, seen.balance.available_cents, burn, floor)
        return Looked(state, seen)

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
        held = metadata.annotations.get(meta.API_KEY_SECRET)
        if held:
            try:
                await key_secret.release(self.engine.kube, metadata.namespace, held, metadata.uid)
            except Refused as refused:
                memory.unheld = _keeps_finalizer(held, refused)
                return Nothing()
        await finalizer.release(writer, metadata)
        return Ended()

    def tell(self, turn: Turn, facts: AccountFacts, action: Action, result: Result, memory: AccountMemory) -> Told:
        account, before, view = facts.account, facts.account.status, facts.view
        soon = self.engine.intervals.transition
        if isinstance(result, Ended):
            gone = Report(None, None, Reason.DELETING, "nothing depends on it: let go", Return.NEVER)
            return Told(before, before, gone, name="Release")
        ending = isinstance(action, End) and not memory.unheld
        if ending or isinstance(action, Ignore) or action == Wait(Reason.DELETING):
            return Told(before, before, _quietly(Reason.DELETING, "", soon, Priority.DELETE), name="Wait")
        state, seen = (result.state, result.seen) if isinstance(result, Looked) else (facts.state, None)
        finding = AccountFinding(
            state=state,
            who=self.accounts.whoami(facts.key),
            in_use=self._shown(facts.in_use),
            generation=account.metadata.generation,
            now=turn.now,
            failures=memory.unanswered,
            unavailable_after=self.settings.unavailable_after_failures,
            seen=seen,
            deleting=view.deleting,
            unheld=memory.unheld if isinstance(action, End) else "",
            ending_late=view.in_use and facts.in_use.total() == 0,
            # Only a look does what `reconcile-at` requests.
            reconcile_at=before.reconcile_at if seen is None else account.metadata.echo(meta.RECONCILE_AT),
            held=held_by(account.metadata) if view.paused else None,
            outdated=bool(turn.outdated),
            unclaimed=(*self.engine.vanished.of(facts.key), *self._left(facts.key, Fate.LATE))[:MAX_OWNERLESS],
            orphans=self._left(facts.key, Fate.ORPHAN),
            kept=self._left(facts.key, Fate.KEPT),
            deaf=memory.deaf,
            unrecorded=self.engine.vanished.trouble(facts.key),
        )
        after = new_status(before, finding)
        if isinstance(state, AccountReady):
            memory.unready = 0
            report = _quietly(Reason.AVAILABLE, "the account can be used", *self._next(facts, memory))
            return Told(before, after, report, name="Keep")
        memory.unready += 1
        report = _quietly(state.reason, state.message, *self._next(facts, memory))
        return Told(before, after, report, name="Stall" if isinstance(state, AccountRefused) else "Wait")

    def _next(self, facts: AccountFacts, memory: AccountMemory) -> tuple[float, Priority]:
        """When to look again without any event: at the latest when the Secret is due to be read again."""
        transition, reread = self.engine.intervals.transition, self.settings.secret_reread_seconds
        if facts.view.deleting:
            return transition, Priority.DELETE
        if self.engine.leftovers.untried(facts.key):
            return transition, Priority.RETRY
        tries = max(memory.unready, memory.unanswered, memory.incomplete)
        if tries:
            told = memory.not_before - self.engine.clock()
            return max(Backoff(transition, reread).after(tries, self._random), told), Priority.RETRY
        short, doubted = self.accounts.short(facts.key), self.budgets.is_doubted(facts.key)
        reads = [at for at, waits in ((memory.glance_at, short), (memory.recheck_at, doubted)) if waits]
        if reads:
            due = max(min(reads), memory.not_before) - self.engine.clock()
            return min(max(due, 0), reread), Priority.RETRY
        return jittered(reread, self.engine.intervals.jitter, self._random), Priority.POLL

    def _heed(self, memory: AccountMemory, retry_after: float | None) -> None:
        memory.not_before = self.engine.clock() + advised(retry_after, self.settings.backoff_max_seconds)

    def _left(self, key: ObjectKey, fate: Fate) -> tuple[Ownerless, ...]:
        records = (record for record in self.engine.leftovers.of(key) if record.fate is fate)
        return tuple(left_over(record) for record in islice(records, MAX_OWNERLESS))

    def _shown(self, in_use: Counter[str]) -> InUse:
        """`inUse` has a field for each kind that uses accounts, named like its plural."""
        fields = {name.replace("_", ""): name for name in InUse.model_fields}
        counts = {self.plurals[kind]: number for kind, number in in_use.items()}
        return InUse.model_validate({fields[plural]: number for plural, number in counts.items() if plural in fields})

    def paid(self, facts: AccountFacts, result: Result) -> None:
        """None: an account costs nothing."""

    def leaves(self, facts: AccountFacts) -> tuple[Left, ...]:
        return ()

    def unrecorded(self, result: Result, memory: AccountMemory, why: str) -> Result:
        """The same result: an account costs nothing."""
        return result

    async def forget(self, key: ObjectKey, memory: AccountMemory | None) -> None:
        """Forget an account that is gone, or is another operator's by now, which wakes the objects that use it here.

        Raises KubeError if the API server cannot be asked.
        """
        if memory is not None and self.engine.cache.get(key) is not None:
            await self.accounts.state(key)
        if memory is not None and memory.holds:
            # Somebody removed the account's finalizer by hand; its Secret must not stay behind undeletable.
            try:
                await key_secret.release(self.engine.kube, key.namespace, memory.holds, memory.uid)
            except Refused as refused:
                logger.warning("the Secret %s of %s may keep a finalizer: %s", memory.holds, key, refused)
        self.accounts.forget(key)
        self.budgets.forget(key)
        self.metrics.forget_account(key.namespace, key.name)

    def _fenced(self, facts: AccountFacts) -> Cloud:
        """The account's Cloud, which sends no change once people have written another account."""
        return facts.usable.cloud.guarded(fence(self.engine.cache, facts.key, facts.account.metadata, None))

    def _observer(self) -> AccountObserver:
        return AccountObserver(self.engine.kube, self.accounts, self.settings.webhook_public_url)

    @property
    def _random(self) -> Callable[[], float]:
        return self.engine.retry_policy.random


def _keeps_finalizer(secret: str, refused: Refused) -> str:
    return f"the Secret {secret} keeps a finalizer: {refused}"


def _quietly(reason: Reason, message: str, seconds: float, priority: Priority) -> Report:
    """A report for the log and the next pass only: the conditions show more than one reason."""
    return Report(None, None, reason, message, Return.NEVER, looks=((seconds, priority),))

"""The flow of account objects: key, money, subscription, and end."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from relay_kube.errors import Refused
from relay_kube.kube import ResourceType
from relay_operator.accounts import key_secret
from relay_operator.accounts.account_object import depends
from relay_operator.api import meta
from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.cloudaccount_status import MAX_OWNERLESS, InUse, Ownerless
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import Definition
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState
from relay_operator.engine.actions import Ignore, Wait
from relay_operator.engine.backoff import Backoff, jittered
from relay_operator.engine.flow import Flow, Turn
from relay_operator.engine.kind import resource_type
from relay_operator.engine.leftover import Fate
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return, Told
from relay_operator.flows.account.act import (
    AccountFacts,
    AccountMemory,
    Actor,
    Ended,
    Glanced,
    Looked,
    Result,
    is_asked,
)
from relay_operator.flows.account.plan import Action, End, View, plan
from relay_operator.flows.account.report import AccountFinding, OrganizationSeen, left_over, new_status

_GIVE_UP = timedelta(minutes=5)
"""How long the end of an account waits for a cloud that does not answer; a dead subscription costs nothing."""
_HOLD_SECONDS = timedelta(days=1).total_seconds()
"""How long late creates alone hold an account: the cloud may refuse to end them for ever."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AccountFlow(Flow[AnyAccount, AccountFacts, Action, Result, AccountMemory]):
    """The `Flow` of one of the two kinds of account."""

    definition: Definition
    model: type[AnyAccount]
    plurals: Mapping[str, str]
    """Plurals by kind, of the kinds that use accounts."""
    actor: Actor

    @property
    def type(self) -> ResourceType:
        return resource_type(self.definition)

    def parse(self, body: bytes) -> AnyAccount:
        return self.model.model_validate_json(body)

    def memory(self, uid: str) -> AccountMemory:
        return AccountMemory(uid)

    async def gather(self, turn: Turn, obj: AnyAccount, memory: AccountMemory) -> AccountFacts:
        state, metadata = await self.actor.accounts.state(turn.key), obj.metadata
        deleting, ready = metadata.deletion_timestamp is not None, isinstance(state, AccountReady)
        if not isinstance(state, AccountReady):
            memory.unanswered = memory.unanswered + 1 if state.reason is Reason.CLOUD_UNAVAILABLE else 0
        heard = isinstance(state, AccountReady) and (
            self.actor.engine.clock() >= memory.not_before or state.endpoints != memory.told_by
        )
        silent = isinstance(state, AccountReady) and self.actor.accounts.silent(state)
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
            glance_due=heard
            and self.actor.engine.clock() >= memory.glance_at
            and (silent or self.actor.accounts.short(turn.key)),
            silent=silent,
            overdue=turn.now - (metadata.deletion_timestamp or turn.now) > _GIVE_UP,
        )
        return AccountFacts(turn.key, obj, turn.now, state, in_use, view)

    def _look_is_due(self, account: AnyAccount, state: AccountState, memory: AccountMemory) -> bool:
        now = self.actor.engine.clock()
        asked = is_asked(account) and now >= memory.heed_at
        changed = memory.looked != (account.metadata.generation, state)
        doubted = self.actor.budgets.is_doubted(account.key) and now >= memory.recheck_at
        return asked or changed or doubted or now >= memory.look_at

    def _in_use(self, key: ObjectKey) -> Counter[str]:
        return Counter(dependent.kind for dependent, entry in self.actor.engine.cache.users(key) if depends(key, entry))

    def _all_go(self, key: ObjectKey) -> bool:
        users = self.actor.engine.cache.users(key)
        return all(entry.deleting for dependent, entry in users if depends(key, entry))

    def _is_held(self, key: ObjectKey, memory: AccountMemory, *, used: bool, deleting: bool) -> bool:
        """Whether objects use the account, or late creates, which only its key can end, still hold it."""
        now = self.actor.engine.clock()
        if used or not deleting or memory.alone_since is None:
            memory.alone_since = now
        return used or (now - memory.alone_since < _HOLD_SECONDS and bool(self._left(key, Fate.LATE)))

    def plan(self, facts: AccountFacts) -> Action:
        return plan(facts.view)

    async def act(self, facts: AccountFacts, action: Action, memory: AccountMemory, writer: ObjectWriter) -> Result:
        return await self.actor.act(facts, action, memory, writer)

    def tell(self, turn: Turn, facts: AccountFacts, action: Action, result: Result, memory: AccountMemory) -> Told:
        before = facts.account.status
        soon = self.actor.engine.intervals.transition
        if isinstance(result, Ended):
            gone = Report(None, None, Reason.DELETING, "nothing depends on it: let go", Return.NEVER)
            return Told(before, before, gone, name="Release")
        ending = isinstance(action, End) and not memory.unheld
        if ending or isinstance(action, Ignore) or action == Wait(Reason.DELETING):
            return Told(before, before, _quietly(Reason.DELETING, "", soon, Priority.DELETE), name="Wait")
        state, seen = (result.state, result.seen) if isinstance(result, Looked) else (facts.state, None)
        finding = AccountFinding(
            account=facts.account,
            state=state,
            who=self.actor.accounts.whoami(facts.key),
            in_use=self._shown(facts.in_use),
            now=turn.now,
            failures=memory.unanswered,
            unavailable_after=self.actor.settings.unavailable_after_failures,
            seen=seen,
            glimpse=OrganizationSeen(result.balance) if isinstance(result, Glanced) else None,
            unheld=memory.unheld if isinstance(action, End) else "",
            all_going=self._all_go(facts.key) if facts.view.deleting else False,
            ending_late=facts.view.in_use and facts.in_use.total() == 0,
            outdated=bool(turn.outdated),
            unclaimed=(*self.actor.engine.vanished.of(facts.key), *self._left(facts.key, Fate.LATE))[:MAX_OWNERLESS],
            orphans=self._left(facts.key, Fate.ORPHAN),
            kept=self._left(facts.key, Fate.KEPT),
            deaf=memory.deaf,
            unrecorded=self.actor.engine.vanished.trouble(facts.key),
        )
        after = new_status(finding)
        if isinstance(state, AccountReady):
            memory.unready = 0
            report = _quietly(Reason.AVAILABLE, "the account can be used", *self._next(facts, memory))
            return Told(before, after, report, name="Keep")
        memory.unready += 1
        report = _quietly(state.reason, state.message, *self._next(facts, memory))
        return Told(before, after, report, name="Stall" if isinstance(state, AccountRefused) else "Wait")

    def _next(self, facts: AccountFacts, memory: AccountMemory) -> tuple[float, Priority]:
        """When to look again without any event: at the latest when the Secret is due to be read again."""
        engine, reread = self.actor.engine, self.actor.settings.secret_reread_seconds
        transition, random = engine.intervals.transition, engine.retry_policy.random
        if facts.view.deleting:
            return transition, Priority.DELETE
        if engine.leftovers.untried(facts.key):
            return transition, Priority.RETRY
        if tries := max(memory.unready, memory.unanswered, memory.incomplete):
            told = memory.not_before - engine.clock()
            return max(Backoff(transition, reread).after(tries, random), told), Priority.RETRY
        short, doubted = self.actor.accounts.short(facts.key), self.actor.budgets.is_doubted(facts.key)
        asked = is_asked(facts.account) and not facts.view.look_due
        wanted = (
            (memory.glance_at, short or facts.view.silent),
            (memory.recheck_at, doubted),
            (memory.heed_at, asked),
        )
        if reads := [at for at, waits in wanted if waits]:
            due = max(min(reads), memory.not_before) - engine.clock()
            return min(max(due, 0), reread), Priority.RETRY
        return jittered(reread, engine.intervals.jitter, random), Priority.POLL

    def _left(self, key: ObjectKey, fate: Fate) -> tuple[Ownerless, ...]:
        records = (record for record in self.actor.engine.leftovers.of(key) if record.fate is fate)
        return tuple(left_over(record) for record in islice(records, MAX_OWNERLESS))

    def _shown(self, in_use: Counter[str]) -> InUse:
        """`inUse` has a field for each kind that uses accounts, named like its plural."""
        fields = {name.replace("_", ""): name for name in InUse.model_fields}
        counts = {self.plurals[kind]: number for kind, number in in_use.items()}
        return InUse.model_validate({fields[plural]: number for plural, number in counts.items() if plural in fields})

    async def forget(self, key: ObjectKey, memory: AccountMemory | None) -> None:
        """Forget an account that is gone, or is another operator's by now, which wakes the objects that use it here.

        Raises KubeError if the API server cannot be asked.
        """
        if memory is not None and self.actor.engine.cache.get(key) is not None:
            await self.actor.accounts.state(key)
        if memory is not None and memory.holds:
            # Somebody removed the account's finalizer by hand; its Secret must not stay behind undeletable.
            try:
                await key_secret.release(self.actor.engine.kube, key.namespace, memory.holds, memory.uid)
            except Refused as refused:
                logger.warning("the Secret %s of %s may keep a finalizer: %s", memory.holds, key, refused)
        self.actor.accounts.forget(key)
        self.actor.budgets.forget(key)
        self.actor.metrics.forget_account(key.namespace, key.name)


def _quietly(reason: Reason, message: str, seconds: float, priority: Priority) -> Report:
    """A report for the log and the next pass only: the conditions show more than one reason."""
    return Report(None, None, reason, message, Return.NEVER, looks=((seconds, priority),))

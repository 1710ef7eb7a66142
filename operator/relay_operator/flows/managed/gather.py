"""The one place that reads: object, account, cloud and inputs become `Facts`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Generic

from relay_client.errors import CloudError
from relay_operator.api import meta
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, Identity, MalformedIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import (
    NOT_ASKED,
    AccountReady,
    AccountRefused,
    Accounts,
    AccountWaiting,
    elsewhere,
    identity_in,
    not_served,
    pinned,
)
from relay_operator.engine.actions import Stall, Wait
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, gave
from relay_operator.engine.rules import Account
from relay_operator.flows.managed import links, predicates
from relay_operator.flows.managed.abilities import nameless, shown_once
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import STUCK, former, is_full
from relay_operator.flows.managed.former_look import FormerLooker
from relay_operator.flows.managed.funding import Ahead, Funding
from relay_operator.flows.managed.gates import Gated, Gates
from relay_operator.flows.managed.given import Given, GivenLooker
from relay_operator.flows.managed.inputs import InputReader
from relay_operator.flows.managed.links import Links
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.resource import Change, ExternalResource, ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.shown_once import NOT_KEPT, Kept, Life, ValueKeeper, value_of
from relay_operator.flows.managed.step import Step, ahead_of, step_of
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.unseen import Unseen
from relay_operator.flows.managed.view import Demand, Difference, Former, Gate, Seen, Undecided, Value, View

_PASSING = frozenset(
    {
        Reason.ACCOUNT_FORBIDDEN,
        Reason.ACCOUNT_UNAUTHORIZED,
        Reason.CLOUD_UNAVAILABLE,
        Reason.SECRET_MISSING,
        Reason.SPEC_INVALID,
    }
)
"""Reasons for which none of the objects that use an account can ask for anything."""
_LOOKS = 3
"""Looks in a row without an answer for which an object keeps its place in the budgets' lines."""


_MAY_END = frozenset({Gate.OPEN, Gate.LATER})
"""Gates through which a resource is ended so that another can take its place."""


@dataclass(slots=True)
class _Prospect:
    """What would be done next, as far as neither budgets nor former resources decide it."""

    undecided: Undecided
    gated: Gated
    given: Given
    value: Value
    kept: Kept
    step: Step
    linked: Links
    sent: str
    """The name of a change that was sent, and is not shown yet."""
    ahead: Ahead


@dataclass(slots=True)
class Gatherer(Generic[SpecT, StatusT, ObsT]):
    """Gathers the facts of one kind's objects."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    accounts: Accounts
    cache: Cache
    inputs: InputReader
    values: ValueKeeper
    funding: Funding[SpecT, StatusT, ObsT]
    clock: Callable[[], float]
    delays: ConfirmationDelays
    installation: Installation
    longest_wait: timedelta
    """The longest that a refused attempt waits."""
    disabled: bool = False
    """Whether the kind is disabled: its objects can only be ended."""
    looker: Looker[SpecT, StatusT, ObsT] = field(init=False)
    former_looker: FormerLooker[SpecT, StatusT, ObsT] = field(init=False)
    given: GivenLooker[SpecT, StatusT, ObsT] = field(init=False)
    gates: Gates = field(init=False)
    unseen: Unseen[SpecT, StatusT, ObsT] = field(init=False)

    def __post_init__(self) -> None:
        self.looker = Looker(self.resource, self.cache, self.clock, self.delays, self.installation)
        self.former_looker = FormerLooker(self.looker, self.accounts, self.longest_wait)
        self.given = GivenLooker(self.resource, self.cache, self.inputs, self.funding)
        self.gates = Gates(self.accounts, self.cache, self.longest_wait)
        self.unseen = Unseen(self.looker)

    async def gather(
        self, turn: Turn, obj: Resource[SpecT, StatusT], memory: ManagedMemory
    ) -> Facts[SpecT, StatusT, ObsT]:
        """The facts; at most one look at the cloud, unless an adoption, a search or a former resource needs more."""
        self.cache.unclaim(turn.key)  # a claim lasts for one pass
        facts = await self._gather(turn, obj, memory)
        if facts.funded.asked and facts.funded.refusal is not None:
            memory.full = (0, 0)  # the first model may fit the limits sooner than this one
        if _cannot_ask(facts):
            self.funding.budgets.written(turn.key)
        elif not facts.funded.asked:
            self.funding.budgets.leave(turn.key)
        return facts

    async def _gather(
        self, turn: Turn, obj: Resource[SpecT, StatusT], memory: ManagedMemory
    ) -> Facts[SpecT, StatusT, ObsT]:
        intent = CreateIntent.parse(obj.metadata.annotations.get(meta.CREATE_INTENT))
        known = intent if isinstance(intent, CreateIntent) else None
        demand = predicates.demand(obj)
        ending = demand is not Demand.EXIST
        let_go = demand is Demand.DELETE_ABANDONING or (ending and meta.FINALIZER not in obj.metadata.finalizers)
        # Without an id of its own, a look could only find what may be taken over, and nothing is.
        known_id = obj.status.id and not self.looker.is_restored(obj) and demand is not Demand.DELETE_ORPHANING
        if let_go or (self.disabled and not ending) or (obj.metadata.paused and not known_id):
            return self._unread(turn, obj, known, NOT_ASKED)

        has = obj.status.id or former(obj.status)
        recorded = obj.status.account if has else None
        sent = known if predicates.intent_open(obj, intent) else None
        ref = pinned(obj.spec.account_ref, recorded, sent)
        account = await self.accounts.resolve(obj.metadata.namespace, ref, ending=ending and self._made_all(obj, sent))
        if not isinstance(account, AccountReady):
            seen = Seen.BLIND if has or predicates.intent_open(obj, intent) else Seen.NOTHING
            return self._unread(turn, obj, known, account, seen)

        named = obj.status.identity if has else sent.identity if sent is not None else None
        scopes = () if ending else self.resource.scopes(obj)
        # What has an id or a name can be looked for by any URL; that it is not found by another one proves nothing.
        searched = obj.status.id or (sent is not None and not nameless(self.resource))
        subject = Subject(turn, obj, account, memory)
        called = None if searched else subject.endpoint
        refused = elsewhere(named, account, called) or not_served(turn.key, account, ending=ending, scopes=scopes)
        if refused is not None:
            return self._unread(turn, obj, known, refused)
        sight: Sight[ObsT]
        try:
            sight = await self.looker.look(subject, intent)
        except CloudError as error:
            self.accounts.failed(account, error)
            memory.unanswered += 1
            sight = Sight(Seen.BLIND, error=error)  # `Sight[ObsT](...)` fails: the class is frozen, with slots
        else:
            memory.unanswered = 0
            memory.silent = None
        return await self._facts(subject, intent, sight)

    def _unread(
        self,
        turn: Turn,
        obj: Resource[SpecT, StatusT],
        intent: CreateIntent | None,
        account: AccountWaiting | AccountRefused,
        seen: Seen = Seen.BLIND,
    ) -> Facts[SpecT, StatusT, ObsT]:
        """The facts of a pass that does not look at the cloud."""
        view = View(
            demand=predicates.demand(obj),
            finalizer=meta.FINALIZER in obj.metadata.finalizers,
            paused=obj.metadata.paused,
            disabled=self.disabled,
            account=Account.of(account),
            seen=seen,
        )
        return Facts(self.resource, turn.key, obj, turn.now, account, view, intent)

    def _made_all(self, obj: Resource[SpecT, StatusT], sent: CreateIntent | None) -> bool:
        """Whether the object gave every name that it records, so that it made what the cloud shows under these names.

        The API server chooses the UID, which is in the name. So whoever writes a status or an intent by hand can name
        no resource of another object.
        """
        names = [row.name for row in former(obj.status)]
        if obj.status.id:
            names.append(obj.status.cloud_name or "")
        if sent is not None:
            names.append(sent.name)
        return not nameless(self.resource) and all(
            gave(obj.metadata, obj.metadata.uid, self.installation.name, name) for name in names
        )

    async def _facts(
        self,
        subject: Subject[SpecT, StatusT],
        intent: CreateIntent | MalformedIntent | None,
        sight: Sight[ObsT],
    ) -> Facts[SpecT, StatusT, ObsT]:
        turn, obj = subject.turn, subject.obj
        known = intent if isinstance(intent, CreateIntent) else None
        undecided = predicates.undecided(self.resource, obj, intent, subject.account)
        prospect = await self._prospect(subject, known, sight, undecided)
        gated, given, step = prospect.gated, prospect.given, prospect.step
        funded = await self.funding.look(subject, known, sight.observed, given.inputs.model_id, prospect.ahead)
        aside = await self.former_looker.look(subject, sight, step.difference)
        used = self._used(turn.key, predicates.demand(obj))
        view = self._view(subject, sight, prospect, funded.refusal, aside.standing, in_use=bool(used))
        return Facts(
            resource=self.resource,
            key=turn.key,
            obj=obj,
            now=turn.now,
            account=subject.account,
            view=view,
            intent=known,
            observed=sight.observed,
            error=sight.error,
            note=prospect.kept.taken or funded.note or gated.note or step.differs,
            related=prospect.linked.message,
            here=self._here(subject),
            used=used,
            change=step.change,
            former=aside.row,
            serving=aside.serving,
            inputs=given.inputs,
            models=given.models,
            funded_since=self._funded_since(subject),
            full=given.full,
            kept=prospect.kept,
            env_digest=given.digest,
            unanswered=subject.memory.unanswered,
            exact=turn.exact,
            decided_in=gated.decided_in,
            funded=funded,
            outdated=turn.outdated,
        )

    async def _prospect(
        self,
        subject: Subject[SpecT, StatusT],
        intent: CreateIntent | None,
        sight: Sight[ObsT],
        undecided: Undecided,
    ) -> _Prospect:
        obj = subject.obj
        resend = sight.seen is Seen.UNKNOWABLE and undecided is Undecided.RESEND
        missing = sight.seen is Seen.NOTHING or resend
        gated = self.gates.look(subject, sight, missing=missing)
        wanted = missing and gated.gate is Gate.OPEN
        given = await self.given.look(subject, sight, wanted=wanted)
        value, kept = await self._value(subject, sight, wanted=wanted)
        step = step_of(self.resource, subject, sight, intent, given.digest, given.linked.ids)
        creates_next = missing or step.beside or step.difference is Difference.SUPERSEDED
        if (gated.gate is Gate.OPEN and creates_next) or (gated.gate in _MAY_END and step.ends_first):
            if unfit := self.gates.unfit(subject.account):
                gated = unfit
            elif unusable := given.unusable(self.resource, obj):
                gated = replace(gated, gate=Gate.ENV_MISSING, note=unusable)
        change = step.change or self.unseen.stop(subject, sight)
        step = replace(step, ends_first=step.ends_first and gated.gate in _MAY_END, change=change)
        linked = self.given.links(subject, anew=True) if step.beside or step.ends_first else given.linked
        sent = self._sent(subject, change) if sight.observed is not None else ""
        creates = (missing or step.beside) and gated.gate is Gate.OPEN and linked.unmet is None
        ahead = ahead_of(step, obj, sight.seen, gated.gate, creates=creates, sent=bool(sent))
        return _Prospect(undecided, gated, given, value, kept, step, linked, sent, ahead)

    def _view(
        self,
        subject: Subject[SpecT, StatusT],
        sight: Sight[ObsT],
        prospect: _Prospect,
        unfunded: Wait | Stall | None,
        former: Former,
        *,
        in_use: bool,
    ) -> View:
        obj, step = subject.obj, prospect.step
        return View(
            demand=predicates.demand(obj),
            finalizer=meta.FINALIZER in obj.metadata.finalizers,
            paused=obj.metadata.paused,
            plan_only=obj.metadata.plan_only,
            seen=sight.seen,
            gate=prospect.gated.gate,
            undecided=prospect.undecided,
            recovery=step.recovery,
            end_asked=predicates.end_asked(self.resource, obj),
            may_run=sight.observed is not None and predicates.may_run(self.resource, obj, sight.observed),
            held_back=step.held_back,
            replacing=bool(obj.status.replacing),
            unended=self.unseen.unended(subject, sight),
            difference=step.difference,
            expired=predicates.expired(obj, sight.seen, subject.turn.now),
            change=prospect.ahead.change,
            sent=prospect.sent,
            unfunded=unfunded,
            value=prospect.value,
            unmet=prospect.linked.unmet,
            in_use=in_use,
            former=former,
        )

    def _funded_since(self, subject: Subject[SpecT, StatusT]) -> bool:
        """Whether the account was seen to have funds after the resource was seen to be stopped."""
        now, age = subject.turn.now, self.accounts.seen_funded(subject.account)
        return age is not None and age < (now - predicates.since_in(subject.obj, "stopped", now)).total_seconds()

    def _here(self, subject: Subject[SpecT, StatusT]) -> Identity | None:
        """The identity to record if the cloud shows the resource by another URL, or an early release recorded none."""
        status, recorded = subject.obj.status, subject.obj.status.identity
        if not status.id or (recorded is not None and recorded.endpoint == subject.endpoint):
            return None
        if recorded is not None:
            return recorded.model_copy(update={"endpoint": subject.endpoint})
        return identity_in(subject.account, subject.obj.metadata, subject.key.kind, self.installation.name)

    async def _value(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT], *, wanted: bool) -> tuple[Value, Kept]:
        """The state of a value that is shown once, and its Secret, with why it cannot be kept or replaced."""
        resource, turn, obj = self.resource, subject.turn, subject.obj
        found = sight.seen is Seen.FOUND and not obj.status.id
        looked = wanted or found or sight.seen is Seen.READY
        if not shown_once(resource) or predicates.demand(obj) is not Demand.EXIST or not looked:
            return Value.NONE, NOT_KEPT
        kept = await self.values.look(turn.key, obj.metadata.uid, resource.kept_in(obj))
        cloud_id = "" if sight.observed is None else self.resource.identity(sight.observed)[0]
        if found and subject.memory.shown.cloud_id == cloud_id:
            kept = replace(kept, value_of=cloud_id)
        life = Life() if found else resource.life(obj.spec, obj.status)
        value = value_of(kept, cloud_id, life, predicates.created_at(obj, turn.now), turn.now)
        if value in {Value.LOST, Value.DUE} and sight.seen is Seen.READY and is_full(obj.status):
            return Value.STUCK, replace(kept, taken=STUCK)
        return value, kept

    def _used(self, key: ObjectKey, demand: Demand) -> str:
        """Why the resource has to stay, or to run on; empty if it need not."""
        if self.resource.is_source:
            return links.made_of(self.cache, key)
        return links.users(self.cache, key) if demand is not Demand.EXIST else ""

    def _sent(self, subject: Subject[SpecT, StatusT], change: Change | None) -> str:
        """The name of a change that was sent lately and is not shown yet; empty if another one is desired by now."""
        sent, obj = subject.memory.sent, subject.obj
        if sent is None:
            return ""
        asked = predicates.demand(obj) is not Demand.EXIST or (
            change is not None and (change.name, change.to) == (sent.name, sent.to)
        )
        if asked and sent.cloud_id == obj.status.id and self.clock() - sent.at < self.delays.change:
            return sent.name
        subject.memory.sent = None
        return ""


def _cannot_ask(facts: Facts[SpecT, StatusT, ObsT]) -> bool:
    """Whether this pass says nothing about what the object needs: it keeps its place in the budgets' lines."""
    if facts.view.deleting:
        return False
    if isinstance(facts.account, AccountReady):
        return facts.error is not None and facts.unanswered <= _LOOKS
    return facts.account.reason in _PASSING

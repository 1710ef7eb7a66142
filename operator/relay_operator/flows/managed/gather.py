"""The one place that reads: object, account, cloud and inputs become `Facts`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Generic

from relay_client.errors import CloudError, CloudUnavailable, Unreadable
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
    moved,
    not_served,
    pinned,
    unguarded,
)
from relay_operator.engine.cache import Cache
from relay_operator.engine.conditions import is_unfunded
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, gave
from relay_operator.engine.rules import Account
from relay_operator.flows.managed import links, predicates, recovery, schedule
from relay_operator.flows.managed.abilities import nameless, shown_once
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import STUCK, former, is_full
from relay_operator.flows.managed.former_look import FormerLooker
from relay_operator.flows.managed.funding import Funding
from relay_operator.flows.managed.given import GivenLooker
from relay_operator.flows.managed.inputs import InputReader
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.resource import Change, ExternalResource, ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.shown_once import NOT_KEPT, Kept, Life, ValueKeeper, value_of
from relay_operator.flows.managed.step import ahead_of, step_of
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Demand, Difference, Gate, Seen, Undecided, Value, View

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
_NOT_SHOWN = frozenset({Seen.MISSING, Seen.GONE})
_LOOKS = 3
"""Looks in a row without an answer for which an object keeps its place in the budgets' lines."""


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

    def __post_init__(self) -> None:
        self.looker = Looker(self.resource, self.cache, self.clock, self.delays, self.installation)
        self.former_looker = FormerLooker(self.looker, self.accounts, self.longest_wait)
        self.given = GivenLooker(self.resource, self.cache, self.inputs, self.funding)

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
            memory.silent = False
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
        turn, obj, account = subject.turn, subject.obj, subject.account
        demand, known = predicates.demand(obj), intent if isinstance(intent, CreateIntent) else None
        undecided = predicates.undecided(self.resource, obj, intent, account)
        resend = sight.seen is Seen.UNKNOWABLE and undecided is Undecided.RESEND
        missing = sight.seen is Seen.NOTHING or resend
        gate, note, decided_in = self._gated(subject, sight, missing=missing)
        wanted = missing and gate is Gate.OPEN
        given = await self.given.look(subject, sight, wanted=wanted)
        value, kept = await self._value(subject, sight, wanted=wanted)
        step = step_of(self.resource, subject, sight, known, given.digest, given.linked.ids)
        creates_next = missing or step.beside or step.difference is Difference.SUPERSEDED
        if (gate is Gate.OPEN and creates_next) or (gate in {Gate.OPEN, Gate.LATER} and step.ends_first):
            if unfit := self._unfit(account):
                gate, note, decided_in = Gate.ACCOUNT_UNFIT, *unfit
            elif unusable := given.unusable(self.resource, obj):
                gate, note = Gate.ENV_MISSING, unusable
        step = replace(step, ends_first=step.ends_first and gate in {Gate.OPEN, Gate.LATER})
        linked = self.given.links(subject, anew=True) if step.beside or step.ends_first else given.linked
        sent = self._sent(subject, step.change) if sight.observed is not None else ""
        creates = (missing or step.beside) and gate is Gate.OPEN and linked.unmet is None
        ahead = ahead_of(step, obj, sight.seen, gate, creates=creates, sent=bool(sent))
        funded = await self.funding.look(subject, known, sight.observed, given.inputs.model_id, ahead)
        aside = await self.former_looker.look(subject, sight, step.difference)
        used = self._used(turn.key, demand)
        view = View(
            demand=demand,
            finalizer=meta.FINALIZER in obj.metadata.finalizers,
            paused=obj.metadata.paused,
            plan_only=obj.metadata.plan_only,
            seen=sight.seen,
            gate=gate,
            undecided=undecided,
            recovery=step.recovery,
            end_asked=predicates.end_asked(self.resource, obj),
            may_run=sight.observed is not None and predicates.may_run(self.resource, obj, sight.observed),
            held_back=step.held_back,
            replacing=bool(obj.status.replacing),
            unended=account.admits and self._unended(subject, sight),
            difference=step.difference,
            expired=predicates.expired(obj, sight.seen, turn.now),
            change=ahead.change,
            sent=sent,
            unfunded=funded.refusal,
            value=value,
            unmet=linked.unmet,
            in_use=bool(used),
            former=aside.standing,
        )
        return Facts(
            resource=self.resource,
            key=turn.key,
            obj=obj,
            now=turn.now,
            account=account,
            view=view,
            intent=known,
            observed=sight.observed,
            error=sight.error,
            note=kept.taken or funded.note or note or step.differs,
            related=linked.message,
            here=self._here(subject),
            used=used,
            change=step.change,
            former=aside.row,
            serving=aside.serving,
            inputs=given.inputs,
            models=given.models,
            funded_since=self._funded_since(subject),
            full=given.full,
            kept=kept,
            env_digest=given.digest,
            unanswered=subject.memory.unanswered,
            exact=turn.exact,
            decided_in=decided_in,
            funded=funded,
            outdated=turn.outdated,
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

    def _gated(
        self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT], *, missing: bool
    ) -> tuple[Gate, str, float | None]:
        """The gate as far as it depends on no input, with a note, and the seconds until a look can tell more."""
        turn, obj = subject.turn, subject.obj
        gate, note = self._gate(subject), sight.note
        if predicates.demand(obj) is Demand.EXIST and (held := schedule.gate(obj.spec, sight.seen, turn.now)):
            gate, note = held
        if turn.outdated and (gate is not Gate.LATER or sight.seen in {Seen.NOTHING, Seen.UNKNOWABLE}):
            return Gate.OUTDATED, note, sight.decided_in
        if not missing or gate is not Gate.OPEN:
            return gate, note, sight.decided_in
        unfit = self._unfit(subject.account)
        return (gate, note, sight.decided_in) if unfit is None else (Gate.ACCOUNT_UNFIT, *unfit)

    def _unfit(self, account: AccountReady) -> tuple[str, float | None] | None:
        """Why nothing is created with the account now, and the seconds until a look can tell more; None if it may."""
        if told := unguarded(account.key, self.cache.get(account.key)):
            return told, None
        if deaf_for := self.accounts.deaf_for(account):
            return (
                f"{account.key} is being subscribed to the cloud's webhooks; nothing is created before that",
                deaf_for,
            )
        return None

    def _gate(self, subject: Subject[SpecT, StatusT]) -> Gate:
        """The gate of the next attempt: a wait ends once the account has more funds, another key, or another spec.

        These may allow what was refused. If an earlier process was refused for lack of funds, this one tries again at
        once, since it does not know of that.
        """
        obj, account, memory = subject.obj, subject.account, subject.memory
        same, longest = memory.account in (None, account), max(self.longest_wait, recovery.LONGEST_WAIT)
        memory.account = account
        memory.unended = memory.unended if same else ()
        funded = is_unfunded(obj.status.conditions) and not self.accounts.lacks_funds(account, subject.key)
        return Gate.OPEN if funded or not same else predicates.gate(obj, subject.turn.now, longest)

    def _unended(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT]) -> bool:
        """Whether the cloud does not show the resource, and this process has not told it to end it.

        Where only a list shows it, this holds however long the list has lacked it; elsewhere, until status says that
        it is gone. If the account does not admit the namespace, only the resource's name proves whose it is, so that
        what is not shown is not ended.
        A look that failed shows nothing, either: what this process has seen before in this cloud is then ended, and
        told so once where the cloud does not answer that, either. What was shown last as another's is not ended.
        """
        obj, memory = subject.obj, subject.memory
        if sight.observed is not None or obj.status.id in {memory.terminated[0], memory.foreign}:
            return False
        if isinstance(sight.error, CloudUnavailable | Unreadable):
            seen_before = memory.known[0] != "" and memory.known[0] == obj.status.id
            here = not moved(obj.status.identity, subject.endpoint) and not self.looker.is_restored(obj)
            return seen_before and here and not memory.silent
        told = obj.status.state == "terminated" and not self.resource.only_listed
        return sight.seen in ({Seen.MISSING} if told else _NOT_SHOWN)

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

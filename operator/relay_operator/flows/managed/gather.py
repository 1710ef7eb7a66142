"""The one place that looks: object, account, cloud and inputs become `Facts`. Reads only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic

from relay_client.errors import CloudError
from relay_operator.api import meta
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import NOT_ASKED, AccountReady, Accounts, elsewhere, not_served, pinned
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation
from relay_operator.engine.rules import Account
from relay_operator.flows.managed import links, predicates, recovery
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.inputs import InputReader, MissingInput, ReadInputs
from relay_operator.flows.managed.links import Links
from relay_operator.flows.managed.look import Looker, Sight
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.plan import Demand, Gate, Seen, Undecided, View
from relay_operator.flows.managed.resource import (
    Change,
    ExternalResource,
    InputRefs,
    Inputs,
    Look,
    ObsT,
    checks_inputs,
    refers,
    takes_inputs,
)


@dataclass(slots=True)
class Gatherer(Generic[SpecT, StatusT, ObsT]):
    """Gathers the facts of one kind's objects."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    accounts: Accounts
    cache: Cache
    inputs: InputReader
    clock: Callable[[], float]
    delays: ConfirmationDelays
    installation: Installation
    looker: Looker[SpecT, StatusT, ObsT] = field(init=False)

    def __post_init__(self) -> None:
        self.looker = Looker(self.resource, self.cache, self.clock, self.delays, self.installation)

    async def gather(
        self, turn: Turn, obj: Resource[SpecT, StatusT], memory: ManagedMemory
    ) -> Facts[SpecT, StatusT, ObsT]:
        """At most one look at the cloud, unless an adoption or a search needs more."""
        key, now, look = turn.key, turn.now, Look.EXACT if turn.exact else Look.ROUTINE
        intent = CreateIntent.parse(obj.metadata.annotations.get(meta.CREATE_INTENT))
        known = intent if isinstance(intent, CreateIntent) else None
        demand, finalizer, paused = (
            predicates.demand(obj),
            meta.FINALIZER in obj.metadata.finalizers,
            obj.metadata.paused,
        )
        unread = View(demand=demand, finalizer=finalizer, paused=paused, seen=Seen.BLIND)
        if paused or demand is Demand.DELETE_ABANDONING or (unread.deleting and not finalizer):
            return Facts(self.resource, key, obj, now, NOT_ASKED, unread, known)

        recorded = obj.status.account if obj.status.id else None
        sent = known if predicates.intent_open(obj, intent) else None
        ref = pinned(obj.spec.account_ref, recorded, sent)
        account = await self.accounts.resolve(obj.metadata.namespace, ref)
        if not isinstance(account, AccountReady):
            seen = Seen.BLIND if obj.status.id or predicates.intent_open(obj, intent) else Seen.NOTHING
            view = View(demand=demand, finalizer=finalizer, account=Account.of(account), seen=seen)
            return Facts(self.resource, key, obj, now, account, view, known)

        named = obj.status.identity if obj.status.id else sent.identity if sent is not None else None
        refused = elsewhere(named, account) or not_served(key, account, ending=demand is not Demand.EXIST)
        if refused is not None:
            view = View(demand=demand, finalizer=finalizer, account=Account.of(refused), seen=Seen.BLIND)
            return Facts(self.resource, key, obj, now, refused, view, known)

        sight: Sight[ObsT]
        try:
            sight = await self.looker.look(key, obj, intent, account, memory, now, look)
        except CloudError as error:
            self.accounts.failed(account, error)
            memory.unanswered += 1
            sight = Sight(Seen.BLIND, error=error)  # `Sight[ObsT](...)` cannot be: frozen, and with slots
        else:
            memory.unanswered = 0
        return await self._facts(turn, obj, intent, account, memory, sight)

    async def _facts(
        self,
        turn: Turn,
        obj: Resource[SpecT, StatusT],
        intent: CreateIntent | MalformedIntent | None,
        account: AccountReady,
        memory: ManagedMemory,
        sight: Sight[ObsT],
    ) -> Facts[SpecT, StatusT, ObsT]:
        read: ReadInputs | MissingInput | None = None
        now, demand = turn.now, predicates.demand(obj)
        gate, note, decided_in = _gate(obj, account, memory, now), sight.note, sight.decided_in
        refs = self.resource.input_refs(obj) if takes_inputs(self.resource) else InputRefs()
        undecided = predicates.undecided(obj, intent, account)
        resend = sight.seen is Seen.UNKNOWABLE and undecided is Undecided.RESEND
        wanted = gate is Gate.OPEN and (sight.seen is Seen.NOTHING or resend)
        deaf_for = self.accounts.deaf_for(account) if wanted else 0.0
        if turn.outdated and (gate is not Gate.LATER or sight.seen in {Seen.NOTHING, Seen.UNKNOWABLE}):
            gate, wanted = Gate.OUTDATED, False
        elif deaf_for > 0:
            gate, wanted, decided_in = Gate.DEAF, False, deaf_for
            note = f"{account.key} is being subscribed to the cloud's webhooks: nothing is created unheard"
        if demand is Demand.EXIST and (wanted or (refs.any and sight.observed is not None)):
            read = await self.inputs.read(obj.metadata.namespace, refs, obj.metadata.uid, memory)
        linked = self._links(turn.key, obj)
        inputs = _inputs(
            read, linked, predicates.model_id(predicates.models_of(self.resource, obj), obj.status.failures)
        )
        unusable = _unusable(self.resource, obj, read, inputs) if wanted else None
        if unusable:
            gate, note = Gate.ENV_MISSING, unusable
        digest = read.digest if isinstance(read, ReadInputs) else ""
        known = intent if isinstance(intent, CreateIntent) else None
        difference, change, differs = predicates.difference(
            self.resource, obj, sight.observed, known, digest, now, linked.ids
        )
        used = links.users(self.cache, turn.key) if demand is not Demand.EXIST else ""
        asked = recovery.recovery(obj, sight.seen, now)
        view = View(
            demand=demand,
            finalizer=meta.FINALIZER in obj.metadata.finalizers,
            seen=sight.seen,
            gate=gate,
            undecided=undecided,
            recovery=asked,
            held_back=recovery.held_back(obj, sight.seen, asked, difference, now),
            replacing=bool(obj.status.replacing),
            difference=difference,
            expired=predicates.expired(obj, sight.seen, now),
            change=change.name if change is not None else "",
            sent=self._sent(obj, change, memory),
            unmet=linked.unmet,
            in_use=bool(used),
        )
        return Facts(
            resource=self.resource,
            key=turn.key,
            obj=obj,
            now=now,
            account=account,
            view=view,
            intent=known,
            observed=sight.observed,
            error=sight.error,
            note=note or differs,
            related=used or linked.message,
            change=change,
            inputs=inputs,
            env_digest=digest,
            unanswered=memory.unanswered,
            exact=turn.exact,
            decided_in=decided_in,
            outdated=turn.outdated,
        )

    def _links(self, key: ObjectKey, obj: Resource[SpecT, StatusT]) -> Links:
        if not refers(self.resource) or predicates.demand(obj) is not Demand.EXIST:
            return Links()
        given = frozenset((each.kind, each.name) for each in obj.status.references or ())
        return links.links(self.cache, key, self.resource.references(obj), given)

    def _sent(self, obj: Resource[SpecT, StatusT], change: Change | None, memory: ManagedMemory) -> str:
        """The name of what was sent lately and is still to be seen; what people ask for otherwise is sent at once."""
        sent = memory.sent
        if sent is None:
            return ""
        asked = predicates.demand(obj) is not Demand.EXIST or (
            change is not None and (change.name, change.to) == (sent.name, sent.to)
        )
        if asked and sent.cloud_id == obj.status.id and self.clock() - sent.at < self.delays.change:
            return sent.name
        memory.sent = None
        return ""


def _inputs(read: ReadInputs | MissingInput | None, linked: Links, model_id: str) -> Inputs:
    if not isinstance(read, ReadInputs):
        return Inputs(ids=linked.ids, model_id=model_id)
    return Inputs(read.env, read.ssh_keys, read.texts, linked.ids, model_id)


def _unusable(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    read: ReadInputs | MissingInput | None,
    inputs: Inputs,
) -> str | None:
    if isinstance(read, MissingInput):
        return read.message
    return resource.unusable(obj, inputs) if checks_inputs(resource) else None


def _gate(obj: Resource[SpecT, StatusT], account: AccountReady, memory: ManagedMemory, now: datetime) -> Gate:
    """A wait that was agreed is over where the account has another key, or spec: that may be allowed what was not."""
    same = memory.account in (None, account)
    memory.account = account
    return predicates.gate(obj, now) if same else Gate.OPEN

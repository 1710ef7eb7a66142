"""The one place that looks: object, account, cloud and inputs become `Facts`. Reads only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, assert_never

from relay_client.errors import CloudError, NotFound, Unreadable
from relay_operator.api import meta
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import identity
from relay_operator.engine.account import NOT_ASKED, AccountReady, Accounts, elsewhere, pinned
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.fence import shared
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, Whose
from relay_operator.engine.intent import named
from relay_operator.engine.rules import Account
from relay_operator.flows.managed import predicates, recovery
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.inputs import InputReader, MissingInput, ReadInputs
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.plan import Demand, Gate, Seen, Undecided, View
from relay_operator.flows.managed.resource import (
    CannotTell,
    Change,
    ExternalResource,
    Found,
    InputRefs,
    Inputs,
    Look,
    NotSeen,
    ObsT,
    Progress,
    Unfinished,
    takes_inputs,
)
from relay_wire.base import RESOURCE_ID

_SEEN_BY_PROGRESS = {
    Progress.PENDING: Seen.PENDING,
    Progress.READY: Seen.READY,
    Progress.DEGRADED: Seen.READY,
    Progress.STOPPED: Seen.STOPPED,
    Progress.INTERRUPTED: Seen.INTERRUPTED,
    Progress.FAILED: Seen.FAILED,
    Progress.GONE: Seen.GONE,
}


@dataclass(frozen=True, slots=True)
class _Sight(Generic[ObsT]):
    """What a look yielded; `observed` only where it is this object's own, or may become it."""

    seen: Seen
    observed: ObsT | None = None
    note: str = ""
    error: CloudError | None = None
    decided_in: float | None = None
    """Seconds until a look can tell what this one could not."""


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
        foreign = elsewhere(named, account)
        if foreign is not None:
            view = View(demand=demand, finalizer=finalizer, account=Account.of(foreign), seen=Seen.BLIND)
            return Facts(self.resource, key, obj, now, foreign, view, known)

        sight: _Sight[ObsT]
        try:
            sight = await self._look(key, obj, intent, account, memory, now, look)
        except CloudError as error:
            self.accounts.failed(account, error)
            memory.unanswered += 1
            sight = _Sight(Seen.BLIND, error=error)  # `_Sight[ObsT](...)` cannot be: frozen, and with slots
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
        sight: _Sight[ObsT],
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
        if isinstance(read, MissingInput) and wanted:
            gate, note = Gate.ENV_MISSING, read.message
        digest = read.digest if isinstance(read, ReadInputs) else ""
        known = intent if isinstance(intent, CreateIntent) else None
        difference, change, differs = predicates.difference(self.resource, obj, sight.observed, known, digest, now)
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
        )
        inputs = Inputs(
            env=read.env if isinstance(read, ReadInputs) else {},
            ssh_keys=read.ssh_keys if isinstance(read, ReadInputs) else (),
            model_id=predicates.model_id(predicates.models_of(self.resource, obj), obj.status.failures),
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
            change=change,
            inputs=inputs,
            env_digest=digest,
            unanswered=memory.unanswered,
            exact=turn.exact,
            decided_in=decided_in,
            outdated=turn.outdated,
        )

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

    async def _look(
        self,
        key: ObjectKey,
        obj: Resource[SpecT, StatusT],
        intent: CreateIntent | MalformedIntent | None,
        account: AccountReady,
        memory: ManagedMemory,
        now: datetime,
        look: Look,
    ) -> _Sight[ObsT]:
        self.cache.unclaim(key)
        is_open = predicates.intent_open(obj, intent)
        adopt_id = obj.metadata.annotations.get(meta.ADOPT_ID, "")
        deleting = predicates.demand(obj) is not Demand.EXIST
        if identity.whose_status(obj.status, obj.metadata, self.installation.name) is Whose.RESTORED:
            return await self._look_at_restored(key, obj, account, memory, now)
        if obj.status.id:
            if key.vanished and self._left_to_the_living(key, obj.metadata.uid, obj.status.id):
                return _Sight(Seen.NOTHING, note=f"{obj.status.id} is what a living object has by now")
            if predicates.demand(obj) is Demand.DELETE_ORPHANING:
                return _Sight(Seen.PENDING)
            others = self.cache.others(key, obj.status.id)
            if others:
                return _Sight(Seen.FOREIGN, note=shared(obj.status.id, key, others))
            return await self._look_by_id(obj, account, memory, now, look)
        refused = ""
        if adopt_id and (is_open or not deleting):
            answer = await self._look_at_adoptee(key, obj, adopt_id, account, intent if is_open else None)
            if not is_open or answer.seen is Seen.FOUND:
                return answer
            refused = f"; {meta.ADOPT_ID}: {answer.note}"
        if not is_open or intent is None:
            return _Sight(Seen.NOTHING)
        if isinstance(intent, MalformedIntent):
            return _Sight(Seen.UNKNOWABLE, note=f"{intent}{refused}")
        found = await self._search(key, obj, intent, account, memory, now)
        return replace(found, note=f"{found.note}{refused}")

    def _left_to_the_living(self, key: ObjectKey, uid: str, cloud_id: str) -> bool:
        """Whether an object that is there has what is to be ended for one that vanished."""
        here = key._replace(vanished="")
        living = {one for one in self.cache.claim(cloud_id, key) if not one.vanished}
        entry = self.cache.get(here) if here in living else None
        if entry is None:
            return bool(living - {here})
        before_it_went = entry.uid == uid == key.vanished  # which the watch may be late to tell
        return bool(living - {here}) or (entry.cloud_id == cloud_id and not before_it_went)

    async def _look_by_id(
        self, obj: Resource[SpecT, StatusT], account: AccountReady, memory: ManagedMemory, now: datetime, look: Look
    ) -> _Sight[ObsT]:
        try:
            observed = await self.resource.observe(account.cloud, obj.status.id or "", obj.status, look)
        except NotFound:
            return self._missing(obj, memory, now)
        progress = self.resource.progress(observed)
        _, name = self.resource.identity(observed)
        if progress is Progress.GONE and not name and obj.status.cloud_name:
            raise Unreadable("observe", f"says that {obj.status.id} is terminated, and not its name: not believed")
        memory.missing = ("", 0.0)
        account.unclaimed.discard(obj.status.id or "")
        if name and obj.status.cloud_name and name != obj.status.cloud_name:
            note = f"status.id {obj.status.id} is the cloud's {name!r}, not {obj.status.cloud_name!r}"
            return _Sight(Seen.FOREIGN, note=note)
        ended, sent = memory.terminated
        sent_lately = ended == obj.status.id and self.clock() - sent < self.delays.termination
        if progress is not Progress.GONE and sent_lately:
            return _Sight(Seen.GOING, observed, "a termination was sent; the cloud has not confirmed it")
        return _Sight(_SEEN_BY_PROGRESS[progress], observed)

    async def _look_at_restored(
        self,
        key: ObjectKey,
        obj: Resource[SpecT, StatusT],
        account: AccountReady,
        memory: ManagedMemory,
        now: datetime,
    ) -> _Sight[ObsT]:
        """What a former object of this name recorded is taken over, if it may be and nobody else has it."""
        cloud_id = obj.status.id or ""
        if not account.adoption_allowed:
            return _Sight(Seen.WITHHELD, note=f"{cloud_id} {_FORMER} {_WITHHELD}")
        holders = self.cache.with_cloud_id(cloud_id) - {key}
        if holders:
            return _Sight(Seen.WITHHELD, note=_belongs(cloud_id, holders))
        sight = await self._look_by_id(obj, account, memory, now, Look.EXACT)
        if sight.observed is None or sight.seen is Seen.GONE:
            return sight
        others = self._others(key, obj, sight.observed)
        return _Sight(Seen.WITHHELD, note=_belongs(cloud_id, others)) if others else replace(sight, seen=Seen.FOUND)

    def _missing(self, obj: Resource[SpecT, StatusT], memory: ManagedMemory, now: datetime) -> _Sight[ObsT]:
        """A 404 is believed when it comes again, and never right after the create.

        What was seen terminated, the cloud forgets after a day: that is no other end (section 3).
        """
        if memory.missing[0] != obj.status.id:
            memory.missing = (obj.status.id or "", self.clock())
        born = predicates.created_at(obj)
        grown = 0.0 if born is None else self.delays.newborn - (now - born).total_seconds()
        doubt = max(grown, self.delays.absence - (self.clock() - memory.missing[1]))
        if doubt > 0 and obj.status.state != "terminated":
            note = f"the cloud does not find {obj.status.id}; looking again"
            return _Sight(Seen.MISSING, note=note, decided_in=doubt)
        return _Sight(Seen.GONE, note=f"the cloud does not find {obj.status.id} any more")

    async def _look_at_adoptee(
        self,
        key: ObjectKey,
        obj: Resource[SpecT, StatusT],
        cloud_id: str,
        account: AccountReady,
        intent: CreateIntent | MalformedIntent | None,
    ) -> _Sight[ObsT]:
        """While an intent is open, only what it may have led to is adopted: else that would run on, unknown."""
        refused = Seen.UNKNOWABLE if intent is not None else Seen.ADOPTEE_REFUSED
        if not account.adoption_allowed:
            return _Sight(refused, note="the account is shared and does not say allowAdoption")
        if not RESOURCE_ID.fullmatch(cloud_id):
            return _Sight(refused, note=_NO_ID)
        holders = self.cache.with_cloud_id(cloud_id) - {key}
        if holders:
            return _Sight(refused, note=_belongs(cloud_id, holders))
        try:
            observed = await self.resource.observe(account.cloud, cloud_id, obj.status, Look.EXACT)
        except NotFound:
            return _Sight(refused, note=f"the cloud does not find {cloud_id}")
        givers = self._givers(obj, observed)
        if givers:
            return _Sight(refused, note=_belongs(cloud_id, givers))
        if self.resource.progress(observed) is Progress.GONE:
            return _Sight(refused, note=f"{cloud_id} is terminated")
        if intent is not None and not self._answers(obj, intent, observed):
            _, name = self.resource.identity(observed)
            return _Sight(refused, note=f"{cloud_id} is named {name!r} in the cloud, so the create did not make it")
        differs = self.resource.differences(obj, observed)
        if differs and intent is None:
            return _Sight(refused, note="make the spec say what the resource is: " + "; ".join(differs))
        holders = self.cache.claim(cloud_id, key)
        if holders:
            return _Sight(refused, note=_belongs(cloud_id, holders))
        return _Sight(Seen.FOUND if intent is not None else Seen.ADOPTEE, observed)

    def _answers(self, obj: Resource[SpecT, StatusT], intent: CreateIntent | MalformedIntent, observed: ObsT) -> bool:
        """Whether the intent may have led to it; of one that cannot be read, its name being the object's must do."""
        cloud_id, name = self.resource.identity(observed)
        if isinstance(intent, CreateIntent):
            return intent.name == named(cloud_id, name)
        return identity.gave(obj.metadata, obj.metadata.uid, self.installation.name, name)

    async def _search(
        self,
        key: ObjectKey,
        obj: Resource[SpecT, StatusT],
        intent: CreateIntent,
        account: AccountReady,
        memory: ManagedMemory,
        now: datetime,
    ) -> _Sight[ObsT]:
        """Find out what became of a create whose answer is not known."""
        strange = self._strange(obj, intent, account)
        if strange is not None:
            return strange
        if intent.token in memory.unsent:
            return _Sight(Seen.ABSENT, note="the last attempt was written down and not sent")
        originals = self.cache.with_token(intent.token) - {key}
        originals |= self.cache.with_name(intent.name, self.installation.name, but=obj.metadata.uid)
        if originals:
            held = self._restored(obj, intent)
            told = _belongs(repr(intent.name), originals) if held else f"the intent was copied from {_first(originals)}"
            return _Sight(Seen.WITHHELD if held else Seen.ABSENT, note=told)
        finding = await self.resource.find(account.cloud, intent.name, account.unclaimed)
        early = self.delays.search - (now - intent.started_at).total_seconds()
        match finding:
            case Found(observed):
                return self._found(key, obj, intent, observed)
            case NotSeen():
                note = f"{intent.name!r} is not in the cloud's list"
                again = memory.lacks(intent.name, self.clock(), self.delays)
                return _Sight(Seen.ABSENT if again is None else Seen.UNSURE, note=note, decided_in=again)
            case CannotTell():
                note = f"look in the cloud for a resource named {intent.name!r}"
                if early > 0:
                    return _Sight(Seen.UNSURE, note=note, decided_in=early)
                return _Sight(Seen.UNKNOWABLE, note=note)
            case Unfinished():
                return _Sight(Seen.UNSURE, note="the ids that webhooks named are looked up", decided_in=0)
            case _ as never:
                assert_never(never)

    def _found(
        self, key: ObjectKey, obj: Resource[SpecT, StatusT], intent: CreateIntent, observed: ObsT
    ) -> _Sight[ObsT]:
        """What has the intent's name is the object's, unless another has it: then the intent is a copy."""
        others = self._others(key, obj, observed)
        if not others:
            return _Sight(Seen.FOUND, observed)
        if self._restored(obj, intent) or self._gave(obj, obj.metadata.uid, intent):
            return _Sight(Seen.WITHHELD, note=_belongs(self.resource.identity(observed)[0], others))
        return _Sight(Seen.ABSENT, note=f"the intent was copied from {_first(others)}")

    def _others(self, key: ObjectKey, obj: Resource[SpecT, StatusT], observed: ObsT) -> frozenset[ObjectKey]:
        """Who else has it; if nobody has, it is claimed for this object."""
        return self._givers(obj, observed) or self.cache.claim(self.resource.identity(observed)[0], key)

    def _givers(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> frozenset[ObjectKey]:
        """Other objects whose name it has: the answer to such a one's create may be on its way."""
        _, name = self.resource.identity(observed)
        return self.cache.with_name(name, self.installation.name, but=obj.metadata.uid)

    def _restored(self, obj: Resource[SpecT, StatusT], intent: CreateIntent) -> bool:
        return identity.whose_intent(intent, obj.metadata, self.installation.name) is Whose.RESTORED

    def _gave(self, obj: Resource[SpecT, StatusT], uid: str, intent: CreateIntent) -> bool:
        return identity.gave(obj.metadata, uid, self.installation.name, intent.name)

    def _strange(
        self, obj: Resource[SpecT, StatusT], intent: CreateIntent, account: AccountReady
    ) -> _Sight[ObsT] | None:
        """An intent finds nothing that `adopt-id` might not: it can be written by hand, and restored from a backup."""
        if account.adoption_allowed:
            return None
        if self._restored(obj, intent):
            return _Sight(Seen.WITHHELD, note=f"{intent.name!r} {_FORMER} {_WITHHELD}")
        uid = intent.identity.uid if intent.identity is not None else obj.metadata.uid
        if not self._gave(obj, uid, intent):
            return _Sight(Seen.ABSENT, note=f"the intent names {intent.name!r}, which is no name of this object's")
        return None


_FORMER = "was made for a former object of this name"
_WITHHELD = "and is not taken over, since the account is shared and does not say allowAdoption"


def _belongs(cloud_id: str, holders: frozenset[ObjectKey]) -> str:
    return f"{cloud_id} belongs to {_first(holders)}"


def _first(holders: frozenset[ObjectKey]) -> str:
    return min(map(str, holders))


def _gate(obj: Resource[SpecT, StatusT], account: AccountReady, memory: ManagedMemory, now: datetime) -> Gate:
    """A wait that was agreed is over where the account has another key, or spec: that may be allowed what was not."""
    same = memory.account in (None, account)
    memory.account = account
    return predicates.gate(obj, now) if same else Gate.OPEN


_NO_ID = (
    f"the annotation {meta.ADOPT_ID} is no id of the cloud's: at most 253 letters, digits and . _ : ~ @ = + -, "
    "and it begins with none of those signs but _"
)

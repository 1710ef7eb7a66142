"""What an object has in the cloud: read by its id, adopted, or searched for. Asks for nothing but reads."""

from dataclasses import dataclass, replace

from relay_client.errors import NotFound, Unreadable
from relay_operator.api import meta
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import identity
from relay_operator.engine.account import AccountReady, moved
from relay_operator.engine.commands import annotate, let_go
from relay_operator.engine.fence import shared
from relay_operator.engine.identity import Whose
from relay_operator.engine.intent import named
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.abilities import brought_in, nameless, shown_once, unnamed
from relay_operator.flows.managed.blue_green import blues
from relay_operator.flows.managed.ending import legible
from relay_operator.flows.managed.former import former
from relay_operator.flows.managed.part_of import address_of
from relay_operator.flows.managed.resource import Look, ObsT, Progress
from relay_operator.flows.managed.search import FORMER, WITHHELD, Searcher, Sight, another_url, belongs
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Demand, Seen
from relay_wire.base import RESOURCE_ID

_SEEN_BY_PROGRESS = {
    Progress.PENDING: Seen.PENDING,
    Progress.READY: Seen.READY,
    Progress.DEGRADED: Seen.READY,
    Progress.OFFLINE: Seen.READY,
    Progress.STOPPED: Seen.STOPPED,
    Progress.INTERRUPTED: Seen.INTERRUPTED,
    Progress.FAILED: Seen.FAILED,
    Progress.GONE: Seen.GONE,
}


@dataclass(frozen=True, slots=True)
class Looker(Searcher[SpecT, StatusT, ObsT]):
    """Looks for the resources of one kind's objects; searches only for those that neither a status nor people name."""

    async def look(
        self, subject: Subject[SpecT, StatusT], intent: CreateIntent | MalformedIntent | None
    ) -> Sight[ObsT]:
        """The result of at most one look at the cloud, unless an adoption or a search needs more. Raises CloudError."""
        key, obj = subject.key, subject.obj
        is_open = predicates.intent_open(obj, intent)
        adopt_id = self._adopts(obj)
        deleting = predicates.demand(obj) is not Demand.EXIST
        if obj.status.id and self.is_restored(obj):
            return await self._look_at_restored(subject)
        if obj.status.id:
            if key.vanished and self._left_to_the_living(key, obj.metadata.uid, obj.status.id):
                return Sight(Seen.NOTHING, note=f"another object has the resource {obj.status.id} now")
            if predicates.demand(obj) is Demand.DELETE_ORPHANING:
                return Sight(Seen.PENDING)
            if others := self.cache.others(key, obj.status.id):
                return Sight(Seen.FOREIGN, note=shared(obj.status.id, key, others))
            return await self._look_by_id(subject, _closeness(subject))
        refused = ""
        if adopt_id and (is_open or not deleting):
            answer = await self._look_at_adoptee(subject, adopt_id, intent if is_open else None)
            if not is_open or answer.seen is Seen.FOUND:
                return answer
            refused = f"; {meta.ADOPT_ID}: {answer.note}"
        if not is_open or intent is None:
            return Sight(Seen.NOTHING) if deleting else await self._look_for_another(subject)
        if isinstance(intent, MalformedIntent):
            return Sight(Seen.UNKNOWABLE, note=f"{intent}{refused}")
        found = await self.search(subject, intent)
        return replace(found, note=f"{found.note}{refused}")

    def is_restored(self, obj: Resource[SpecT, StatusT]) -> bool:
        """Whether status was recorded for an earlier object of this name."""
        return identity.whose_status(obj.status, obj.metadata, self.installation.name) is Whose.RESTORED

    def _adopts(self, obj: Resource[SpecT, StatusT]) -> str:
        """The id to adopt; empty if there is none, or `adopt-id` names what another replaces, or may."""
        if brought_in(self.resource):
            return self.resource.given_id(obj) if predicates.demand(obj) is Demand.EXIST else ""
        replaced = former(obj.status) or obj.status.adopted_before == obj.metadata.echo(meta.ADOPT_ID)
        return "" if replaced else obj.metadata.annotations.get(meta.ADOPT_ID, "")

    async def _look_for_another(self, subject: Subject[SpecT, StatusT]) -> Sight[ObsT]:
        """Looks for a resource that exists already, for a kind whose names do not prove the owner."""
        key, account = subject.key, subject.account
        observed = await self.resource.existing(account.cloud, subject.obj) if nameless(self.resource) else None
        if observed is None:
            return Sight(Seen.NOTHING)
        cloud_id, _ = self.resource.identity(observed)
        if held := belongs(cloud_id, self.cache.others(key, cloud_id)):
            return Sight(Seen.TAKEN, note=held)
        barred, command = self._never_adopts(account), annotate(key, f"{meta.ADOPT_ID}={cloud_id}")
        way_out = f"it is not taken over, since {barred}" if barred else f"to take it over, {command}"
        return Sight(Seen.TAKEN, note=f"it exists already, {self.resource.detail(observed)}: {way_out}")

    def _left_to_the_living(self, key: ObjectKey, uid: str, cloud_id: str) -> bool:
        """Whether an existing object has the resource that is to be ended for a vanished one."""
        here = key._replace(vanished="")
        living = {one for one in self.cache.claim(cloud_id, key) if not one.vanished}
        entry = self.cache.get(here) if here in living else None
        if entry is None:
            return bool(living - {here})
        before_it_went = entry.uid == uid == key.vanished  # the same object, whose deletion the watch may report late
        return bool(living - {here}) or (entry.cloud_id == cloud_id and not before_it_went)

    async def _look_by_id(self, subject: Subject[SpecT, StatusT], look: Look) -> Sight[ObsT]:
        obj, account, memory = subject.obj, subject.account, subject.memory
        try:
            address = address_of(obj.status, obj.status.id or "")
            observed = await self.resource.observe(account.cloud, address, obj.status, look)
        except NotFound:
            return self._missing(subject)
        strange = self.strange(subject, obj.status.id or "", obj.status.cloud_name, observed)
        memory.missing = ("", 0.0)
        account.unclaimed.discard(obj.status.id or "")
        memory.foreign = (obj.status.id or "") if strange else ""
        if strange:
            return Sight(Seen.FOREIGN, note=strange)
        if memory.known[0] != obj.status.id:
            memory.known = (obj.status.id or "", self.clock())
        progress = self.resource.progress(observed)
        ended, sent = memory.terminated
        sent_lately = ended == obj.status.id and self.clock() - sent < self.delays.termination
        if progress is not Progress.GONE and sent_lately:
            return Sight(Seen.GOING, observed, "a termination was sent; the cloud has not confirmed it")
        return Sight(_SEEN_BY_PROGRESS[progress], observed)

    def strange(self, subject: Subject[SpecT, StatusT], cloud_id: str, recorded: str | None, observed: ObsT) -> str:
        """Why an answer about this id shows what is not the object's; empty if it is, as far as its name can tell.

        `recorded` is its name in status. Raises Unreadable if it says `terminated`, and not of what.
        """
        _, name = self.resource.identity(observed)
        gone = self.resource.progress(observed) is Progress.GONE
        if gone and not name and recorded and not unnamed(self.resource):
            raise Unreadable(
                "observe", f"the answer says that {cloud_id} is terminated and does not name it: not believed"
            )
        if (name or not subject.account.admits) and recorded and name != recorded:
            shown = f"is the cloud's {name!r}, not" if name else "has no name in the cloud that shows it to be"
            return f"the resource {cloud_id} {shown} {recorded!r}"
        return "" if recorded or not name else belongs(cloud_id, self.givers(subject.obj, observed))

    async def _look_at_restored(self, subject: Subject[SpecT, StatusT]) -> Sight[ObsT]:
        """Take over what an earlier object of this name recorded, if that is allowed and no other object has it."""
        cloud_id = subject.obj.status.id or ""
        if not subject.account.adoption_allowed:
            return Sight(Seen.WITHHELD, note=f"the resource {cloud_id} {FORMER} {WITHHELD}")
        if held := belongs(cloud_id, self.cache.others(subject.key, cloud_id)):
            return Sight(Seen.WITHHELD, note=held)
        sight = await self._look_by_id(subject, Look.EXACT)
        if sight.observed is None or sight.seen is Seen.GONE:
            return sight
        held = belongs(cloud_id, self.others(subject, sight.observed))
        return Sight(Seen.WITHHELD, note=held) if held else replace(sight, seen=Seen.FOUND)

    def _missing(self, subject: Subject[SpecT, StatusT]) -> Sight[ObsT]:
        """The result of a 404, which is believed only when repeated, and never right after the create.

        Both count on this process's own clock, since the wall clock may step, or be another replica's.
        One that was seen terminated need not be repeated: the cloud forgets such a resource after a day (section 3).
        """
        obj, memory = subject.obj, subject.memory
        if moved(obj.status.identity, subject.endpoint):
            told = f"{another_url(subject)} does not find {obj.status.id}, which proves nothing"
            return Sight(Seen.FOREIGN, note=f"{told}: give it that URL again, or, if it is gone, {let_go(subject.key)}")
        if memory.missing[0] != obj.status.id:
            memory.missing = (obj.status.id or "", self.clock())
        missing_since = memory.missing[1]
        known_id, known_since = memory.known
        there_since = known_since if known_id == obj.status.id else missing_since
        young = self.delays.newborn - (self.clock() - there_since)
        doubt = max(young, self.delays.absence - (self.clock() - missing_since))
        if doubt > 0 and obj.status.state != "terminated":
            note = f"the cloud does not find {obj.status.id}; looking again"
            return Sight(Seen.MISSING, note=note, decided_in=doubt)
        return Sight(Seen.GONE, note=f"the cloud does not find {obj.status.id} any more")

    async def _look_at_adoptee(
        self, subject: Subject[SpecT, StatusT], cloud_id: str, intent: CreateIntent | MalformedIntent | None
    ) -> Sight[ObsT]:
        """The result for `adopt-id`; while an intent is open, only the resource that it may have created is adopted.

        Any other would leave the intent's own resource running and unknown.
        """
        key, obj, account = subject.key, subject.obj, subject.account
        refused = Seen.UNKNOWABLE if intent is not None else Seen.ADOPTEE_REFUSED
        unfit = "" if RESOURCE_ID.fullmatch(cloud_id) else _NO_ID
        barred = self._never_adopts(account) or unfit or belongs(cloud_id, self.cache.others(key, cloud_id))
        if barred:
            return Sight(refused, note=barred)
        try:
            address = address_of(obj.status, cloud_id)
            observed = await self.resource.observe(account.cloud, address, obj.status, Look.EXACT)
        except NotFound:
            return Sight(refused, note=f"the cloud does not find {cloud_id}")
        barred = (
            belongs(cloud_id, self.givers(obj, observed))
            or self._unlike(obj, cloud_id, intent, observed)
            or belongs(cloud_id, self.cache.claim(cloud_id, key, subject.endpoint))
        )
        if barred:
            return Sight(refused, note=barred)
        return Sight(Seen.FOUND if intent is not None else Seen.ADOPTEE, observed)

    def _unlike(
        self,
        obj: Resource[SpecT, StatusT],
        cloud_id: str,
        intent: CreateIntent | MalformedIntent | None,
        observed: ObsT,
    ) -> str:
        """Why this is gone, or not what the spec or the open intent asks for; empty if it may be that."""
        if self.resource.progress(observed) is Progress.GONE and not predicates.end_asked(self.resource, obj):
            return f"the resource {cloud_id} is terminated"
        if intent is None or nameless(self.resource):
            return self._differs(obj, observed)
        if self._answers(obj, intent, observed):
            return ""
        _, name = self.resource.identity(observed)
        return f"the resource {cloud_id} is named {name!r} in the cloud, so the create did not make it"

    def _differs(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> str:
        """Why this is not known to be what the spec asks for; empty if it equals that."""
        if not legible(obj):
            return "the spec cannot be read, so nothing shows that this is what it asks for"
        differs = "; ".join(self.resource.differences(obj, observed))
        return f"the spec differs from the resource, so correct the spec: {differs}" if differs else ""

    def _never_adopts(self, account: AccountReady) -> str:
        """Why nothing may be adopted; empty if something may."""
        if shown_once(self.resource):
            return "this kind cannot be adopted: the cloud showed its value once, when it was created"
        return "" if account.adoption_allowed else "the account is shared, and its spec.allowAdoption is not true"

    def _answers(self, obj: Resource[SpecT, StatusT], intent: CreateIntent | MalformedIntent, observed: ObsT) -> bool:
        """Whether the intent may have created it; for an unreadable intent, a name that the object gives is enough."""
        cloud_id, name = self.resource.identity(observed)
        if isinstance(intent, CreateIntent):
            return intent.name == named(cloud_id, name) or intent.answered == cloud_id
        return identity.gave(obj.metadata, obj.metadata.uid, self.installation.name, name)


def _closeness(subject: Subject[SpecT, StatusT]) -> Look:
    """How fresh to read: what is about to take another's place is read itself, since others will use it."""
    return Look.EXACT if subject.turn.exact or blues(subject.obj.status) else Look.ROUTINE


_NO_ID = (
    f"the annotation {meta.ADOPT_ID} is not an id of the cloud: it has at most 253 letters, digits and "
    ". _ : ~ @ = + -, and begins with a letter, a digit or _"
)

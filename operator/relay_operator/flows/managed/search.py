"""What became of a create whose answer is lost: its resource is searched for by its name, or what equals its spec."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, assert_never

from relay_client.errors import CloudError
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource, rfc3339
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import identity
from relay_operator.engine.account import moved
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.fence import first
from relay_operator.engine.identity import Installation, Whose
from relay_operator.flows.managed.abilities import is_part, nameless, shown_once, unnamed
from relay_operator.flows.managed.ending import legible, says
from relay_operator.flows.managed.part_of import whole
from relay_operator.flows.managed.resource import (
    CannotTell,
    ExternalResource,
    Found,
    NotSeen,
    ObsT,
    Progress,
    SearchResult,
    Unfinished,
)
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.unnamed import found_unnamed, has_rival
from relay_operator.flows.managed.view import Seen


@dataclass(frozen=True, slots=True)
class Sight(Generic[ObsT]):
    """The result of a look; `observed` is set only if it is this object's own, or may become it."""

    seen: Seen
    observed: ObsT | None = None
    note: str = ""
    error: CloudError | None = None
    decided_in: float | None = None
    """Seconds until a look can tell what this one could not."""


@dataclass(frozen=True, slots=True)
class Searcher(Generic[SpecT, StatusT, ObsT]):
    """Searches for the resources of one kind's open intents."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    cache: Cache
    clock: Callable[[], float]
    delays: ConfirmationDelays
    installation: Installation

    async def search(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> Sight[ObsT]:
        """Find out what became of a create whose answer is unknown."""
        obj = subject.obj
        unsearchable = self._unsearchable(subject, intent)
        if unsearchable is not None:
            return unsearchable
        if intent.token in subject.memory.unsent:
            return Sight(Seen.ABSENT, note="the last attempt was written down and not sent")
        originals = self.cache.creators(intent.token, subject.key)
        originals |= self.cache.with_name(intent.name, self.installation.name, but=obj.metadata.uid)
        if originals:
            held = self._restored(obj, intent)
            told = belongs(repr(intent.name), originals) if held else f"the intent was copied from {first(originals)}"
            return Sight(Seen.WITHHELD if held else Seen.ABSENT, note=told)
        finding = await self._find(subject, intent)
        match finding:
            case Found(observed):
                return self._found(subject, intent, observed)
            case NotSeen() if intent.token == subject.memory.discarded:
                return Sight(Seen.ABSENT, note=f"{intent.name!r} was made, and is gone")
            case NotSeen():
                return self._not_seen(subject, intent)
            case CannotTell():
                early = self._early(subject, intent)
                if early > 0:
                    note = f"what was made is searched for until {self.delays.search:g} s after the create"
                    return Sight(Seen.UNSURE, note=note, decided_in=early)
                return Sight(Seen.UNKNOWABLE, note=self._trace(subject, intent))
            case Unfinished():
                return Sight(Seen.UNSURE, note="the ids that webhooks named are looked up", decided_in=0)
            case _ as never:
                assert_never(never)

    def _early(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> float:
        """Seconds for which a webhook may still name what the create made.

        Before it is sent again, this process has waited by its own clock, since the wall clock may step, or be another
        replica's.
        """
        memory = subject.memory
        if memory.awaited[0] != intent.token:
            memory.awaited = (intent.token, self.clock())
        own = self.delays.search - (self.clock() - memory.awaited[1])
        told = self.delays.search - (subject.turn.now - intent.started_at).total_seconds()
        return own if subject.account.resend_unknown else min(own, told)

    def _not_seen(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> Sight[ObsT]:
        """Count one more list without the intent's name; after an answer about something else, none is enough."""
        if moved(intent.identity, subject.endpoint):
            told = f"{another_url(subject)} does not show {intent.name!r}, which proves nothing: give it that URL again"
            return Sight(Seen.UNKNOWABLE, note=told)
        note = f"{intent.name!r} is not in the cloud's list"
        again = subject.memory.lacks(intent.name, self.clock(), self.delays)
        if again is not None:
            return Sight(Seen.UNSURE, note=note, decided_in=again)
        if intent.answered and not self.cache.others(subject.key, intent.answered):
            return Sight(Seen.UNKNOWABLE, note=self._clue(intent))
        return Sight(Seen.ABSENT, note=note)

    def _trace(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> str:
        """What people can look for, and where."""
        what = self._what(subject.obj, intent)
        if not moved(intent.identity, subject.endpoint):
            return what
        return f"{another_url(subject)} may be another: give it that URL again, or ask the cloud of that URL: {what}"

    def _what(self, obj: Resource[SpecT, StatusT], intent: CreateIntent) -> str:
        if intent.answered or not nameless(self.resource) or (legible(obj) and unnamed(self.resource)):
            return self._clue(intent)
        since = rfc3339(intent.started_at)
        why = "the cloud's list does not show what became of it" if legible(obj) else "the spec cannot be read"
        return f"{why}: look in the cloud for what the spec asked for, and was made at {since} or later"

    def _clue(self, intent: CreateIntent) -> str:
        if intent.answered and nameless(self.resource):
            what = "shows something else than was sent, or belonged to another object"
            return f"the answer was about {intent.answered}, which {what}: look at it"
        if unnamed(self.resource):
            return f"look in the cloud for what equals the spec and was made at {rfc3339(intent.started_at)} or later"
        if intent.answered:
            why = f"has another name than {intent.name!r}, or belonged to another object"
            return f"the answer was about {intent.answered}, which {why}: look at it"
        return f"look in the cloud for a resource named {intent.name!r}"

    async def _find(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> SearchResult[ObsT]:
        resource, obj, account = self.resource, subject.obj, subject.account
        if unnamed(resource):
            if not legible(obj):
                return CannotTell()
            return await found_unnamed(self.resource, resource, self.cache, subject, intent)
        if not nameless(self.resource):
            return await self.resource.find(account.cloud, intent.name, account.unclaimed)
        if not says(obj, *resource.told_apart_by):
            return CannotTell()
        observed = await self.resource.existing(account.cloud, obj)
        if observed is not None:
            return CannotTell() if has_rival(self.cache, subject.key, intent, account) else Found(observed)
        return CannotTell() if await resource.may_exist(account.cloud, obj) else NotSeen()

    def _found(self, subject: Subject[SpecT, StatusT], intent: CreateIntent, observed: ObsT) -> Sight[ObsT]:
        """A resource with the intent's name is the object's, unless another one has it: then the intent is a copy."""
        if self.resource.progress(observed) is Progress.GONE and shown_once(self.resource):
            return Sight(Seen.ABSENT, note=f"{intent.name!r} was made, and is gone")
        obj, others = subject.obj, self.others(subject, observed)
        if not others:
            return Sight(Seen.FOUND, observed)
        if self._restored(obj, intent) or self._gave(obj, obj.metadata.uid, intent):
            return Sight(Seen.WITHHELD, note=belongs(self.resource.identity(observed)[0], others))
        return Sight(Seen.ABSENT, note=f"the intent was copied from {first(others)}")

    def others(self, subject: Subject[SpecT, StatusT], observed: ObsT) -> frozenset[ObjectKey]:
        """The other objects that have it; if there are none, it is claimed for this object."""
        cloud_id, _ = self.resource.identity(observed)
        return self.givers(subject.obj, observed) or self.cache.claim(cloud_id, subject.key, subject.endpoint)

    def givers(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> frozenset[ObjectKey]:
        """Other objects that give its name: the answer to the create of one may be on its way."""
        _, name = self.resource.identity(observed)
        return self.cache.with_name(name, self.installation.name, but=obj.metadata.uid)

    def _restored(self, obj: Resource[SpecT, StatusT], intent: CreateIntent) -> bool:
        return identity.whose_intent(intent, obj.metadata, self.installation.name) is Whose.RESTORED

    def _gave(self, obj: Resource[SpecT, StatusT], uid: str, intent: CreateIntent) -> bool:
        return identity.gave(obj.metadata, uid, self.installation.name, intent.name)

    def _unsearchable(self, subject: Subject[SpecT, StatusT], intent: CreateIntent) -> Sight[ObsT] | None:
        """The result for an intent that may not be searched for; None if it may.

        An intent can be written by hand or restored from a backup: it must not find what `adopt-id` could not adopt.
        """
        obj = subject.obj
        if subject.account.adoption_allowed:
            return None
        if self._restored(obj, intent):
            return Sight(Seen.WITHHELD, note=f"{intent.name!r} {FORMER} {WITHHELD}")
        uid = intent.identity.uid if intent.identity is not None else obj.metadata.uid
        if not self._gave(obj, uid, intent):
            if obj.status.create_token == intent.token:
                return Sight(Seen.WITHHELD, note=f"{intent.name!r} was adopted, is no longer in status {WITHHELD}")
            return Sight(Seen.ABSENT, note=f"the intent names {intent.name!r}, which is not a name of this object")
        if is_part(self.resource) and intent.part_of != whole(self.resource, obj):
            return Sight(Seen.WITHHELD, note=f"the intent was sent to {intent.part_of!r} {WITHHELD}")
        return None


FORMER = "was made for a former object of this name"
WITHHELD = "and is not taken over, since the account is shared and its spec.allowAdoption is not true"


def another_url(subject: Subject[SpecT, StatusT]) -> str:
    return f"{subject.account.key} has another URL now than at the create, and its cloud"


def belongs(cloud_id: str, holders: frozenset[ObjectKey]) -> str:
    """To whom it belongs; empty if there is nobody."""
    return f"the resource {cloud_id} belongs to {first(holders)}" if holders else ""

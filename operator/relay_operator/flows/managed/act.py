"""Carries out one action on one resource of the cloud: at most one change, and the writes that must surround it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from relay_client import CapacityExhausted, Cloud, CloudError, CloudUnavailable, Conflict, NotFound, Outcome, Unreadable
from relay_kube import errors as kube
from relay_operator.api.meta import MOST_ATTEMPTS, CreateIntent, Identity, ObjectKey, ObjectMeta, Reservation
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.budgets.budgets import Budgets
from relay_operator.engine import finalizer
from relay_operator.engine.account import Accounts, as_called, identity_in, unguarded
from relay_operator.engine.actions import Nothing
from relay_operator.engine.cache import Cache
from relay_operator.engine.fence import SupersededError, about_anothers, fence
from relay_operator.engine.identity import Installation, Whose, whose_intent
from relay_operator.engine.intent import cloud_name, common, fingerprints, intent_of, named
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.flows.managed import actions, predicates
from relay_operator.flows.managed.abilities import is_priced, nameless, refers
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.ending import legible
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import former
from relay_operator.flows.managed.links import made_of
from relay_operator.flows.managed.memory import ManagedMemory, SentChange
from relay_operator.flows.managed.part_of import address_of, part_of
from relay_operator.flows.managed.resource import Change, ExternalResource, ObsT
from relay_operator.flows.managed.result import Accepted, OutcomeUnknown, Rejected, Result, Sent
from relay_operator.flows.managed.shown_once import Shown

AnswerT = TypeVar("AnswerT")
KnownT = TypeVar("KnownT")
ActionT = TypeVar("ActionT", actions.Delete, actions.Update)


@dataclass(slots=True)
class Actor(Generic[SpecT, StatusT, ObsT]):
    """Acts for one kind. Raises KubeError if a write that must come first failed; nothing was sent then."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    accounts: Accounts
    clock: Callable[[], float]
    new_token: Callable[[], str]
    installation: Installation
    leading: Callable[[], bool]
    """Whether this replica may still send a call that costs money."""
    cache: Cache
    budgets: Budgets

    async def act(
        self, facts: Facts[SpecT, StatusT, ObsT], action: Action, memory: ManagedMemory, writer: ObjectWriter
    ) -> Result[ObsT]:
        """The result; a refusal by the cloud is a result, not an exception."""
        match action:
            case actions.Create():
                return await self._create(facts, await self._open_intent(facts, memory, writer), memory)
            case actions.Resend():
                intent = await self._reopen_intent(facts, memory, writer)
                memory.searched = ""  # the cloud may act late on this request, too: its absence counts from here on
                return await self._create(facts, intent, memory, again=True)
            case actions.Discard():
                found, _ = self.resource.identity(_known(facts.observed))
                memory.shown = Shown()
                result = await self._terminate(facts, found)
                memory.discarded = facts.intent.token if isinstance(result, Sent) and facts.intent is not None else ""
                return result
            case actions.Adopt():
                observed = _known(facts.observed)
                intent = await self._intent_for_adoption(facts, observed, memory, writer)
                return Accepted(observed, self._as_called(facts, intent), self._given(facts, observed, intent))
            case actions.Update(name):
                await self._reserve(facts, memory, writer)
                return await self._change(facts, self._named(facts, name), memory)
            case actions.Watch(name):
                return Sent(self._named(facts, name))
            case actions.Delete():
                return await self._end(facts, memory)
            case actions.EndFormer():
                return await self._end_former(facts, memory)
            case _ if isinstance(action, actions.OnlyReported):
                return Nothing()
            case _ as never:
                assert_never(never)

    def guarding(self, facts: Facts[SpecT, StatusT, ObsT]) -> CreateIntent | None:
        """The intent that must be on the object; None if it has nothing in the cloud.

        If somebody removed the intent of an object with a resource, it is rebuilt from status.
        """
        obj, status = facts.obj, facts.obj.status
        aside = former(status)
        if not (status.id or aside):
            return facts.intent if predicates.intent_open(obj, facts.intent) else None
        name = named(status.id, status.cloud_name or "") if status.id else aside[-1].name
        return facts.intent or CreateIntent(
            token=status.create_token or self.new_token(),
            name=name,
            attempt=max(status.attempt or 0, 1),
            spec_hash=status.spec_hash or "",
            started_at=obj.metadata.creation_timestamp or facts.now,
            account=f"{status.account.kind}/{status.account.name}" if status.account is not None else "",
            identity=status.identity,
            part_of=part_of(status),
            env_digest=status.env_digest or "",
        )

    async def _open_intent(
        self, facts: Facts[SpecT, StatusT, ObsT], memory: ManagedMemory, writer: ObjectWriter
    ) -> CreateIntent:
        obj = facts.obj
        last = max(obj.status.attempt or 0, facts.intent.attempt if facts.intent is not None else 0)
        attempt = last % MOST_ATTEMPTS + 1
        intent = self._intent(facts, self._name(obj.metadata, attempt), attempt)
        memory.unsent.add(intent.token)
        try:
            await finalizer.open_intent(writer, obj.metadata, intent)
        except (kube.Conflict, kube.Refused):
            if intent_of(writer.latest()) != intent:  # such tokens would be kept without end
                memory.unsent.discard(intent.token)
            raise
        memory.intent = intent
        return intent

    async def _reopen_intent(
        self, facts: Facts[SpecT, StatusT, ObsT], memory: ManagedMemory, writer: ObjectWriter
    ) -> CreateIntent:
        """The open intent with what is sent this time, if this request makes the resource.

        If an earlier one may have made it from another spec, the annotation keeps what both requests have in common.
        """
        intent, digest = _known(facts.intent), facts.env_digest
        sent = fingerprints(self.resource.immutable(facts.obj))
        known = {"spec_hash": intent.spec_hash, "env_digest": intent.env_digest}
        if sent != intent.spec_hash or digest != intent.env_digest:
            same = digest if digest == intent.env_digest else ""
            known = {"spec_hash": common(intent.spec_hash, sent), "env_digest": same}
        granted = self._reservation(facts, self.new_token())
        kept = intent.model_copy(update={**known, "reserved": granted or intent.reserved})
        if kept != intent:
            memory.intent = kept
            await finalizer.guard(writer, facts.obj.metadata, kept)
        return kept.model_copy(update={"spec_hash": sent, "env_digest": digest})

    async def _intent_for_adoption(
        self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, memory: ManagedMemory, writer: ObjectWriter
    ) -> CreateIntent:
        """The object's own open intent, else a new one that names the resource that was found."""
        obj, known = facts.obj, facts.intent
        own = known is not None and whose_intent(known, obj.metadata, self.installation.name) is Whose.OWN
        if known is not None and own and predicates.intent_open(obj, known):
            return known  # this pass has written it on the object already, with the finalizer
        cloud_id, name = self.resource.identity(observed)
        intent = self._intent(facts, named(cloud_id, name), max(obj.status.attempt or 0, 1))
        await finalizer.guard(writer, obj.metadata, intent)
        memory.intent = intent
        return intent

    def _given(
        self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, intent: CreateIntent
    ) -> Mapping[ObjectKey, str] | None:
        """What the object's own lost create gave; None if nothing proves that it was sent from the present spec.

        Without what can be given in place, since that is given again.
        """
        resource, obj = self.resource, facts.obj
        lost = intent is facts.intent and not facts.view.deleting
        if not lost or intent.spec_hash != fingerprints(resource.immutable(obj)) or not refers(resource):
            return None
        ids = {key: cloud_id for key in resource.references(obj) if (cloud_id := self.cache.cloud_id_of(key))}
        again = {change.gives.id for change in resource.giving(obj, observed, ids) if change.gives is not None}
        return {key: cloud_id for key, cloud_id in ids.items() if cloud_id not in again}

    async def _reserve(self, facts: Facts[SpecT, StatusT, ObsT], memory: ManagedMemory, writer: ObjectWriter) -> None:
        """Record on the object what was granted for a start or a scale-up. Raises KubeError."""
        intent = self.guarding(facts)
        if facts.funded.reserve is not None and intent is not None:
            memory.intent = intent.model_copy(update={"reserved": self._reservation(facts, self.new_token())})
            await finalizer.guard(writer, facts.obj.metadata, memory.intent)

    def _reservation(self, facts: Facts[SpecT, StatusT, ObsT], token: str) -> Reservation | None:
        granted = facts.funded.reserve
        return None if granted is None else Reservation(token=token, cents=granted.cents, gpus=granted.gpus)

    def _name(self, metadata: ObjectMeta, attempt: int) -> str:
        return cloud_name(metadata.namespace, metadata.name, metadata.uid, self.installation.name, attempt)

    def _intent(self, facts: Facts[SpecT, StatusT, ObsT], name: str, attempt: int) -> CreateIntent:
        account, token = facts.usable_account.key, self.new_token()
        sent = self.resource.immutable(facts.obj) if legible(facts.obj) else {}
        return CreateIntent(
            token=token,
            name=name,
            attempt=attempt,
            spec_hash=fingerprints(sent),
            started_at=facts.now,
            account=f"{account.kind}/{account.name}",
            identity=self._identity(facts),
            part_of=part_of(facts.obj.status),
            reserved=self._reservation(facts, token),
            env_digest=facts.env_digest,
        )

    def _identity(self, facts: Facts[SpecT, StatusT, ObsT]) -> Identity:
        return identity_in(facts.usable_account, facts.obj.metadata, facts.key.kind, self.installation.name)

    def _as_called(self, facts: Facts[SpecT, StatusT, ObsT], intent: CreateIntent) -> CreateIntent:
        return as_called(intent, facts.usable_account, self._identity(facts))

    async def _create(
        self, facts: Facts[SpecT, StatusT, ObsT], intent: CreateIntent, memory: ManagedMemory, *, again: bool = False
    ) -> Result[ObsT]:
        """The result; a refusal says nothing about an earlier request of the same intent, which may have succeeded."""
        if not self.leading():
            raise kube.NotLeading
        account = facts.usable_account.key
        gone = self.cache.is_gone(account)  # it may go before it learns of this create from the intent
        if gone or unguarded(account, self.cache.get(account)):
            raise SupersededError
        first = intent.token in memory.unsent
        memory.unsent.clear()  # from here on nothing proves that it was not sent
        try:
            observed = await self._sent(
                facts, lambda cloud: self.resource.create(cloud, facts.obj, intent, facts.inputs), paying=True
            )
        except SupersededError:
            if first:
                memory.unsent.add(intent.token)
            raise
        except CloudError as error:
            if isinstance(error, CapacityExhausted):
                memory.full = (facts.obj.metadata.generation, facts.full + 1)
            # A name clash means that something of this name exists: search for it, do not count a refusal.
            clash = isinstance(error, Conflict) and not nameless(self.resource)
            if error.outcome is Outcome.UNKNOWN:
                memory.awaited = ("", 0.0)  # a webhook may name what this very request made
            unknown = again or error.outcome is Outcome.UNKNOWN or clash
            if first and not unknown:
                memory.unsent.add(intent.token)  # no search has to show it, whatever becomes of the next write
            return OutcomeUnknown(error, intent) if unknown else Rejected(error, intent)
        cloud_id, name = self.resource.identity(observed)
        memory.known = (cloud_id, self.clock())
        strange = self._strange_answer(facts.key, intent, cloud_id, name)
        differs = "; ".join(self.resource.of_another(facts.obj, intent, observed))
        strange = strange or (f"the answer is about {cloud_id}, which is something else: {differs}" if differs else "")
        if strange:
            # The next pass writes it on the object, whose intent may tell less of what was sent than this one.
            memory.intent = (memory.intent or intent).model_copy(update={"answered": cloud_id})
            return OutcomeUnknown(Unreadable("create", strange), intent)
        return Accepted(observed, self._as_called(facts, intent), facts.inputs.ids)

    def _strange_answer(self, key: ObjectKey, intent: CreateIntent, cloud_id: str, name: str) -> str:
        """Why the answer to the create is about something else; empty if nothing shows that."""
        if name and name != intent.name and not nameless(self.resource):
            return f"the answer is about {cloud_id}, named {name!r}, and {intent.name!r} was to be created"
        holders = self.cache.others(key, cloud_id)
        return about_anothers(cloud_id, holders) if holders else ""

    def _named(self, facts: Facts[SpecT, StatusT, ObsT], name: str) -> Change:
        return predicates.change_named(self.resource, facts.obj.status.id or "", facts.change, name)

    async def _change(self, facts: Facts[SpecT, StatusT, ObsT], change: Change, memory: ManagedMemory) -> Result[ObsT]:
        ending = facts.obj.status.id if change.name == actions.STOP else None
        result = await self._send(facts, change.send, change, ending=ending)
        lost = isinstance(result, Rejected) and result.error.outcome is Outcome.UNKNOWN and result.error.status is None
        if lost and change.name == actions.RESTART:
            # Nothing shows whether the cloud acted, and another restart would interrupt once more what runs. A cloud
            # that answers with an error has hardly acted: people's request is sent again.
            result = Sent(change, lost=True)
        if isinstance(result, Sent):
            memory.sent = SentChange(facts.obj.status.id or "", change.name, change.to, self.clock())
        memory.silent = _unheard(facts, actions.Update(change.name), result)
        return result

    async def _end(self, facts: Facts[SpecT, StatusT, ObsT], memory: ManagedMemory) -> Result[ObsT]:
        cloud_id = facts.obj.status.id or ""
        result = await self._terminate(facts, cloud_id)
        if isinstance(result, Sent):  # a refused one ends nothing: it is sent again, not waited for
            memory.terminated = (cloud_id, self.clock())
        memory.silent = _unheard(facts, actions.Delete(), result)
        return result

    async def _end_former(self, facts: Facts[SpecT, StatusT, ObsT], memory: ManagedMemory) -> Result[ObsT]:
        cloud_id = _known(facts.former).id
        result = await self._terminate(facts, cloud_id)
        if isinstance(result, Sent):
            memory.former_terminated = (cloud_id, self.clock())
        return result

    async def _terminate(self, facts: Facts[SpecT, StatusT, ObsT], cloud_id: str) -> Result[ObsT]:
        address = address_of(facts.obj.status, cloud_id)
        return await self._send(facts, lambda cloud: self.resource.delete(cloud, address), ending=cloud_id)

    async def _send(
        self,
        facts: Facts[SpecT, StatusT, ObsT],
        call: Callable[[Cloud], Awaitable[object]],
        change: Change | None = None,
        *,
        ending: str | None = None,
    ) -> Result[ObsT]:
        try:
            await self._sent(facts, call, ending=ending, paying=change is not None and change.pays)
        except NotFound:
            return Sent(change)  # the next look finds out what that means
        except CloudError as error:
            return Rejected(error)
        return Sent(change)

    async def _sent(
        self,
        facts: Facts[SpecT, StatusT, ObsT],
        call: Callable[[Cloud], Awaitable[AnswerT]],
        *,
        ending: str | None = None,
        paying: bool = False,
    ) -> AnswerT:
        """The answer. Raises CloudError, and SupersededError if nothing was sent and a new decision is needed.

        `ending` is the id of a resource that is stopped or ended, from which another one may be being made. `paying`:
        the budgets must still allow the call, if the kind has a price.
        """
        account, obj = facts.usable_account, facts.obj
        holds = fence(self.cache, facts.key, obj.metadata, ending or obj.status.id)
        spared = ending is not None and self.resource.is_source

        def stands() -> bool:
            afforded = not (paying and is_priced(self.resource)) or self.budgets.stands(facts.key, account)
            return afforded and holds() and not (spared and made_of(self.cache, facts.key))

        try:
            return await call(account.cloud.guarded(stands))
        except CloudError as error:
            if error.outcome is Outcome.NOT_SENT and not stands():
                raise SupersededError from error
            self.accounts.failed(account, error, facts.key)
            raise


def _unheard(facts: Facts[SpecT, StatusT, ObsT], action: ActionT, result: Result[ObsT]) -> ActionT | None:
    """The action, if the cloud answered it no more than the look before; None if it answered one of them."""
    unanswered = isinstance(result, Rejected) and isinstance(result.error, CloudUnavailable | Unreadable)
    return action if facts.error is not None and unanswered else None


def _known(part: KnownT | None) -> KnownT:
    assert part is not None, "the plan acts on something that the pass does not know"
    return part

"""Carries out one action: at most one change in the cloud, and the writes that must frame it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import JsonValue, ValidationError

from relay_client import Cloud
from relay_client.errors import CloudError, Conflict, NotFound, Outcome, Unauthorized
from relay_operator.api import meta
from relay_operator.api.meta import CreateIntent, ObjectMeta
from relay_operator.api.workload import CommonStatus, WorkloadSpec
from relay_operator.engine import kube
from relay_operator.engine.account import Accounts
from relay_operator.engine.intent import MAX_NAME, cloud_name, fingerprints
from relay_operator.engine.kube import JsonObject, Kube
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.memory import Memory
from relay_operator.flows.managed.resource import ExternalResource, Inputs
from relay_operator.flows.managed.result import Accepted, Nothing, OutcomeUnknown, Rejected, Result, Sent

SpecT = TypeVar("SpecT", bound=WorkloadSpec)
StatusT = TypeVar("StatusT", bound=CommonStatus)
ObsT = TypeVar("ObsT")


@dataclass(slots=True)
class Actor(Generic[SpecT, StatusT, ObsT]):
    """Acts for one kind. Raises KubeError where a write that must come first did not land: nothing was sent then."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    kube: Kube
    accounts: Accounts
    clock: Callable[[], float]
    new_token: Callable[[], str]
    leading: Callable[[], bool]
    """Whether this replica may still send something that is paid for."""
    on_object: Callable[[JsonObject], None]
    """Told of every object a write answered."""

    async def act(self, facts: Facts[SpecT, StatusT, ObsT], action: Action, memory: Memory) -> Result[ObsT]:
        """What came of it; refusals by the cloud are results, not exceptions."""
        match action:
            case actions.Create():
                return await self._create(facts, await self._open_intent(facts, memory), memory)
            case actions.Resend() if facts.intent is not None:
                return await self._create(facts, facts.intent, memory)
            case actions.Adopt() if facts.observed is not None:
                return Accepted(facts.observed, await self._intent_for_adoption(facts, facts.observed))
            case actions.Update(step) if facts.observed is not None:
                observed = facts.observed
                return await self._send(facts, lambda cloud: self.resource.update(cloud, facts.obj, observed, step))
            case actions.Delete():
                result = await self._send(facts, lambda cloud: self.resource.delete(cloud, facts.obj.status.id or ""))
                if isinstance(result, Sent):  # one that was refused ends nothing: it is sent again, not waited for
                    memory.terminated = (facts.obj.status.id or "", self.clock())
                return result
            case actions.Expire():
                metadata = facts.obj.metadata
                await self.kube.delete(self.resource.type, metadata.namespace, metadata.name, uid=metadata.uid)
                return Nothing()
            case actions.Release():
                await self._release(facts)
                return Nothing()
            case _:
                return Nothing()

    async def protect(self, facts: Facts[SpecT, StatusT, ObsT]) -> None:
        """Put back the finalizer and the intent where somebody took them from an object that has a resource."""
        obj, status = facts.obj, facts.obj.status
        guarded = meta.FINALIZER in obj.metadata.finalizers and meta.CREATE_INTENT in obj.metadata.annotations
        if guarded or not status.id or obj.metadata.deletion_timestamp is not None:
            return
        intent = facts.intent or CreateIntent(
            token=status.create_token or self.new_token(),
            name=(status.cloud_name or status.id)[:MAX_NAME],
            attempt=max(status.attempt or 0, 1),
            spec_hash=status.spec_hash or "",
            started_at=obj.metadata.creation_timestamp or facts.now,
            account=f"{status.account.kind}/{status.account.name}" if status.account is not None else "",
        )
        await self._write_intent(facts, intent)

    async def _open_intent(self, facts: Facts[SpecT, StatusT, ObsT], memory: Memory) -> CreateIntent:
        """Written before anything is sent, so that no crash can make a create look as if it had never been tried.

        Where the write's answer is lost, what is there decides; nobody but this pass can have sent it.
        """
        obj = facts.obj
        last = max(obj.status.attempt or 0, facts.intent.attempt if facts.intent is not None else 0)
        intent = CreateIntent(
            token=self.new_token(),
            name=cloud_name(obj.metadata.namespace, obj.metadata.name, obj.metadata.uid, last + 1),
            attempt=last + 1,
            spec_hash=fingerprints(self.resource.fields(obj)),
            started_at=facts.now,
            account=_account(facts),
        )
        memory.unsent.add(intent.token)
        try:
            await self._write_intent(facts, intent)
        except kube.Unavailable:
            if not await self._landed(facts, intent):
                raise
        return intent

    async def _landed(self, facts: Facts[SpecT, StatusT, ObsT], intent: CreateIntent) -> bool:
        """Whether the intent is written, on an object that still asks for the same."""
        metadata = facts.obj.metadata
        try:
            raw = await self.kube.get(self.resource.type, metadata.namespace, metadata.name)
            found = ObjectMeta.model_validate(raw.get("metadata"))
        except (kube.KubeError, ValidationError):
            return False
        self.on_object(raw)
        same = (found.uid, found.generation, found.deletion_timestamp) == (metadata.uid, metadata.generation, None)
        written = found.annotations.get(meta.CREATE_INTENT) == intent.to_annotation()
        return same and written and meta.FINALIZER in found.finalizers

    async def _intent_for_adoption(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT) -> CreateIntent:
        """The open intent where there is one, else a new one that names what was found."""
        obj, known = facts.obj, facts.intent
        guarded = meta.FINALIZER in obj.metadata.finalizers
        if known is not None and known.token != obj.status.create_token and guarded:
            return known
        cloud_id, name = self.resource.identity(observed)
        intent = CreateIntent(
            token=self.new_token(),
            name=(name or cloud_id)[:MAX_NAME],  # people name things in the cloud as they like
            attempt=max(obj.status.attempt or 0, 1),
            spec_hash=fingerprints(self.resource.fields(obj)),
            started_at=facts.now,
            account=_account(facts),
        )
        await self._write_intent(facts, intent)
        return intent

    async def _write_intent(self, facts: Facts[SpecT, StatusT, ObsT], intent: CreateIntent) -> None:
        metadata = facts.obj.metadata
        others: list[JsonValue] = [name for name in metadata.finalizers if name != meta.FINALIZER]
        body: JsonObject = {
            "resourceVersion": metadata.resource_version,
            "finalizers": [*others, meta.FINALIZER],
            "annotations": {meta.CREATE_INTENT: intent.to_annotation()},
        }
        self.on_object(await self.kube.patch(self.resource.type, metadata.namespace, metadata.name, {"metadata": body}))

    async def _create(self, facts: Facts[SpecT, StatusT, ObsT], intent: CreateIntent, memory: Memory) -> Result[ObsT]:
        account = facts.usable_account
        if not self.leading():
            raise kube.Unavailable(0, "NotLeading", "another replica may lead: nothing is sent")
        memory.unsent.clear()  # from here on nobody can say that
        try:
            observed = await self.resource.create(account.cloud, facts.obj, intent, facts.inputs or Inputs())
        except CloudError as error:
            if isinstance(error, Unauthorized):
                self.accounts.refused(account)
            # A name clash means that something of this name exists: look, do not count it as refused.
            unknown = error.outcome is Outcome.UNKNOWN or isinstance(error, Conflict)
            return OutcomeUnknown(error, intent) if unknown else Rejected(error, intent)
        return Accepted(observed, intent)

    async def _send(self, facts: Facts[SpecT, StatusT, ObsT], call: Callable[[Cloud], Awaitable[None]]) -> Result[ObsT]:
        account = facts.usable_account
        try:
            await call(account.cloud)
        except NotFound:
            return Sent()  # the next look says what that means
        except CloudError as error:
            if isinstance(error, Unauthorized):
                self.accounts.refused(account)
            return Rejected(error)
        return Sent()

    async def _release(self, facts: Facts[SpecT, StatusT, ObsT]) -> None:
        metadata = facts.obj.metadata
        remaining: list[JsonValue] = [finalizer for finalizer in metadata.finalizers if finalizer != meta.FINALIZER]
        body: JsonObject = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": remaining}}
        try:
            await self.kube.patch(self.resource.type, metadata.namespace, metadata.name, body)
        except kube.NotFound:
            return


def _account(facts: Facts[SpecT, StatusT, ObsT]) -> str:
    key = facts.usable_account.key
    return f"{key.kind}/{key.name}"

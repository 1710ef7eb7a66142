"""What a kind tells the managed flow: how one object maps to one resource of the cloud.

`ExternalResource` is what every kind says. The other protocols are for kinds that have what they are about; the flow
sees by the type which of them a kind has.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import Definition
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.parts import EnvFromSource, EnvVar
from relay_operator.api.references import HeldReference, ValueSource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.budgets.prices import Capacity
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import RESTART, START, STOP
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.shown_once import Life, Place

ObsT = TypeVar("ObsT")
ObjT_contra = TypeVar("ObjT_contra", contravariant=True)
ObsT_contra = TypeVar("ObsT_contra", contravariant=True)
SpecT_contra = TypeVar("SpecT_contra", contravariant=True)
StatusT_contra = TypeVar("StatusT_contra", contravariant=True)
FoundT_co = TypeVar("FoundT_co", covariant=True)
ResT = TypeVar("ResT")


class Progress(StrEnum):
    """What the cloud's state means for the object. A state nobody knows is PENDING."""

    PENDING = "Pending"
    READY = "Ready"
    DEGRADED = "Degraded"
    OFFLINE = "Offline"
    STOPPED = "Stopped"
    INTERRUPTED = "Interrupted"
    FAILED = "Failed"
    GONE = "Gone"


class Look(StrEnum):
    """How fresh an observation has to be."""

    EXACT = "exact"  # something changed, or will be changed: read this very resource
    ROUTINE = "routine"  # a settled object's poll: a listing shared with others will do


@dataclass(frozen=True, slots=True)
class Change:
    """One change that the cloud can make in place."""

    name: str
    """For people and the log, and to tell it from others: `stop`, `scale`."""
    reason: Reason
    """What is said while it is under way."""
    send: Callable[[Cloud], Awaitable[object]] = field(compare=False)
    """Raises CloudError."""
    to: str = ""
    """What is asked for, where the name does not say it."""
    told_by_webhook: bool = False
    """Whether the cloud sends an event when it is done."""
    pays: bool = False
    """Whether more is paid for once it is done."""
    gives: HeldReference | None = None
    """What the resource is given by it, which nothing that is read shows: status tells it."""


_POWER = {STOP: Reason.STOPPING, START: Reason.STARTING, RESTART: Reason.RESTARTING}


def power(name: str, send: Callable[[Cloud], Awaitable[object]]) -> Change:
    """A change of power; a restart ends as it began, so that no event tells of it."""
    return Change(name, _POWER[name], send, told_by_webhook=name != RESTART, pays=name == START)


@dataclass(frozen=True, slots=True)
class InputRefs:
    """What a spec takes from Secrets and ConfigMaps of its own namespace."""

    env: Sequence[EnvVar] = ()
    env_from: Sequence[EnvFromSource] = ()
    ssh_keys: Sequence[ValueSource] = ()
    texts: Mapping[str, ValueSource] = field(default_factory=dict)
    """Single texts, by what the kind calls them."""
    keys_field: str = "sshKeysFrom"
    """What the spec calls these keys."""
    registered: Sequence[ObjectKey] = ()
    """SshKeys, among those that the spec refers to, whose public keys come after these."""
    env_field: str = "envFrom"
    """What the spec calls `env_from`."""

    @property
    def any(self) -> bool:
        return bool(
            self.env_from
            or self.ssh_keys
            or self.registered
            or self.texts
            or any(item.value_from is not None for item in self.env)
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a create needs from elsewhere, resolved: never shown, since it may hold secrets."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssh_keys: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    ids: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Cloud ids of what the spec refers to, as far as they can be given."""
    model_id: str = ""
    """Which of `gpu.modelIds` this attempt asks for; empty if the spec names none."""


@dataclass(frozen=True, slots=True)
class Found(Generic[FoundT_co]):
    """The resource with that name."""

    resource: FoundT_co


@dataclass(frozen=True, slots=True)
class NotSeen:
    """A complete list does not have that name. Lists can lag: one is not proof."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The cloud has no way to find a resource by its name."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """There is more to look at than one pass may: the next one goes on."""


SearchResult: TypeAlias = Found[ObsT] | NotSeen | CannotTell | Unfinished


class ExternalResource(Protocol[SpecT, StatusT, ObsT]):
    """How one kind maps to the cloud. Methods with a `cloud` do I/O and raise CloudError; the others are pure."""

    @property
    def definition(self) -> Definition: ...

    @property
    def model(self) -> type[Resource[SpecT, StatusT]]: ...

    told_by_webhooks: frozenset[str] = frozenset()
    """States of which the cloud sends events (section 6)."""
    retention: timedelta | None = None
    """How long the cloud keeps what is interrupted, or stopped for want of funds; None: it does not say."""

    runs: bool = False
    """Whether it is Deploying and Running, though it is no workload with a power switch."""
    is_source: bool = False
    """Whether others are made of it: they hold it, its stop included, while they are being made and no longer."""
    mirrored: tuple[str, ...] = ()
    """Fields of status that an observation has under the same names."""

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> ObsT:
        """The resource with that id, or `address`. Raises NotFound."""
        ...

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[ObsT]:
        """The live resource with that name, after a bounded number of requests.

        `unclaimed` are ids that webhooks named and nobody owns; what is learned of them is kept there.
        """
        return CannotTell()

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Names by id, of all that lives, as far as lists and webhooks tell; a bounded number of requests."""
        return {}

    async def create(self, cloud: Cloud, obj: Resource[SpecT, StatusT], intent: CreateIntent, inputs: Inputs) -> ObsT:
        """Send one create. MUST do nothing that can fail after the cloud answered."""
        ...

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Terminate what has that id, or `address`. Repeatable; raises NotFound if it is gone."""
        ...

    def immutable(self, obj: Resource[SpecT, StatusT]) -> Mapping[str, JsonValue]:
        """What the cloud cannot change after create, by the spec's field names, defaults filled in, no secrets."""
        ...

    def differences(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> tuple[str, ...]:
        """Of `immutable`, those the cloud reports with another value, as `field: asked X, has Y`."""
        return ()

    def changes(self, obj: Resource[SpecT, StatusT], observed: ObsT, *, running: bool) -> tuple[Change, ...]:
        """What can be changed in place to be as asked, most urgent first, power apart; `running` is whether to run."""
        return ()

    def scopes(self, obj: Resource[SpecT, StatusT]) -> Sequence[str]:
        """What it opens to whoever has it: an account that is shared has to allow each."""
        return ()

    def progress(self, observed: ObsT) -> Progress: ...

    def identity(self, observed: ObsT) -> tuple[str, str]:
        """The cloud's id and name; the name is empty if the cloud does not tell."""
        ...

    def detail(self, observed: ObsT) -> str:
        """One sentence of what the cloud says, `statusReason` verbatim."""
        ...

    def status(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> StatusT:
        """`obj.status` with everything that mirrors the cloud filled in again, but not the id: that is the engine's."""
        return obj.status.model_copy(update=fit_schema(type(obj.status), self.told(obj, observed)))

    def told(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> Mapping[str, object]:
        """What status mirrors, by its field names: those that are `mirrored`, and whatever a kind adds."""
        return {name: getattr(observed, name) for name in self.mirrored}


@runtime_checkable
class TakesInputs(Protocol[ObjT_contra]):
    """Needs Secrets or ConfigMaps for its create."""

    def input_refs(self, obj: ObjT_contra) -> InputRefs:
        """Which ones."""
        ...


@runtime_checkable
class ChecksInputs(Protocol[ObjT_contra]):
    """Cannot use every text that a Secret or ConfigMap may hold."""

    def unusable(self, obj: ObjT_contra, inputs: Inputs) -> str | None:
        """A sentence that says what is wrong, where, and nothing of what a Secret holds."""
        ...


@runtime_checkable
class Refers(Protocol[ObjT_contra, ObsT_contra]):
    """Is given other objects of ours: waits for them, and they do not go before it does."""

    def references(self, obj: ObjT_contra) -> tuple[ObjectKey, ...]:
        """Those that the spec names, in the fields of `REFERENCES`."""
        ...

    def giving(self, obj: ObjT_contra, observed: ObsT_contra, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        """The changes by which a live resource gets what `status.references` does not tell, by the ids of those."""
        ...


@runtime_checkable
class ShownOnce(Protocol[SpecT_contra, StatusT_contra, ObjT_contra, ObsT_contra]):
    """Has a value that the answer to its create shows and nothing else: a Secret of the object's keeps it.

    Nothing that exists is adopted. What a create led to whose answer is lost is ended, and another is made.
    """

    def kept_in(self, obj: ObjT_contra) -> Place:
        """Where, in the object's own namespace."""
        ...

    def shown(self, observed: ObsT_contra) -> str:
        """The value; empty if this is not the answer to a create."""
        ...

    def life(self, spec: SpecT_contra, status: StatusT_contra) -> Life:
        """How long it opens anything, and when another takes its place."""
        ...


@runtime_checkable
class Nameless(Protocol[ObjT_contra, FoundT_co]):
    """Has no name in the cloud, or the one that people gave it, which does not tell whose it is.

    There is one at most of what a spec says, and before one is created it is looked for. So what is there after an open
    intent, whose look found none, is what that intent led to.
    """

    async def existing(self, cloud: Cloud, obj: ObjT_contra) -> FoundT_co | None:
        """The one that the spec asks for, as a list has it that began to be read after this was asked."""
        ...


@runtime_checkable
class Unnamed(Nameless[ObjT_contra, ResT], Protocol[ObjT_contra, ResT]):
    """Has no name in the cloud at all, and there may be several alike: then `existing` is None.

    What an open intent led to is the only one that equals what was sent and was made since.
    """

    async def alike(self, cloud: Cloud, obj: ObjT_contra) -> Sequence[ResT]:
        """All that live and equal everything that a create of this object sends and nothing changes later.

        As a complete list has them that began to be read after this was asked. Raises CloudError.
        """
        ...

    def made_at(self, observed: ResT) -> datetime | None:
        """When the cloud made it; None if it does not tell."""
        ...


@runtime_checkable
class PartOf(Protocol[ObjT_contra]):
    """Is part of another resource of the cloud: its status is a `PartStatus`, and ids are asked for by `address`.

    It holds what it was given only while its status says so.
    """

    def whole(self, obj: ObjT_contra) -> str:
        """The id of that, as the object that the spec refers to has it now; empty if it has none."""
        ...


@runtime_checkable
class BroughtIn(Protocol[ObjT_contra]):
    """Comes to the cloud by another way: it is adopted by the id that the spec names, and never created or ended."""

    def given_id(self, obj: ObjT_contra) -> str:
        """The cloud's id of it."""
        ...

    def end_asked(self, obj: ObjT_contra) -> bool:
        """Whether it is to be gone while its object stays."""
        ...


@runtime_checkable
class TriesModels(Protocol[ObjT_contra]):
    """Runs on one of several GPU models."""

    def models(self, obj: ObjT_contra) -> tuple[str, ...]:
        """Those to try, in order; empty if the cloud chooses."""
        ...


@runtime_checkable
class Connects(Protocol[ObsT_contra]):
    """Is reached at an endpoint."""

    def reached(self, observed: ObsT_contra) -> Reached | None:
        """Where; None if this observation does not tell all of it."""
        ...


@runtime_checkable
class Priced(Protocol[ObjT_contra, ObsT_contra]):
    """Is paid for by the hour, at the catalog's prices."""

    def capacity(self, obj: ObjT_contra, model_id: str) -> Capacity:
        """What the spec asks for; `model_id` is the GPU model of the next attempt, empty if the cloud chooses."""
        ...

    def grown(self, obj: ObjT_contra, observed: ObsT_contra) -> Capacity:
        """What there is once it runs as asked: on what it has, and with as many replicas as the cloud starts."""
        ...

    def untold(self, obj: ObjT_contra, observed: ObsT_contra) -> Capacity | None:
        """What there is, if the cloud does not report what that costs."""
        ...


@runtime_checkable
class Replaces(Protocol[ObjT_contra]):
    """Can be replaced without a gap, by another that is made beside it: its status is a `BlueGreenStatus`."""

    def drain(self, obj: ObjT_contra) -> timedelta | None:
        """How long the old one lives on after the new one has its place; None if the spec asks for no such thing."""
        ...


@runtime_checkable
class Powered(Protocol[ObsT_contra]):
    """Can be stopped and started."""

    def stop(self, observed: ObsT_contra) -> Change: ...

    def start(self, observed: ObsT_contra) -> Change: ...

    def restart(self, observed: ObsT_contra) -> Change: ...


# By the class, whose answer Python remembers: `isinstance` walks through all members of a protocol each time.
def takes_inputs(resource: object) -> TypeGuard[TakesInputs[Any]]:
    return issubclass(type(resource), TakesInputs)


def checks_inputs(resource: object) -> TypeGuard[ChecksInputs[Any]]:
    return issubclass(type(resource), ChecksInputs)


def refers(resource: object) -> TypeGuard[Refers[Any, Any]]:
    return issubclass(type(resource), Refers)


def shown_once(resource: object) -> TypeGuard[ShownOnce[Any, Any, Any, Any]]:
    return issubclass(type(resource), ShownOnce)


def nameless(resource: object) -> TypeGuard[Nameless[Any, Any]]:
    return issubclass(type(resource), Nameless)


def unnamed(resource: object) -> TypeGuard[Unnamed[Any, Any]]:
    return issubclass(type(resource), Unnamed)


def is_part(resource: object) -> TypeGuard[PartOf[Any]]:
    return issubclass(type(resource), PartOf)


def brought_in(resource: object) -> TypeGuard[BroughtIn[Any]]:
    return issubclass(type(resource), BroughtIn)


def tries_models(resource: object) -> TypeGuard[TriesModels[Any]]:
    return issubclass(type(resource), TriesModels)


def is_priced(resource: object) -> TypeGuard[Priced[Any, Any]]:
    return issubclass(type(resource), Priced)


def replaces(resource: object) -> TypeGuard[Replaces[Any]]:
    return issubclass(type(resource), Replaces)


def drain(resource: object, obj: object) -> timedelta | None:
    """As `Replaces` has it; None of what is not replaced."""
    return resource.drain(obj) if replaces(resource) else None


def is_powered(resource: object) -> TypeGuard[Powered[Any]]:
    return issubclass(type(resource), Powered)

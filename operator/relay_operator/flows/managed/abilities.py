"""What only some kinds of managed resources can do; the flow recognizes each ability by the type of a kind."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.prices import Capacity
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.resource import Change, FoundT_co, InputRefs, Inputs
from relay_operator.flows.managed.shown_once import Life, Place

ObjT_contra = TypeVar("ObjT_contra", contravariant=True)
ObsT_contra = TypeVar("ObsT_contra", contravariant=True)
SpecT_contra = TypeVar("SpecT_contra", contravariant=True)
StatusT_contra = TypeVar("StatusT_contra", contravariant=True)
ResT = TypeVar("ResT")


@runtime_checkable
class TakesInputs(Protocol[ObjT_contra]):
    """Needs Secrets or ConfigMaps for its create."""

    def input_refs(self, obj: ObjT_contra) -> InputRefs:
        """What the create needs from them."""


@runtime_checkable
class ChecksInputs(Protocol[ObjT_contra]):
    """Cannot use every text that a Secret or ConfigMap may hold."""

    def unusable(self, obj: ObjT_contra, inputs: Inputs) -> str | None:
        """A message that says what is wrong, and where, without quoting a Secret; None if all is usable."""


@runtime_checkable
class Refers(Protocol[ObjT_contra, ObsT_contra]):
    """Uses other objects of ours: waits for them, and they must not be deleted before it."""

    def references(self, obj: ObjT_contra) -> tuple[ObjectKey, ...]:
        """The objects that the spec names, in the fields of `REFERENCES`."""

    def giving(self, obj: ObjT_contra, observed: ObsT_contra, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        """The changes that give a live resource the objects that `status.references` lacks; `ids` has cloud ids."""


@runtime_checkable
class ShownOnce(Protocol[SpecT_contra, StatusT_contra, ObjT_contra, ObsT_contra]):
    """Has a value that only the answer to its create shows; a Secret of the object keeps it.

    An existing resource is not adopted. If the answer to a create is lost, its resource is ended and another created.
    """

    def kept_in(self, obj: ObjT_contra) -> Place:
        """Where the value is kept, in the object's own namespace."""

    def shown(self, observed: ObsT_contra) -> str:
        """The value; empty if this is not the answer to a create."""

    def life(self, spec: SpecT_contra, status: StatusT_contra) -> Life:
        """How long the value is valid, and when another replaces it."""


@runtime_checkable
class Nameless(Protocol[ObjT_contra, FoundT_co]):
    """Has no name in the cloud, or one that people gave it, which does not prove the owner.

    At most one resource exists for a spec, and a look precedes each create. So what exists after an open intent, whose
    look found none, is what that intent created.
    """

    async def existing(self, cloud: Cloud, obj: ObjT_contra) -> FoundT_co | None:
        """The resource that the spec describes, from a list whose read began after this call; None if there is none."""


@runtime_checkable
class Unnamed(Nameless[ObjT_contra, ResT], Protocol[ObjT_contra, ResT]):
    """Has no name in the cloud at all, and several may be alike: `existing` returns None.

    What an open intent created is the only one that equals what was sent and was created since.
    """

    async def alike(self, cloud: Cloud, obj: ObjT_contra) -> Sequence[ResT]:
        """All living resources that equal a create of this object in everything that nothing changes later.

        From a complete list whose read began after this call. Raises CloudError.
        """

    def made_at(self, observed: ResT) -> datetime | None:
        """When the cloud created it; None if it does not say."""


@runtime_checkable
class PartOf(Protocol[ObjT_contra]):
    """Is part of another resource, the whole: its status is a `PartStatus`, and it is found by an `address`.

    It holds the objects that it was given only while its status says so.
    """

    def whole(self, obj: ObjT_contra) -> str:
        """The whole's present id, from the object that the spec refers to; empty if that has none."""


@runtime_checkable
class BroughtIn(Protocol[ObjT_contra]):
    """Comes into the cloud by another way: the spec names its id to adopt, and it is never created or ended."""

    def given_id(self, obj: ObjT_contra) -> str:
        """The resource's id in the cloud."""

    def end_asked(self, obj: ObjT_contra) -> bool:
        """Whether the resource should end while its object stays."""


@runtime_checkable
class TriesModels(Protocol[ObjT_contra]):
    """Runs on one of several GPU models."""

    def models(self, obj: ObjT_contra) -> tuple[str, ...]:
        """The models to try, in order; empty if the cloud chooses."""


@runtime_checkable
class Connects(Protocol[ObsT_contra]):
    """Has an endpoint."""

    def reached(self, observed: ObsT_contra) -> Reached | None:
        """The endpoint; None if this observation lacks a part of it."""


@runtime_checkable
class Priced(Protocol[ObjT_contra, ObsT_contra]):
    """Has an hourly price, from the catalog."""

    def capacity(self, obj: ObjT_contra, model_id: str) -> Capacity:
        """The spec's capacity; `model_id` is the GPU model of the next attempt, empty if the cloud chooses."""

    def grown(self, obj: ObjT_contra, observed: ObsT_contra) -> Capacity:
        """The capacity once it runs as desired: on its present hardware, with as many replicas as the cloud starts."""

    def untold(self, obj: ObjT_contra, observed: ObsT_contra) -> Capacity | None:
        """The present capacity, if the cloud does not report its price; else None."""

    def locked(self, observed: ObsT_contra) -> int | None:
        """Cents per hour of one replica, as locked at the create; None if the cloud does not report it."""


@runtime_checkable
class Replaces(Protocol[ObjT_contra]):
    """Can be replaced without a gap by another that is created beside it; its status is a `BlueGreenStatus`."""

    def drain(self, obj: ObjT_contra) -> timedelta | None:
        """How long the old one lives on after the new one has its place; None if the spec does not request this."""


@runtime_checkable
class Powered(Protocol):
    """Can be stopped and started, by its id: a stop need not wait for a look."""

    def stop(self, cloud_id: str) -> Change: ...

    def start(self, cloud_id: str) -> Change: ...

    def restart(self, cloud_id: str) -> Change: ...


# By class, and remembered: `isinstance` checks all members of a protocol each time.
_is: Callable[[type, object], bool] = cache(issubclass)
_Guard: TypeAlias = Callable[[object], TypeGuard[ResT]]


def _guard(ability: type) -> _Guard[Any]:
    def has(resource: object) -> TypeGuard[Any]:
        return _is(type(resource), ability)

    return has


takes_inputs: _Guard[TakesInputs[Any]] = _guard(TakesInputs)
checks_inputs: _Guard[ChecksInputs[Any]] = _guard(ChecksInputs)
refers: _Guard[Refers[Any, Any]] = _guard(Refers)
shown_once: _Guard[ShownOnce[Any, Any, Any, Any]] = _guard(ShownOnce)
nameless: _Guard[Nameless[Any, Any]] = _guard(Nameless)
unnamed: _Guard[Unnamed[Any, Any]] = _guard(Unnamed)
is_part: _Guard[PartOf[Any]] = _guard(PartOf)
brought_in: _Guard[BroughtIn[Any]] = _guard(BroughtIn)
tries_models: _Guard[TriesModels[Any]] = _guard(TriesModels)
is_priced: _Guard[Priced[Any, Any]] = _guard(Priced)
replaces: _Guard[Replaces[Any]] = _guard(Replaces)
is_powered: _Guard[Powered] = _guard(Powered)


def drain(resource: object, obj: object) -> timedelta | None:
    """As `Replaces` has it; None for a kind that cannot be replaced."""
    return resource.drain(obj) if replaces(resource) else None

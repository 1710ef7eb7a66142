"""What a kind tells the engine: how one object maps to one resource of the cloud."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.parts import EnvFromSource, EnvVar
from relay_operator.api.references import ValueSource
from relay_operator.api.workload import CommonStatus, WorkloadSpec
from relay_operator.engine.kube import ResourceType
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import Step
from relay_operator.flows.managed.connection import Reached

SpecT = TypeVar("SpecT", bound=WorkloadSpec)
StatusT = TypeVar("StatusT", bound=CommonStatus)
ObsT = TypeVar("ObsT")
FoundT_co = TypeVar("FoundT_co", covariant=True)


class Progress(StrEnum):
    """What the cloud's state means for the object. A state nobody knows is PENDING."""

    PENDING = "Pending"
    READY = "Ready"
    DEGRADED = "Degraded"
    STOPPED = "Stopped"
    INTERRUPTED = "Interrupted"
    FAILED = "Failed"
    GONE = "Gone"


class Look(StrEnum):
    """How fresh an observation has to be."""

    EXACT = "exact"  # something changed, or will be changed: read this very resource
    ROUTINE = "routine"  # a settled object's poll: a listing shared with others will do


@dataclass(frozen=True, slots=True)
class Changes:
    """How the spec differs from the cloud: fields the cloud cannot change, and steps it can, in order."""

    forbidden: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class InputRefs:
    """What a spec takes from Secrets and ConfigMaps of its own namespace."""

    env: Sequence[EnvVar] = ()
    env_from: Sequence[EnvFromSource] = ()
    ssh_keys: Sequence[ValueSource] = ()

    @property
    def any(self) -> bool:
        return bool(self.env_from or self.ssh_keys or any(item.value_from is not None for item in self.env))


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a create needs from elsewhere, resolved: never shown, since it may hold secrets."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssh_keys: tuple[str, ...] = ()
    model_id: str = ""
    """Which of `gpu.modelIds` this attempt asks for; empty where the spec names none."""


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
    def kind(self) -> str: ...

    @property
    def type(self) -> ResourceType: ...

    told_by_webhooks: frozenset[str] = frozenset()
    """States of which the cloud sends events (section 6)."""
    retention: timedelta | None = None
    """How long the cloud keeps what is interrupted, or stopped for want of funds; None: it does not say."""

    def parse(self, body: bytes) -> Resource[SpecT, StatusT]:
        """The object, unknown fields ignored. Raises pydantic's ValidationError."""
        ...

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> ObsT:
        """The resource with that id. Raises NotFound."""
        ...

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[ObsT]:
        """The live resource with that name, after a bounded number of requests.

        `unclaimed` are ids that webhooks named and nobody owns; what is learned of them is kept there.
        """
        ...

    async def create(self, cloud: Cloud, obj: Resource[SpecT, StatusT], intent: CreateIntent, inputs: Inputs) -> ObsT:
        """Send one create. MUST do nothing that can fail after the cloud answered."""
        ...

    async def update(self, cloud: Cloud, obj: Resource[SpecT, StatusT], observed: ObsT, step: Step) -> None:
        """Make one change in place."""
        ...

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Terminate. Repeatable; raises NotFound where it is gone."""
        ...

    def fields(self, obj: Resource[SpecT, StatusT]) -> Mapping[str, JsonValue]:
        """What the cloud cannot change after create, by the spec's field names, defaults filled in, no secrets."""
        ...

    def models(self, obj: Resource[SpecT, StatusT]) -> tuple[str, ...]:
        """GPU models to try, in order; empty where the cloud chooses."""
        ...

    def input_refs(self, obj: Resource[SpecT, StatusT]) -> InputRefs:
        """What a create needs from Secrets and ConfigMaps."""
        ...

    def differences(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> tuple[str, ...]:
        """Of `fields`, those the cloud reports with another value, as `field: asked X, has Y`."""
        ...

    def steps(self, obj: Resource[SpecT, StatusT], observed: ObsT, *, running: bool) -> tuple[Step, ...]:
        """What can be changed in place to be as asked, most urgent first; `running` is the power asked for."""
        ...

    def progress(self, observed: ObsT) -> Progress: ...

    def identity(self, observed: ObsT) -> tuple[str, str]:
        """The cloud's id and name; the name is empty where the cloud does not tell."""
        ...

    def detail(self, observed: ObsT) -> str:
        """One sentence of what the cloud says, `statusReason` verbatim."""
        ...

    def reached(self, observed: ObsT) -> Reached | None:
        """Where it is reached; None where this observation does not tell all of it."""
        ...

    def status(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> StatusT:
        """`obj.status` with everything that mirrors the cloud filled in anew."""
        ...

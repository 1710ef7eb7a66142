"""What a kind tells the managed flow: how one object maps to one resource of the cloud.

`ExternalResource` is what every kind implements; `abilities.py` has what only some kinds can do.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import Definition
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.parts import EnvFromSource, EnvVar
from relay_operator.api.references import HeldReference, ValueSource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import RESTART, START, STOP

ObsT = TypeVar("ObsT")
FoundT_co = TypeVar("FoundT_co", covariant=True)


class Progress(StrEnum):
    """What the cloud's state means for the object; an unknown state is PENDING."""

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
    ROUTINE = "routine"  # a settled object's poll: a shared list will do


@dataclass(frozen=True, slots=True)
class Change:
    """One change that the cloud can make in place."""

    name: str
    """Its name among the kind's changes, for people and the log: `stop`, `scale`."""
    reason: Reason
    """The reason that is reported while it is in progress."""
    send: Callable[[Cloud], Awaitable[object]] = field(compare=False)
    """Sends the change. Raises CloudError."""
    to: str = ""
    """The desired value, if the name does not say it."""
    told_by_webhook: bool = False
    """Whether the cloud sends an event when it is done."""
    pays: bool = False
    """Whether the resource costs more once it is done."""
    gives: HeldReference | None = None
    """What it gives the resource, if no observation shows that: status records it."""


_POWER = {STOP: Reason.STOPPING, START: Reason.STARTING, RESTART: Reason.RESTARTING}


def power(name: str, send: Callable[[Cloud], Awaitable[object]]) -> Change:
    """A change of power; a restart ends in the state in which it began, so that no event reports it."""
    return Change(name, _POWER[name], send, told_by_webhook=name != RESTART, pays=name == START)


@dataclass(frozen=True, slots=True)
class InputRefs:
    """What a spec takes from Secrets and ConfigMaps of its own namespace."""

    env: Sequence[EnvVar] = ()
    env_from: Sequence[EnvFromSource] = ()
    ssh_keys: Sequence[ValueSource] = ()
    texts: Mapping[str, ValueSource] = field(default_factory=dict)
    """Single texts, by the kind's names for them."""
    keys_field: str = "sshKeysFrom"
    """The spec's field for `ssh_keys`."""
    registered: Sequence[ObjectKey] = ()
    """SshKeys that the spec refers to; their public keys follow `ssh_keys`."""
    env_field: str = "envFrom"
    """The spec's field for `env_from`."""

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
    """The resolved inputs of a create; never shown, since they may hold secrets."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssh_keys: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    ids: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Cloud ids of the objects that the spec refers to, as far as they can be used."""
    model_id: str = ""
    """The entry of `gpu.modelIds` that this attempt requests; empty if the spec names none."""


NO_INPUTS: Final = Inputs()


@dataclass(frozen=True, slots=True)
class Found(Generic[FoundT_co]):
    """The resource with the name."""

    resource: FoundT_co


@dataclass(frozen=True, slots=True)
class NotSeen:
    """A complete list lacks the name. Lists can lag, so that one list is not proof."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The cloud cannot find a resource by name."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """There is more to look at than one pass may: the next pass goes on."""


SearchResult: TypeAlias = Found[ObsT] | NotSeen | CannotTell | Unfinished


class ExternalResource(Protocol[SpecT, StatusT, ObsT]):
    """How one kind maps to the cloud. Methods with a `cloud` do I/O and raise CloudError; the others are pure."""

    @property
    def definition(self) -> Definition: ...

    @property
    def model(self) -> type[Resource[SpecT, StatusT]]: ...

    told_by_webhooks: frozenset[str] = frozenset()
    """States that the cloud reports with events (section 6)."""
    retention: timedelta | None = None
    """How long the cloud keeps what is interrupted, or stopped for lack of funds; None if it does not say."""

    costs_early: frozenset[str] = frozenset()
    """States in which it may cost something although it is PENDING: its runtime counts, and it can be stopped."""
    runs: bool = False
    """Whether its reasons are Deploying and Running, although it is not a workload with a power switch."""
    is_source: bool = False
    """Whether others are made from it: while that takes, and no longer, they keep it from being stopped or ended."""
    only_listed: bool = False
    """Whether only a list shows it: its object is not let go before the cloud was told to end it."""
    mirrored: tuple[str, ...] = ()
    """Fields of status that an observation has under the same names."""
    told_apart_by: tuple[str, ...] = ()
    """Fields of the spec by which `existing` knows the resource: it may be called if only others cannot be read."""

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> ObsT:
        """The resource with this id, or `address`. Raises NotFound."""

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[ObsT]:
        """Search for the live resource with this name, in a bounded number of requests.

        `unclaimed` are ids that webhooks named and no object owns; it also keeps what is learned of them.
        """
        return CannotTell()

    async def may_exist(self, cloud: Cloud, obj: Resource[SpecT, StatusT]) -> bool:
        """Whether `Nameless.existing` may have missed the resource, since a row does not show what it is."""
        return False

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Names by id of all living resources that lists and webhooks show; takes a bounded number of requests."""
        return {}

    async def create(self, cloud: Cloud, obj: Resource[SpecT, StatusT], intent: CreateIntent, inputs: Inputs) -> ObsT:
        """Send one create. MUST NOT do anything that can fail after the cloud answered."""

    def of_another(self, obj: Resource[SpecT, StatusT], intent: CreateIntent, made: ObsT) -> tuple[str, ...]:
        """What in the answer to this create shows that it is about something else, as `differences` tells it.

        Without the name: the flow compares it if the kind has names in the cloud.
        """
        return ()

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Terminate the resource with this id, or `address`. Repeatable; raises NotFound if it is gone."""

    def immutable(self, obj: Resource[SpecT, StatusT]) -> Mapping[str, JsonValue]:
        """What the cloud cannot change after the create, by spec field name, with defaults and without secrets."""

    def differences(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> tuple[str, ...]:
        """Those of `immutable` that the cloud reports with another value, as `field: asked X, has Y`."""
        return ()

    def changes(self, obj: Resource[SpecT, StatusT], observed: ObsT, *, running: bool) -> tuple[Change, ...]:
        """Changes in place towards the spec, most urgent first, without power; `running` is whether it should run."""
        return ()

    def scopes(self, obj: Resource[SpecT, StatusT]) -> Sequence[str]:
        """The scopes that it gives to whoever has it; a shared account has to allow each of them."""
        return ()

    def progress(self, observed: ObsT) -> Progress: ...

    def identity(self, observed: ObsT) -> tuple[str, str]:
        """The resource's id and name in the cloud; the name is empty if the cloud does not report it."""

    def detail(self, observed: ObsT) -> str:
        """One sentence about what the cloud says, with `statusReason` verbatim."""

    def status(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> StatusT:
        """`obj.status` with everything that mirrors the cloud updated, except the id, which the engine sets."""
        return obj.status.model_copy(update=self.mirror(obj, observed))

    def mirror(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> dict[str, object]:
        """What status mirrors, by its field names, within its bounds."""
        return fit_schema(type(obj.status), self.told(obj, observed))

    def told(self, obj: Resource[SpecT, StatusT], observed: ObsT) -> Mapping[str, object]:
        """What the cloud says of it, by fields of status: those that are `mirrored`, and what a kind adds."""
        return {name: getattr(observed, name) for name in self.mirrored}

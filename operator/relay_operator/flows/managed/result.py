"""What came of an action in the cloud."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias

from relay_client.errors import CloudError
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.actions import Nothing
from relay_operator.flows.managed.resource import Change, ObsT


@dataclass(frozen=True, slots=True)
class Accepted(Generic[ObsT]):
    """The resource is ours: created, or found and adopted. Its id must reach status whatever happens."""

    resource: ObsT
    intent: CreateIntent
    given: Mapping[ObjectKey, str] | None = None
    """Cloud ids of the objects that the create gave it; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The cloud accepted the call; its effect is still to be seen."""

    change: Change | None = None
    """None for a termination."""
    lost: bool = False
    """Whether its answer is lost, so that the cloud may not have acted."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The cloud refused the call, or it was not sent: nothing happened. `intent` is the attempt that ends with it."""

    error: CloudError
    intent: CreateIntent | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """A create may or may not have taken effect; its intent stays open."""

    error: CloudError
    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Switched(Generic[ObsT]):
    """Others use the new resource from now on, no longer the old one."""

    resource: ObsT


Result: TypeAlias = Nothing | Accepted[ObsT] | Sent | Rejected | OutcomeUnknown | Switched[ObsT]

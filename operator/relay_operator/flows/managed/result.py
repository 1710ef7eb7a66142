"""What came of an action."""

from dataclasses import dataclass
from typing import Generic, TypeAlias

from relay_client.errors import CloudError
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.actions import Nothing
from relay_operator.flows.managed.resource import Change, ObsT


@dataclass(frozen=True, slots=True)
class Accepted(Generic[ObsT]):
    """The resource is ours: created, or found and adopted. Its id must reach status whatever happens."""

    resource: ObsT
    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Sent:
    """The cloud took it; what it makes of it is yet to be seen."""

    change: Change | None = None
    """None: it was a termination."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The cloud said no, or was never asked: nothing happened. `intent` is the attempt this ends, if any."""

    error: CloudError
    intent: CreateIntent | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """A create may or may not have been acted upon; its intent stays open."""

    error: CloudError
    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Switched(Generic[ObsT]):
    """Others are led to the resource by now, and not to the old one any more."""

    resource: ObsT


Result: TypeAlias = Nothing | Accepted[ObsT] | Sent | Rejected | OutcomeUnknown | Switched[ObsT]

"""What came of an action."""

from dataclasses import dataclass
from typing import TypeAlias

from relay_client import CloudError
from relay_operator.api.inferencebatch import PartStatus
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.actions import Nothing
from relay_operator.flows.batch.work import WorkRefused, WorkTroubled
from relay_wire.batches import Batch


@dataclass(frozen=True, slots=True)
class Begun:
    """The intent is written."""

    intent: CreateIntent


@dataclass(frozen=True, slots=True)
class Paid:
    """The batch exists: its id must reach status whatever happens."""

    part: PartStatus
    batch: Batch


@dataclass(frozen=True, slots=True)
class NotPaid:
    """The cloud said no, or was never asked. `vanished`: the part's file is not in the cloud any more."""

    part: PartStatus
    error: CloudError
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A create may or may not have been acted upon; its marker stays."""

    part: PartStatus
    error: CloudError


@dataclass(frozen=True, slots=True)
class CancelRefused:
    """The cloud did not take the cancellation."""

    error: CloudError


@dataclass(frozen=True, slots=True)
class Hindered:
    """The output cannot be begun."""

    came: WorkRefused | WorkTroubled


Result: TypeAlias = Nothing | Begun | Paid | NotPaid | Unknown | CancelRefused | Hindered

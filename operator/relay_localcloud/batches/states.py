"""The transitions of a batch's status (section 3, "Batch status"; the triggers are assumed)."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from relay_wire.batches import BatchStatus


class Trigger(Enum):
    """What happens to a batch."""

    FOUND_VALID = auto()
    FOUND_INVALID = auto()
    ALL_RECORDS_DONE = auto()
    TIME_IS_UP = auto()
    CANCEL = auto()


MOVES: Final[Mapping[tuple[BatchStatus, Trigger], BatchStatus]] = {
    (BatchStatus.VALIDATING, Trigger.FOUND_VALID): BatchStatus.IN_PROGRESS,
    (BatchStatus.VALIDATING, Trigger.FOUND_INVALID): BatchStatus.FAILED,
    (BatchStatus.VALIDATING, Trigger.CANCEL): BatchStatus.CANCELLING,
    (BatchStatus.IN_PROGRESS, Trigger.ALL_RECORDS_DONE): BatchStatus.FINALIZING,
    (BatchStatus.IN_PROGRESS, Trigger.TIME_IS_UP): BatchStatus.FINALIZING,
    (BatchStatus.IN_PROGRESS, Trigger.CANCEL): BatchStatus.CANCELLING,
}
"""A missing entry does not happen: a cancellation is refused, and late work is dropped."""

ENDINGS: Final[Mapping[Trigger, BatchStatus]] = {
    Trigger.ALL_RECORDS_DONE: BatchStatus.COMPLETED,
    Trigger.TIME_IS_UP: BatchStatus.EXPIRED,
    Trigger.CANCEL: BatchStatus.CANCELLED,
}
"""The final status of a batch that this trigger moved to finalizing or cancelling."""

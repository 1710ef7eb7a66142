"""When the next step of a batch falls due: one item of the due-queue for each batch that has not ended."""

from typing import Final

from relay_localcloud.batches.rows import Batch
from relay_localcloud.kernel.instants import SECOND, seconds
from relay_localcloud.kernel.store import Tx

STEP: Final = "batch.step"
PHASE: Final = SECOND
"""How long validating, finalizing and cancelling take (assumed)."""


def schedule(tx: Tx, batch_id: str, due_at: int, *, time_is_up: bool = False) -> None:
    """Make the batch's next step fall due; replaces the one that was."""
    tx.schedule(due_at, STEP, batch_id, {"time_is_up": True} if time_is_up else None, lane=batch_id)


def schedule_record(tx: Tx, batch: Batch, after: int) -> None:
    """Make the next record be done its time after `after`, or the batch's time be up before that."""
    done_at = after + seconds(tx.settings.batch_record_seconds)
    if done_at > batch.expires_at:
        schedule(tx, batch.id, batch.expires_at, time_is_up=True)
    else:
        schedule(tx, batch.id, done_at)

"""Files and batches as they are stored, and the objects that show them (section 2; files are assumed)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Index, select, text

from relay_localcloud.batches.records import Problem, Progress
from relay_localcloud.batches.states import ENDINGS, MOVES, Trigger
from relay_localcloud.http.errors import not_found
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import DAY, HOUR, SECOND, seconds
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_wire.batches import FINAL, BatchStatus
from relay_wire.inference import Family

WINDOW: Final = 24 * HOUR
"""The completion window of a batch (section 8, "Batch completion window")."""

STEP: Final = "batch.step"
PHASE: Final = SECOND
"""The duration of validating, finalizing and cancelling (assumed)."""


@dataclass(frozen=True, slots=True)
class File:
    """A file; its content is on the disk (`storage.py`)."""

    sequence: int
    id: str
    organization_id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    deleted_at: int | None = None  # the row stays: a list may continue after a deleted file

    def as_json(self) -> dict[str, object]:
        """The file object."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": self.created_at // SECOND,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, and the progress of the work on it: what its files hold beyond these positions was not acknowledged."""

    sequence: int
    id: str
    organization_id: str
    status: BatchStatus
    endpoint: Family
    input_file_id: str
    model: str | None
    metadata: dict[str, str] | None
    problems: str | None  # a JSON array of the problems that validation found
    created_at: int
    expires_at: int
    ended_at: int | None
    ending: BatchStatus | None  # the status after finalizing or cancelling
    output_file_id: str
    error_file_id: str
    total: int = 0
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    records_done: int = 0
    records_wanted: int = 0  # the total, or fewer once the batch is cancelled
    input_offset: int = 0
    output_bytes: int = 0
    error_bytes: int = 0

    def as_json(self) -> dict[str, object]:
        """The batch object; optional fields without a value are left out."""
        ended = {} if self.ended_at is None else {f"{self.status}_at": self.ended_at // SECOND}
        usage = {name: getattr(self, name) for name in ("input_tokens", "output_tokens", "cost_nano_usd")}
        optional = {
            "model": self.model,
            "metadata": self.metadata,
            "output_file_id": self.output_file_id if self.status in FINAL and self.output_bytes else None,
            "error_file_id": self.error_file_id if self.status in FINAL and self.error_bytes else None,
            "usage": usage if self.completed + self.failed else None,
            "errors": None if self.problems is None else {"object": "list", "data": json.loads(self.problems)},
        }
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "created_at": self.created_at // SECOND,
            "expires_at": self.expires_at // SECOND,
            **ended,
            "request_counts": {name: getattr(self, name) for name in ("total", "completed", "failed")},
            **{name: value for name, value in optional.items() if value is not None},
        }


_NOT_DELETED: Final = text("deleted_at IS NULL")
FILES: Final = Rows(
    File,
    "files",
    Index("live_files", "organization_id", "sequence", sqlite_where=_NOT_DELETED),
    Index("live_files_of_purpose", "organization_id", "purpose", "sequence", sqlite_where=_NOT_DELETED),
    Index("deleted_files", "deleted_at", "id", sqlite_where=text("deleted_at IS NOT NULL")),
)
DELETED: Final = Remembered(FILES.table, "deleted_at")
BATCHES: Final = Rows(
    Batch,
    "batches",
    Index("batches_of_organization", "organization_id", "sequence"),
    Index("batches_of_input", "input_file_id"),
    Index("ended_batches", "ended_at", "id", sqlite_where=text("ended_at IS NOT NULL")),
)
ENDED: Final = Remembered(BATCHES.table, "ended_at", kept=30 * DAY)
_LIVE: Final = BATCHES.columns["status"].not_in(FINAL)


def require_room(tx: Tx, organization_id: str, size: int) -> None:
    """Refuse with 403 another file of this size if the organization's quotas do not allow it."""
    quotas.require(tx, organization_id, {quotas.FILES: 1, quotas.DELETED_FILES: 1, quotas.FILE_BYTES: size})


def keep_file(tx: Tx, organization_id: str, file_id: str, filename: str, purpose: str, size: int) -> File:
    """Create the file of a content that is on the disk."""
    named = {"filename": filename, "purpose": purpose, "bytes": size}
    return FILES.insert(tx, id=file_id, organization_id=organization_id, **named, created_at=tx.now)


def find_file(tx: Tx, organization_id: str, file_id: str) -> File:
    """A file; ApiError 404 if this organization has none with that id."""
    file = FILES.find(tx, id=file_id, organization_id=organization_id, deleted_at=None)
    if file is None:
        raise not_found("file", file_id)
    return file


def known_files(tx: Tx) -> set[str]:
    """The ids of all files of all organizations."""
    return {file.id for file in FILES.all(tx, deleted_at=None)}


def make(
    tx: Tx, organization_id: str, endpoint: Family, input_file_id: str, metadata: Mapping[str, str] | None
) -> Batch:
    """Create a batch that waits for its validation."""
    return BATCHES.insert(
        tx,
        id=tx.new_id("batch"),
        organization_id=organization_id,
        status=BatchStatus.VALIDATING,
        endpoint=endpoint,
        input_file_id=input_file_id,
        metadata=None if metadata is None else dict(metadata),
        created_at=tx.now,
        expires_at=tx.now + WINDOW,
        output_file_id=tx.new_id("file"),
        error_file_id=tx.new_id("file"),
    )


def find(tx: Tx, organization_id: str, batch_id: str) -> Batch:
    """A batch; ApiError 404 if this organization has none with that id."""
    batch = BATCHES.find(tx, id=batch_id, organization_id=organization_id)
    if batch is None:
        raise not_found("batch", batch_id)
    return batch


def move(tx: Tx, batch: Batch, trigger: Trigger, **values: object) -> bool:
    """Move to the next status with these values; False if the trigger does not apply to the batch's status."""
    following = MOVES.get((batch.status, trigger))
    if following is None:
        return False
    ended_at = {"ended_at": tx.now} if following in FINAL else {}
    if ended_at:
        ENDED.one_ended(tx)
    BATCHES.change(tx, batch.id, status=following, ending=ENDINGS.get(trigger), **ended_at, **values)
    return True


def end(tx: Tx, batch: Batch) -> None:
    """Move to the final status that was decided with finalizing or cancelling."""
    assert batch.ending is not None
    ENDED.one_ended(tx)
    BATCHES.change(tx, batch.id, status=batch.ending, ended_at=tx.now)


def add(tx: Tx, batch: Batch, progress: Progress) -> None:
    """Add the progress to the batch's counts and positions."""
    BATCHES.change(
        tx,
        batch.id,
        records_done=batch.records_done + progress.done,
        input_offset=progress.end,
        output_bytes=batch.output_bytes + len(progress.output),
        error_bytes=batch.error_bytes + len(progress.errors),
        completed=batch.completed + progress.completed,
        failed=batch.failed + progress.failed,
        input_tokens=batch.input_tokens + progress.usage.input_tokens,
        output_tokens=batch.output_tokens + progress.usage.output_tokens,
        cost_nano_usd=batch.cost_nano_usd + progress.usage.cost_nano_usd,
    )


def is_input_of_live_batch(tx: Tx, file_id: str) -> bool:
    """Whether a batch that has not ended reads this file."""
    return bool(BATCHES.first(tx, 1, _LIVE, input_file_id=file_id))


def contents_at_work(tx: Tx) -> dict[str, int]:
    """Files that live batches write and that are not in the table of files yet: their sizes by id."""
    places = [
        ((batch.output_file_id, batch.output_bytes), (batch.error_file_id, batch.error_bytes))
        for batch in BATCHES.all(tx, _LIVE)
    ]
    return {file_id: size for both in places for file_id, size in both}


def contents(tx: Tx) -> dict[str, int]:
    """The size of every content that must exist, by the id of its file."""
    written = {file_id: size for file_id, size in contents_at_work(tx).items() if size}
    return {file.id: file.bytes for file in FILES.all(tx, deleted_at=None)} | written


def problems_as_json(problems: Sequence[Problem]) -> str:
    """Problems in the column's format."""
    return json.dumps([asdict(problem) for problem in problems])


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the work that is due; `time_is_up`: the completion window has ended."""

    item_id: int
    batch: Batch
    due_at: int
    time_is_up: bool


def step(tx: Tx, item_id: int) -> Step | None:
    """The step of a due item; None if the item was replaced."""
    item = tables.due.c
    found = tx.connection.execute(select(item.subject, item.due_at, item.payload).where(item.id == item_id)).first()
    batch = None if found is None else BATCHES.find(tx, id=found.subject)
    if found is None or batch is None:
        return None
    return Step(item_id, batch, found.due_at, time_is_up=bool(json.loads(found.payload)))


def schedule(tx: Tx, batch_id: str, due_at: int, *, time_is_up: bool = False) -> None:
    """Schedule the one next step of a batch that has not ended, replacing the previous one."""
    tx.schedule(due_at, STEP, batch_id, {"time_is_up": True} if time_is_up else None, lane=batch_id)


def schedule_record(tx: Tx, batch: Batch, after: int) -> None:
    """Schedule the end of the next record, which begins at `after`, or the end of the window if that is earlier."""
    done_at = after + seconds(tx.settings.batch_record_seconds)
    if done_at > batch.expires_at:
        schedule(tx, batch.id, batch.expires_at, time_is_up=True)
    else:
        schedule(tx, batch.id, done_at)

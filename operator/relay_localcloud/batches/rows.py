"""Rows of batches, and the batch objects that they are shown as (section 2, "Batch job")."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, RowMapping, insert, select, update

from relay_localcloud.batches.records import Problem
from relay_localcloud.batches.result_lines import Progress
from relay_localcloud.batches.states import ENDINGS, MOVES, Trigger
from relay_localcloud.batches.tables import batches
from relay_localcloud.http.errors import not_found
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import HOUR, SECOND
from relay_localcloud.kernel.store import Tx
from relay_wire.batches import FINAL, BatchStatus
from relay_wire.inference import Family

WINDOW = 24 * HOUR
"""How long a batch has (section 8, "Batch completion window")."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What the work on a batch needs to know of it."""

    id: str
    organization_id: str
    status: BatchStatus
    endpoint: Family
    input_file_id: str
    model: str | None
    expires_at: int
    ending: BatchStatus | None
    records_done: int
    records_wanted: int
    total: int
    input_offset: int
    output_bytes: int
    error_bytes: int
    output_file_id: str
    error_file_id: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the work that is due; `time_is_up` says that it is the end of the completion window."""

    item_id: int
    batch: Batch
    due_at: int
    time_is_up: bool


@dataclass(frozen=True, slots=True)
class Order:
    """What a batch is created from."""

    organization_id: str
    endpoint: Family
    input_file_id: str
    metadata: Mapping[str, str] | None


_COLUMNS = [batches.c[name] for name in Batch.__dataclass_fields__]


def make(tx: Tx, order: Order) -> str:
    """Make a batch that waits for its validation, and answer its id."""
    values = {
        "id": tx.new_id("batch"),
        "status": BatchStatus.VALIDATING,
        "created_at": tx.now,
        "expires_at": tx.now + WINDOW,
        "output_file_id": tx.new_id("file"),
        "error_file_id": tx.new_id("file"),
        **asdict(order),
        "metadata": None if order.metadata is None else json.dumps(order.metadata),
    }
    tx.connection.execute(insert(batches), values)
    return str(values["id"])


def find(tx: Tx, organization_id: str, batch_id: str) -> RowMapping:
    """A batch's row; ApiError 404 where this organization has none of that id."""
    query = select(batches).where(batches.c.id == batch_id, batches.c.organization_id == organization_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise not_found("batch", batch_id)
    return row


def at_work(tx: Tx, batch_id: str) -> Batch | None:
    """A batch as its work sees it; None where there is none of that id."""
    return _read(tx, batches.c.id == batch_id)


def step(tx: Tx, item_id: int) -> Step | None:
    """The step that a due item stands for; None if it was replaced."""
    item = tables.due.c
    found = tx.connection.execute(select(item.subject, item.due_at, item.payload).where(item.id == item_id)).first()
    batch = None if found is None else at_work(tx, found.subject)
    if found is None or batch is None:
        return None
    return Step(item_id, batch, found.due_at, time_is_up=bool(json.loads(found.payload)))


def change(tx: Tx, batch_id: str, **values: object) -> None:
    """Write other values."""
    tx.connection.execute(update(batches).where(batches.c.id == batch_id).values(**values))


def move(tx: Tx, batch: Batch, trigger: Trigger, **values: object) -> bool:
    """Go to the next status with these values; False where this trigger moves nothing."""
    following = MOVES.get((batch.status, trigger))
    if following is None:
        return False
    ended_at = {"ended_at": tx.now} if following in FINAL else {}
    change(tx, batch.id, status=following, ending=ENDINGS.get(trigger), **ended_at, **values)
    return True


def end(tx: Tx, batch: Batch) -> None:
    """Go to the final status that was settled with finalizing or cancelling."""
    assert batch.ending is not None
    change(tx, batch.id, status=batch.ending, ended_at=tx.now)


def add(tx: Tx, batch: Batch, progress: Progress) -> None:
    """Count what was done."""
    counted = ("completed", "failed", "input_tokens", "output_tokens", "cost_nano_usd")
    change(
        tx,
        batch.id,
        records_done=batch.records_done + progress.done,
        input_offset=progress.end,
        output_bytes=batch.output_bytes + len(progress.output),
        error_bytes=batch.error_bytes + len(progress.errors),
        **{name: batches.c[name] + getattr(progress, name) for name in counted},
    )


def is_input_of_live_batch(tx: Tx, file_id: str) -> bool:
    """Whether a batch that has not ended reads this file."""
    query = select(batches.c.id).where(batches.c.input_file_id == file_id, batches.c.status.not_in(FINAL)).limit(1)
    return tx.connection.execute(query).first() is not None


def contents_at_work(tx: Tx) -> dict[str, int]:
    """The files that live batches write and that are not in the table of files yet: their sizes by id."""
    batch = batches.c
    query = select(batch.output_file_id, batch.output_bytes, batch.error_file_id, batch.error_bytes)
    found = tx.connection.execute(query.where(batch.status.not_in(FINAL))).all()
    return {file_id: size for row in found for file_id, size in (row[:2], row[2:])}


def problems_as_json(problems: Sequence[Problem]) -> str:
    """Problems as the column keeps them."""
    return json.dumps([asdict(problem) for problem in problems])


def shown(row: RowMapping) -> dict[str, object]:
    """The batch object; optional fields that it does not have are left out."""
    status = BatchStatus(row["status"])
    ended = {} if row["ended_at"] is None else {f"{status}_at": row["ended_at"] // SECOND}
    optional = {
        "model": row["model"],
        "metadata": None if row["metadata"] is None else json.loads(row["metadata"]),
        "output_file_id": row["output_file_id"] if status in FINAL and row["output_bytes"] else None,
        "error_file_id": row["error_file_id"] if status in FINAL and row["error_bytes"] else None,
        "usage": _usage(row) if row["completed"] + row["failed"] else None,
        "errors": None if row["problems"] is None else {"object": "list", "data": json.loads(row["problems"])},
    }
    return {
        "id": row["id"],
        "object": "batch",
        "endpoint": row["endpoint"],
        "input_file_id": row["input_file_id"],
        "completion_window": "24h",
        "status": status,
        "created_at": row["created_at"] // SECOND,
        "expires_at": row["expires_at"] // SECOND,
        **ended,
        "request_counts": {name: row[name] for name in ("total", "completed", "failed")},
        **{name: value for name, value in optional.items() if value is not None},
    }


def _usage(row: RowMapping) -> dict[str, int]:
    return {name: row[name] for name in ("input_tokens", "output_tokens", "cost_nano_usd")}


def _read(tx: Tx, condition: ColumnElement[bool]) -> Batch | None:
    row = tx.connection.execute(select(*_COLUMNS).where(condition)).mappings().first()
    if row is None:
        return None
    ending = None if row["ending"] is None else BatchStatus(row["ending"])
    values = {**row, "status": BatchStatus(row["status"]), "endpoint": Family(row["endpoint"]), "ending": ending}
    return Batch(**values)

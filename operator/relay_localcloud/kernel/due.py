"""The persisted due-queue: the only timer of the local cloud.

An item falls due at an instant of the cloud's clock. There is at most one per `kind` and `subject`: scheduling again
replaces it. Items are ordered by `due_at`, then by when they were scheduled. Items with a `lane` take real time and run
concurrently (`clock/outbound.py`): calls to webhook receivers, and the work of batches; all others are transitions, run
by a `DueHandler`, each in a transaction of its own whose `now` is exactly `due_at`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from sqlalchemy import Connection, bindparam, delete, insert, select

from relay_localcloud.kernel import tables
from relay_localcloud.kernel.prepared import Prepared

if TYPE_CHECKING:
    from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True)
class DueItem:
    """Something that happens to `subject` (an id) at `due_at`; `payload` is data from the scheduler."""

    id: int
    due_at: int
    kind: str
    subject: str
    lane: str | None
    payload: Mapping[str, JsonValue]


@dataclass(frozen=True, order=True, slots=True)
class QueuedCall:
    """An outbound due item: when it falls due, its id, and its lane, such as a webhook."""

    due_at: int
    item_id: int
    lane: str


_SCHEDULE = Prepared(insert(tables.due).prefix_with("OR REPLACE"))
_CANCEL = Prepared(
    delete(tables.due).where(tables.due.c.kind == bindparam("of_kind"), tables.due.c.subject == bindparam("of_subject"))
)
_IS_SCHEDULED = Prepared(
    select(tables.due.c.id).where(
        tables.due.c.kind == bindparam("of_kind"), tables.due.c.subject == bindparam("of_subject")
    )
)
_REMOVE = Prepared(delete(tables.due).where(tables.due.c.id == bindparam("item")))
_TAKE = Prepared(delete(tables.due).where(tables.due.c.id == bindparam("item")).returning(tables.due.c.payload))
_NEXT_TRANSITION = Prepared(
    select(tables.due).where(tables.due.c.lane.is_(None)).order_by(tables.due.c.due_at, tables.due.c.id).limit(1)
)

DueHandler = Callable[["Tx", DueItem], None]
"""Runs a transition. The item is already off the queue; the handler may schedule it again."""


def schedule(
    connection: Connection,
    due_at: int,
    kind: str,
    subject: str,
    payload: Mapping[str, JsonValue],
    lane: str | None = None,
) -> int:
    """Put an item on the queue, replacing one of the same kind and subject; returns the item's id."""
    text = json.dumps(payload) if payload else "{}"
    written = _SCHEDULE.run(connection, id=None, due_at=due_at, kind=kind, subject=subject, lane=lane, payload=text)
    return written.lastrowid or 0


def cancel(connection: Connection, kind: str, subject: str) -> None:
    """Take an item off the queue, if it is there."""
    _CANCEL.run(connection, of_kind=kind, of_subject=subject)


def last_id(connection: Connection) -> int:
    """The id of the item that was scheduled last, even if it is off the queue; 0 if none was. Later ids are larger."""
    return int(connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'due'").scalar() or 0)


def begin_after(connection: Connection, item_id: int) -> None:
    """Give items that are scheduled from now on larger ids than this one."""
    if last_id(connection) < item_id:
        connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = 'due'")
        connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES ('due', ?)", (item_id,))


def is_scheduled(connection: Connection, kind: str, subject: str) -> bool:
    """Whether such an item is on the queue."""
    return _IS_SCHEDULED.run(connection, of_kind=kind, of_subject=subject).fetchone() is not None


def remove(connection: Connection, item_id: int) -> bool:
    """Take exactly this item off the queue; False if it has been cancelled or replaced."""
    return _REMOVE.run(connection, item=item_id).rowcount == 1


def taken(connection: Connection, item_id: int) -> Mapping[str, JsonValue] | None:
    """Take exactly this item off the queue and return its payload; None if it has been cancelled or replaced."""
    row = _TAKE.run(connection, item=item_id).fetchone()
    payload: Mapping[str, JsonValue] | None = None if row is None else json.loads(row[0])
    return payload


def next_transition(connection: Connection) -> DueItem | None:
    """The transition that falls due first."""
    row = _NEXT_TRANSITION.run(connection).fetchone()
    return None if row is None else _item(row)


def queued_calls(connection: Connection, kind: str) -> list[QueuedCall]:
    """All outbound items of a kind on the queue, including those under way."""
    item = tables.due.c
    query = select(item.due_at, item.id, item.lane).where(item.lane.is_not(None), item.kind == kind)
    return [QueuedCall(row.due_at, row.id, row.lane) for row in connection.execute(query)]


def _item(row: tuple[Any, ...]) -> DueItem:
    number, due_at, kind, subject, lane, payload = row
    return DueItem(number, due_at, kind, subject, lane, json.loads(payload))

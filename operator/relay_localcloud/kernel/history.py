"""Former versions of rows, so that a read can answer as of a past instant (the fault `staleSeconds`).

While a fault reads the past, temporary triggers keep, in memory, each row as it was before a change, with the instant
of the change; tables in `UNREAD` are left out. `overlay` then shadows the tables with views of the same names, so that
every read in that transaction reads the past.
The newest `KEPT` changes of a table are remembered, fewer if all tables together would take more than `LARGEST`;
a read from before those, before the fault or before a restart sees the present rows.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from sqlalchemy import Table

from relay_localcloud.kernel.schema import metadata

UNREAD: Final = frozenset(
    {
        "addresses",
        "attached_ssh_keys",
        "audit",
        "charges",
        "due",
        "faults",
        "gateway_upstreams",
        "inference_charges",
        "invites",
        "meta",
        "outbox",
        "quotas",
        "recharge_attempts",
        "sessions",
        "ssh_host_keys",
        "transfers",
        "waiting_clusters",
        "waiting_deployments",
        "webhook_deliveries",
    }
)
"""Tables from which the API never reads an answer that can be of the past."""

KEPT: Final = 10_000
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of memory that the past may take: one change keeps a whole row, and rows contain environments."""

_REMEMBERED: Final = {"INSERT": "NEW", "UPDATE": "OLD", "DELETE": "OLD"}
"""For each kind of change, the version of the row that identifies it."""

_lag: ContextVar[int] = ContextVar("lag", default=0)


@contextmanager
def reading_as_of(lag: int) -> Iterator[None]:
    """Let transactions that this task opens inside read as of `lag` microseconds ago."""
    token = _lag.set(lag)
    try:
        yield
    finally:
        _lag.reset(token)


def current_lag() -> int:
    """How far in the past this task reads, in microseconds."""
    return _lag.get()


def begin(raw: sqlite3.Connection, now: Callable[[], int]) -> None:
    """Remember every change of the tracked tables from here on; `now` is the cloud's time of the open transaction."""
    raw.create_function("cloud_now", 0, now)
    for table in _tracked():
        for statement in _bookkeeping(table):
            raw.execute(statement)


def end(raw: sqlite3.Connection) -> None:
    """Forget all changes, and stop remembering."""
    for table in _tracked():
        for event in _REMEMBERED:
            raw.execute(f"DROP TRIGGER temp.past_{table.name}_{event}")
        raw.execute(f"DROP TABLE temp.past_{table.name}")


def shorten(raw: sqlite3.Connection) -> None:
    """Forget the older half of every table's past if all together take more than `LARGEST`."""
    if _taken(raw) <= LARGEST:
        return
    for table in _tracked():
        past = f"temp.past_{table.name}"
        raw.execute(f"DELETE FROM {past} WHERE nr <= (SELECT (min(nr) + max(nr)) / 2 FROM {past})")  # noqa: S608 - names of this program


@contextmanager
def overlay(raw: sqlite3.Connection, then: int) -> Iterator[None]:
    """Shadow the tracked tables with their rows at `then`; for reads only."""
    for table in _tracked():
        raw.execute(_view(table, then))
    yield
    for table in _tracked():  # if an exception skips this, the rollback drops the views
        raw.execute(f"DROP VIEW temp.{table.name}")


def _tracked() -> list[Table]:
    return [table for name, table in metadata.tables.items() if name not in UNREAD]


def _taken(raw: sqlite3.Connection) -> int:
    pages, free, size = (
        int(raw.execute(f"PRAGMA temp.{what}").fetchone()[0]) for what in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _bookkeeping(table: Table) -> Iterator[str]:
    past, columns = f"past_{table.name}", [column.name for column in table.columns]
    names = ", ".join(columns)
    yield f"CREATE TEMP TABLE {past} (nr INTEGER PRIMARY KEY, row, until, existed, {names})"
    yield f"CREATE INDEX temp.{past}_of_row ON {past} (row, until)"
    before = ", ".join(f"OLD.{name}" for name in columns)
    nothing = ", ".join("NULL" for _ in columns)
    for event, version in _REMEMBERED.items():
        existed, values = (1, before) if version == "OLD" else (0, nothing)
        yield (
            f"CREATE TEMP TRIGGER {past}_{event} AFTER {event} ON main.{table.name} BEGIN "  # noqa: S608 - see above
            f"INSERT INTO {past} (row, until, existed, {names}) "
            f"VALUES ({_identity(table, version)}, cloud_now(), {existed}, {values}); "
            f"DELETE FROM {past} WHERE nr <= last_insert_rowid() - {KEPT}; END"
        )


def _identity(table: Table, version: str) -> str:
    """SQL for what identifies a row: its rowid, or its key as JSON."""
    if table.dialect_options["sqlite"]["with_rowid"]:
        return f"{version}.rowid"
    return f"json_array({', '.join(f'{version}.{column.name}' for column in table.primary_key)})"


def _view(table: Table, then: int) -> str:
    past, columns = f"temp.past_{table.name}", ", ".join(column.name for column in table.columns)
    identity = _identity(table, "present")
    return (
        f"CREATE TEMP VIEW {table.name} AS "  # noqa: S608 - names of this program, and an integer
        f"SELECT {identity} AS rowid, {columns} FROM main.{table.name} AS present "
        f"WHERE NOT EXISTS (SELECT 1 FROM {past} AS p WHERE p.row = {identity} AND p.until > {then:d}) "
        f"UNION ALL SELECT row AS rowid, {columns} FROM {past} AS p WHERE p.until > {then:d} AND p.existed "
        f"AND p.nr = (SELECT min(q.nr) FROM {past} AS q WHERE q.row = p.row AND q.until > {then:d})"
    )

"""What rows were, so that a read can answer as of a while ago (the fault `staleSeconds`).

Temporary triggers keep, in memory, each row as it was before a change, with the instant of the change; not those of
tables that are `UNREAD`. `overlay` then puts views of the tables' names before the tables: whatever reads in that
transaction reads the past.
The newest `KEPT` changes of a table are remembered; before those, and before a restart, all counts as it is.
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
        "charges",
        "claims",
        "due",
        "faults",
        "gateway_upstreams",
        "inference_charges",
        "invites",
        "meta",
        "outbox",
        "recharge_attempts",
        "sessions",
        "transfers",
        "vm_logs",
        "waiting_clusters",
        "waiting_deployments",
        "webhook_deliveries",
    }
)
"""The tables that no read of the API answers from."""

KEPT: Final = 10_000

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
    """How far behind this task reads, in microseconds."""
    return _lag.get()


def track(raw: sqlite3.Connection, now: Callable[[], int]) -> None:
    """Remember every change of the tracked tables from here on; `now` is the cloud's time of the open transaction."""
    raw.execute("PRAGMA temp_store=MEMORY")
    raw.create_function("cloud_now", 0, now)
    for table in _tracked():
        for statement in _bookkeeping(table):
            raw.execute(statement)


def forget(raw: sqlite3.Connection) -> None:
    """Remember nothing of a state that was replaced."""
    for table in _tracked():
        raw.execute(f"DELETE FROM temp.past_{table.name}")  # noqa: S608 - names of this program


@contextmanager
def overlay(raw: sqlite3.Connection, then: int) -> Iterator[None]:
    """Put the tracked tables as they were at `then` before the tables themselves; reads only."""
    for table in _tracked():
        raw.execute(_view(table, then))
    yield
    for table in _tracked():  # where an exception leaves them, the rollback takes them away
        raw.execute(f"DROP VIEW temp.{table.name}")


def _tracked() -> list[Table]:
    return [table for name, table in metadata.tables.items() if name not in UNREAD]


def _bookkeeping(table: Table) -> Iterator[str]:
    past, columns = f"past_{table.name}", [column.name for column in table.columns]
    names = ", ".join(columns)
    yield f"CREATE TEMP TABLE {past} (nr INTEGER PRIMARY KEY, row, until, existed, {names})"
    yield f"CREATE INDEX temp.{past}_of_row ON {past} (row, until)"
    before = ", ".join(f"OLD.{name}" for name in columns)
    nothing = ", ".join("NULL" for _ in columns)
    remembered = (("INSERT", "NEW", 0, nothing), ("UPDATE", "OLD", 1, before), ("DELETE", "OLD", 1, before))
    for event, version, existed, values in remembered:
        yield (
            f"CREATE TEMP TRIGGER {past}_{event} AFTER {event} ON main.{table.name} BEGIN "  # noqa: S608 - see above
            f"INSERT INTO {past} (row, until, existed, {names}) "
            f"VALUES ({version}.rowid, cloud_now(), {existed}, {values}); "
            f"DELETE FROM {past} WHERE nr <= last_insert_rowid() - {KEPT}; END"
        )


def _view(table: Table, then: int) -> str:
    past, columns = f"temp.past_{table.name}", ", ".join(column.name for column in table.columns)
    return (
        f"CREATE TEMP VIEW {table.name} AS "  # noqa: S608 - names of this program, and an integer
        f"SELECT rowid AS rowid, {columns} FROM main.{table.name} AS present "
        f"WHERE NOT EXISTS (SELECT 1 FROM {past} AS p WHERE p.row = present.rowid AND p.until > {then:d}) "
        f"UNION ALL SELECT row AS rowid, {columns} FROM {past} AS p WHERE p.until > {then:d} AND p.existed "
        f"AND p.nr = (SELECT min(q.nr) FROM {past} AS q WHERE q.row = p.row AND q.until > {then:d})"
    )

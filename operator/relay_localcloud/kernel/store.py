"""State in SQLite: one connection, one writer, every transaction immediate and synchronous on the event loop's thread.

    with store.transaction() as tx:
        tx.connection.execute(insert(pods).values(id=tx.new_id("pod"), created_at=tx.now))
        tx.schedule(tx.now + DAY, "pod.retention", pod_id)

Contract: never `await` inside a transaction, so nothing can come between its statements; endpoints are `async def`, so
they run on this thread; leave the block (which commits) before answering. An exception rolls everything back.
"""

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, cast

from pydantic import JsonValue
from sqlalchemy import Connection, StaticPool, Table, bindparam, create_engine, delete, insert, select

from relay_localcloud.kernel import counts, disk, due, history, migrations, tables
from relay_localcloud.kernel.counts import Totals
from relay_localcloud.kernel.disk import InUseError, StateError, Unwritable
from relay_localcloud.kernel.due import QueuedCall
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import SCHEMA_VERSION, metadata
from relay_localcloud.runtimes.runtime import Runtime
from relay_localcloud.settings import Settings

_STATEMENTS = 1_000
"""How many compiled statements SQLite keeps: enough for all of them."""

_LETTERS_KEPT = 1_000
"""E-mails of each organization in the outbox."""

_READ_META = Prepared(select(tables.meta.c.value).where(tables.meta.c.name == bindparam("of_name")))
_letter = tables.outbox.c
_OF_ORGANIZATION = _letter.organization_id == bindparam("organization")
_DROP_LETTERS = Prepared(
    delete(tables.outbox).where(
        _OF_ORGANIZATION,
        _letter.sequence
        <= select(_letter.sequence)
        .where(_OF_ORGANIZATION)
        .order_by(_letter.sequence.desc())
        .offset(_LETTERS_KEPT)
        .limit(1)
        .correlate(None)
        .scalar_subquery(),
    )
)
_WRITE_META = Prepared(insert(tables.meta).prefix_with("OR REPLACE"))
_REMOVE_META = Prepared(delete(tables.meta).where(tables.meta.c.name == bindparam("of_name")))


Emitted = Callable[["Tx", str, str, Mapping[str, JsonValue]], None]
"""Records an event; its arguments: the organization, the type, the data."""

RuntimeOf = Callable[["Tx"], Runtime]
"""Gives a transaction its runtime."""


@dataclass
class Tx:
    """One transaction, and its operations. `now` is the cloud's time, fixed for the transaction."""

    connection: Connection
    now: int
    settings: Settings
    _emitted: "Emitted"
    beyond_loopback: bool
    _runtime_of: "RuntimeOf"
    _after_commit: list[Callable[[], None]] = field(default_factory=list)
    _queue_changed: bool = False
    _calls: list[tuple[str, QueuedCall]] = field(default_factory=list)
    _notes: "list[Callable[[Tx], None]]" = field(default_factory=list)

    @property
    def runtime(self) -> Runtime:
        """The runtime of this cloud: code that changes the desired state of a workload notifies it."""
        return self._runtime_of(self)

    def schedule(
        self,
        due_at: int,
        kind: str,
        subject: str,
        payload: Mapping[str, JsonValue] | None = None,
        *,
        lane: str | None = None,
    ) -> None:
        """Make `kind`'s handler run for `subject` at `due_at`; replaces an earlier item of the same two.

        `lane` makes it outbound (`clock/outbound.py`): it takes real time, and runs concurrently with other lanes.
        """
        item_id = due.schedule(self.connection, due_at, kind, subject, payload or {}, lane)
        if lane is None:
            self._queue_changed = True
        else:
            self._calls.append((kind, QueuedCall(due_at, item_id, lane)))

    def cancel(self, kind: str, subject: str) -> None:
        """Cancel a scheduled item, if there is one."""
        due.cancel(self.connection, kind, subject)
        self._queue_changed = True

    def emit(self, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
        """Tell the organization's webhooks of an event of section 6; durable with this transaction, sent at once."""
        self._emitted(self, organization_id, event_type, data)

    def email(self, organization_id: str, to: str, subject: str, body: str) -> None:
        """Write an e-mail to the outbox, which keeps the newest 1,000 of each organization."""
        values = {"at": self.now, "organization_id": organization_id, "recipient": to, "subject": subject, "body": body}
        self.connection.execute(insert(tables.outbox), values)
        _DROP_LETTERS.run(self.connection, organization=organization_id)

    def new_id(self, prefix: str) -> str:
        """Create an identifier that has never been used, such as `pod_3f...`."""
        return f"{prefix}_{secrets.token_hex(10)}"

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once this transaction is on disk, and never if it rolls back."""
        self._after_commit.append(callback)

    def note(self, write: "Callable[[Tx], None]") -> None:
        """Write something of little importance once this transaction is on disk; it is left out if the disk is full."""
        self._notes.append(write)


class Store:
    """The one connection, and facts that are cached beside it because they are read often."""

    def __init__(self, connection: Connection, directory: Path | None = None, lock: IO[str] | None = None) -> None:
        self.directory = directory
        """Where the state is kept; None if it is only in memory."""
        self._connection = connection
        self._raw = cast("sqlite3.Connection", connection.connection.driver_connection)
        counts.open_totals(self._raw)
        self._now = 0
        self._remembers = False
        self._watches = count()
        self._lock = lock
        self._open = False
        self.settings = _read_settings(connection)
        self.beyond_loopback = False
        """Whether other machines can reach this cloud."""
        self.current_time: Callable[[], int] = lambda: 0
        """Gives the `now` of a transaction; the clock sets it, and runs what fell due before it answers."""
        self.queue_changed: Callable[[], None] = lambda: None
        """Called once a transaction that scheduled or cancelled a transition is on disk; the clock sets it."""
        self.emitted: Emitted = lambda *_: None
        """Called in the transaction that emits an event; `webhooks/` sets it."""
        self.runtime_of: RuntimeOf = _nothing_runs
        """Gives a transaction its `runtime`; `app.py` sets it."""
        self.call_queued: dict[str, Callable[[QueuedCall], None]] = {}
        """By kind: called once a scheduled outbound item is on disk; `clock/outbound.py` sets it."""

    @classmethod
    def ephemeral(cls) -> "Store":
        """State in memory, which is lost with the process."""
        return cls(_connect(":memory:"))

    @classmethod
    def at(cls, directory: Path) -> "Store":
        """State in a directory, which is created if missing; raises StateError if it cannot be used, or is in use."""
        with disk.opening(directory):
            disk.keep_private(directory, "lock", "state.db")
            lock = _lock(directory / "lock")
            return cls(_connect(str(directory / "state.db")), directory, lock)

    @property
    def has_room(self) -> bool:
        """Whether the disk has more free space than the reserve, which is for stopping, ending and due items."""
        return self.directory is None or disk.free_bytes(self.directory) > self.settings.disk_reserve_bytes

    @property
    def revision(self) -> int:
        """A number that increases with every change."""
        return self._raw.total_changes

    @contextmanager
    def transaction(self, at: int | None = None) -> Iterator[Tx]:
        """Everything inside happens, or nothing does; `at` is its time, by default the clock's; due items pass theirs.

        Raises Unwritable if the disk is full or fails.
        """
        lag = history.current_lag() if at is None and self._remembers else 0
        now = (self.current_time() if at is None else at) - lag
        if self._open:
            raise RuntimeError("a transaction is open already: pass its Tx on instead of opening another")
        self._open = True
        try:
            self._now = now
            with _immediate(self._raw), history.overlay(self._raw, now) if lag else nullcontext():
                tx = Tx(self._connection, now, self.settings, self.emitted, self.beyond_loopback, self.runtime_of)
                yield tx
        finally:
            self._open = False
        if self._remembers:
            history.shorten(self._raw)
        for callback in tx._after_commit:  # noqa: SLF001 - Tx and Store are two halves of one thing
            callback()
        if tx._queue_changed:  # noqa: SLF001
            self.queue_changed()
        for kind, call in tx._calls:  # noqa: SLF001
            self.call_queued[kind](call)
        for write in tx._notes:  # noqa: SLF001
            with suppress(Unwritable), self.transaction(at=now) as noting:
                write(noting)

    def reload(self) -> None:
        """Read the cached facts again, after an import."""
        self.remember_past(wanted=False)
        self.settings = _read_settings(self._connection)

    def remember_past(self, *, wanted: bool) -> None:
        """Start to keep former versions of rows, so that transactions can read the past; or forget all of them."""
        if wanted and not self._remembers:
            history.begin(self._raw, lambda: self._now)
        if self._remembers and not wanted:
            history.end(self._raw)
        self._remembers = wanted

    def watch(self, table: Table, key: str, of: Sequence[str], changed: Callable[[str], None]) -> None:
        """Call `changed` with a row's `key` when the row is inserted or deleted, or one of the columns `of` is written.

        Caches of rows are invalidated by it, whichever code changes the rows. It is called inside the transaction, also
        in one that rolls back: invalidate, and read again later.
        """
        function = f"{table.name}_changed_{next(self._watches)}"
        self._raw.create_function(function, 1, changed)
        for event, version in (("INSERT", "NEW"), ("DELETE", "OLD"), (f"UPDATE OF {', '.join(of)}", "OLD")):
            self._raw.execute(
                f"CREATE TEMP TRIGGER {function}_{event[:6]} AFTER {event} ON main.{table.name} "
                f"BEGIN SELECT {function}({version}.{key}); END"
            )

    def count(self, totals: Totals) -> None:
        """Keep these totals of each organization from here on (`counts.py`). Call it once."""
        counts.track(self._raw, totals)

    def change_settings(self, tx: Tx, settings: Settings) -> None:
        """Replace the settings; later transactions see the new ones."""
        write_meta(tx.connection, "settings", settings.model_dump_json(by_alias=True))
        tx.after_commit(lambda: setattr(self, "settings", settings))

    def flush(self) -> None:
        """Write committed data to the disk itself, and remove what it replaced."""
        self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file and release its lock."""
        self._connection.close()
        self._connection.engine.dispose()
        if self._lock is not None:
            self._lock.close()


def read_meta(connection: Connection, name: str) -> str | None:
    """A single fact, as JSON; None if it is not set."""
    kept: tuple[str] | None = _READ_META.run(connection, of_name=name).fetchone()
    return None if kept is None else kept[0]


def write_meta(connection: Connection, name: str, value: str) -> None:
    """Keep a single fact, as JSON."""
    _WRITE_META.run(connection, name=name, value=value)


def remove_meta(connection: Connection, name: str) -> None:
    """Forget a single fact."""
    _REMOVE_META.run(connection, of_name=name)


def _nothing_runs(_: Tx) -> Runtime:
    raise RuntimeError("nothing runs on this state: give its Store a runtime first, as open_cloud does")


def _connect(path: str) -> Connection:
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS)
    raw.execute("PRAGMA journal_mode=WAL")
    # A killed process loses nothing that was committed; only a power failure may, and it never corrupts the file.
    raw.execute("PRAGMA synchronous=NORMAL")
    raw.execute("PRAGMA cache_size=-65536")
    raw.execute("PRAGMA temp_store=MEMORY")
    stamped = int(raw.execute("PRAGMA user_version").fetchone()[0])
    if stamped > SCHEMA_VERSION:
        raw.close()
        raise StateError(
            f"The state at {path} has version {stamped}, this program reads versions up to {SCHEMA_VERSION}: "
            "start it with the release that wrote it, or choose another directory."
        )
    connection = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool).connect()
    # SQLAlchemy's own transaction is not visible to SQLite and never ends: its bookkeeping for each of ours would cost
    # as much as a read does.
    connection.begin()
    with _immediate(raw):
        if stamped:
            disk.check(raw)
            migrations.migrate(connection, raw, stamped)
        else:
            metadata.create_all(connection, checkfirst=False)
        if stamped != SCHEMA_VERSION:
            connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
    return connection


@contextmanager
def _immediate(raw: sqlite3.Connection) -> Iterator[None]:
    """A transaction of SQLite, which holds the write lock from its beginning."""
    try:
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.commit()
    except BaseException as error:
        raw.rollback()
        if (failure := disk.failure(error)) is not None:
            raise failure from error
        raise


def _lock(path: Path) -> IO[str]:
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        handle.close()
        raise InUseError(
            f"The state directory {path.parent} is in use by another process (pid {owner}): "
            "end that one, or choose another directory."
        ) from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def _read_settings(connection: Connection) -> Settings:
    kept = read_meta(connection, "settings")
    return Settings() if kept is None else Settings.model_validate_json(kept)

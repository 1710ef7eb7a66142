"""A set of custom_ids: exact, on disk, at a few microseconds per id."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Self

CACHE_KIB = 8192
"""The most memory of one set; the rest goes to a temporary file."""
DISK_BYTES = 512 * 1024 * 1024
"""The most disk space of one set, about ten million UUIDs: a full folder would evict the whole Pod."""
_PAGE_BYTES = 4096
_SETUP = (
    f"PRAGMA page_size = {_PAGE_BYTES}",
    f"PRAGMA max_page_count = {DISK_BYTES // _PAGE_BYTES}",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = FILE",
    "PRAGMA locking_mode = EXCLUSIVE",
    "CREATE TABLE ids (id TEXT PRIMARY KEY, mark INTEGER NOT NULL) WITHOUT ROWID",
    "BEGIN",
)


def _inserting(rows: int) -> str:
    return f"INSERT OR IGNORE INTO ids VALUES {', '.join(['(?, ?)'] * rows)}"  # noqa: S608  placeholders only


_ROWS = 64
_INSERT = _inserting(_ROWS)


class NoTemporarySpace(OSError):
    """The folder for temporary files is missing, read-only or full."""


class Ids:
    """A set of ids, each with a mark: a number above 0 that identifies its source, or 0 if it has none yet.

    An SQLite database without a name: its file is deleted once opened, so that even a killed process leaves nothing
    behind. Whole ids are compared, so the set is exact; all methods take many ids and raise `NoTemporarySpace`.
    """

    def __init__(self) -> None:
        self._size = 0
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with _space():
            for statement in _SETUP:
                self._database.execute(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._size

    def close(self) -> None:
        """Free memory and disk space."""
        self._database.close()

    def clear(self) -> None:
        """Remove all ids."""
        with _space():
            self._database.execute("DELETE FROM ids")
        self._size = 0

    def add(self, ids: Sequence[str], marks: Sequence[int]) -> list[tuple[int, int]]:
        """Insert ids with marks that no other call uses; returns index and mark of those that the set already had."""
        with _space():
            added = self._insert(list(zip(ids, marks, strict=True)))
            if added == len(ids):
                return []
            found = [self._mark(each) for each in ids]
        pairs = enumerate(zip(found, marks, strict=True))
        return [(index, mark) for index, (mark, own) in pairs if mark is not None and mark != own]

    def put(self, ids: Iterable[str], mark: int = 0) -> None:
        """Insert ids with this mark; those already in the set stay unchanged."""
        with _space():
            self._insert([(each, mark) for each in ids])

    def claim(self, ids: Sequence[str], marks: Sequence[int]) -> list[tuple[int, int | None]]:
        """Mark ids that have no mark; returns index and mark of the others, with None for those not in the set."""
        with _space():
            claims = zip(marks, ids, strict=True)
            claimed = self._database.executemany("UPDATE ids SET mark = ? WHERE id = ? AND mark = 0", claims)
            if claimed.rowcount == len(ids):
                return []
            found = [self._mark(each) for each in ids]
        return [(index, mark) for index, (mark, own) in enumerate(zip(found, marks, strict=True)) if mark != own]

    def holds(self, ids: Iterable[str]) -> list[bool]:
        """For each id, whether the set has it."""
        with _space():
            return [self._mark(each) is not None for each in ids]

    def _insert(self, rows: Sequence[tuple[str, int]]) -> int:
        """Insert many rows per statement, since a statement costs half as much as a row; returns how many were new."""
        added = 0
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            statement = _INSERT if len(some) == _ROWS else _inserting(len(some))
            added += self._database.execute(statement, [*chain.from_iterable(some)]).rowcount
        self._size += added
        return added

    def _mark(self, each: str) -> int | None:
        row = self._database.execute("SELECT mark FROM ids WHERE id = ?", (each,)).fetchone()
        return None if row is None else int(row[0])


@contextmanager
def _space() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise NoTemporarySpace(
            f"no room for temporary files ({error}): give the operator a writable folder, named by TMPDIR"
        ) from None

"""How the disk below a state may fail: it is full or read-only, or returns other data than was written.

Before the ready line such a failure ends the program with a sentence (`StateError`); afterwards the request is answered
503 (`Unwritable`), and due items are tried again. Either way the whole transaction is rolled back.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from json import JSONDecodeError
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from relay_localcloud.kernel.refusals import ApiError

PATIENCE_SECONDS: Final = 1.0
"""Real seconds after a failure of the disk until due items are tried again."""

_NO_ROOM: Final = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class StateError(Exception):
    """The state directory cannot be used; the message says why and what to do."""


class InUseError(StateError):
    """Another process has the state."""


class StateFileError(ValueError):
    """A document is not a readable state; the message says what is wrong."""


class Unwritable(ApiError):
    """The disk could not be written: the answer is 503, and nothing of the request was kept."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(503, f"Nothing was changed, since the disk of the local cloud failed: {cause}.")
        self.cause = cause


def require_state(directory: Path) -> None:
    """Raise StateError unless there is a state: commands that work on one do not create one."""
    if not (directory / "state.db").is_file():
        raise StateError(f"There is no state in {directory}: give the directory that serve has as --state.")


@contextmanager
def opening(directory: Path) -> Iterator[None]:
    """A context that reads and writes a state for the first time; raises StateError if that fails."""
    try:
        yield
    except (OSError, sqlite3.Error, SQLAlchemyError, Unwritable, ValidationError, JSONDecodeError) as error:
        cause = _cause(error)
        if isinstance(cause, OSError) or _code(cause) in _NO_ROOM:
            advice = "make it writable, with room on its disk, or choose another directory."
        else:
            advice = "nothing in it was changed; put an intact copy in its place, or choose another directory."
        said = "a row of the table meta cannot be read" if isinstance(cause, ValueError) else cause
        raise StateError(f"The state directory {directory} cannot be used: {said}: {advice}") from error


def keep_private(directory: Path, *names: str) -> None:
    """Create the directory and these files if they do not exist, private to their owner, since they hold keys.

    A directory of somebody else's, such as a volume mounted for a group, keeps its permissions.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close_to_others(directory)
    for path in (directory / name for name in names):
        path.touch(mode=0o600)
        _close_to_others(path)


def _close_to_others(path: Path) -> None:
    with suppress(PermissionError):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXU)


def free_bytes(directory: Path) -> int:
    """The free bytes on the directory's disk."""
    left = os.statvfs(directory)
    return left.f_bavail * left.f_frsize


def failure(error: BaseException) -> Unwritable | None:
    """The answer to a failure of the disk; None if the error is not one."""
    cause = _cause(error)
    return Unwritable(cause) if _code(cause) in _NO_ROOM | _DAMAGED else None


def check(raw: sqlite3.Connection) -> None:
    """Check that the file is intact; raises sqlite3.DatabaseError if it is damaged."""
    (found,) = raw.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(f"state.db is damaged ({found.splitlines()[-1]})")


def _cause(error: BaseException) -> BaseException:
    match error:
        case DBAPIError(orig=cause) | Unwritable(cause=cause) if cause is not None:
            return cause
        case _:
            return error


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None

"""`relay-localcloud backup`: a copy of a state directory as it was at one instant, even while a cloud serves it.

The database is copied in one step, while a cloud may go on writing; then the contents that its tables name, which
only grow beyond what the tables know. None is discarded meanwhile; if an import removes some, the backup starts again.
"""

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from relay_localcloud import app  # noqa: F401 - no state is opened without every table
from relay_localcloud.batches import rows, storage
from relay_localcloud.kernel import disk
from relay_localcloud.kernel.disk import StateError
from relay_localcloud.kernel.store import Store

_BESIDE: Final = ("secrets.key", "tls.crt", "tls.key")
_ATTEMPTS: Final = 3


def start(chosen: Namespace) -> int:
    """Back up as the command line says; returns 0 with a line of JSON on stdout, 1 with a sentence on stderr."""
    try:
        contents = back_up(chosen.state, chosen.target)
    except StateError as error:
        sys.stderr.write(f"relay-localcloud: {error}\n")
        return 1
    sys.stdout.write(json.dumps({"state": str(chosen.target), "files": len(contents)}) + "\n")
    return 0


def back_up(state: Path, target: Path) -> Mapping[str, int]:
    """Copy a state to a new directory, and open the copy once; returns the bytes of its contents by file.

    Raises StateError if that fails, and then leaves nothing behind.
    """
    disk.require_state(state)
    if target.exists():
        raise StateError(f"{target} exists: name a directory that does not.")
    try:
        with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as beside:
            part = Path(beside) / "state"
            with storage.held(state):
                contents = _copied(state, part)
            for path in (state / name for name in _BESIDE):
                if path.exists():
                    shutil.copy2(path, part)
            os.sync()
            part.rename(target)
    except (OSError, sqlite3.Error, StateError) as error:
        raise StateError(f"No backup of {state} was made: {error}") from error
    return contents


def _copied(state: Path, part: Path) -> Mapping[str, int]:
    disk.keep_private(part, "state.db")
    (part / "files").mkdir()
    for _ in range(_ATTEMPTS):
        _copy_database(state / "state.db", part / "state.db")
        contents = _contents_of(part)
        if all(_has_content(state / "files" / name, part / "files" / name, contents[name]) for name in contents):
            return contents
    raise StateError("contents of files are missing: if an import or a reset is going on, try again.")


def _copy_database(source: Path, target: Path) -> None:
    writable = f"{source.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(writable, uri=True)) as served, closing(sqlite3.connect(target)) as copy:
        served.backup(copy)


def _contents_of(part: Path) -> Mapping[str, int]:
    """The sizes of the contents that the copy names, after a check that it opens: intact, and of a readable version."""
    with closing(Store.at(part)) as store, store.transaction(at=0) as tx:
        contents = rows.contents(tx)
    (part / "lock").unlink()
    for path in (part / "files").iterdir():
        if path.name not in contents:
            path.unlink()
    return contents


def _has_content(source: Path, target: Path, size: int) -> bool:
    """Copy a content up to `size` bytes, unless the copy has them already; returns whether it is complete."""
    if target.exists() and target.stat().st_size == size:
        return True
    try:
        content = source.open("rb")
    except FileNotFoundError:
        return False
    with target.open("wb") as copy:
        copy.writelines(storage.pieces(content, size))
        return copy.tell() == size

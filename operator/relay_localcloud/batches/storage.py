"""The contents of files: one file each on the disk, in the state directory, or in a temporary one.

The table is authoritative. A content on the disk that is not in it was never acknowledged, and `keep_only` removes it.
An exported state has the contents beside its tables: `{files: {id: base64}}`. Those of an import wait under other names
until its rows are committed, with the id of the import among them: so a failure or a kill leaves the old contents or
the new ones.
"""

import asyncio
import base64
import binascii
import fcntl
import json
import os
import re
import secrets
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from typing import IO, Final

from pydantic import JsonValue

from relay_localcloud.batches import rows
from relay_localcloud.kernel.disk import StateFileError, Unwritable
from relay_localcloud.kernel.store import Store, Tx, read_meta, remove_meta, write_meta

_PART = ".part"
_PIECE_BYTES: Final = 256 * 1024
_IMPORTED: Final = "imported"
"""The fact that names the import which the rows are from; its contents end in `.` and this."""
_ID: Final = re.compile("[A-Za-z0-9_-]{1,200}")


class FileStorage:
    """Contents by the id of their file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._directory = None if store.directory is None else store.directory / "files"
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._discarded: set[str] = set()

    def close(self) -> None:
        """Remove the contents if the state is in memory."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def require_room(self) -> None:
        """Raise OSError if only the disk's reserve is left, which is not for files."""
        if not self._store.has_room:
            raise OSError(ENOSPC, "the rest of the disk is reserved for what stops, ends and falls due")

    def begin(self, file_id: str) -> IO[bytes]:
        """Open a content for an upload; it does not count before `complete`."""
        self.require_room()
        return (self._opened() / (file_id + _PART)).open("wb")

    def complete(self, file_id: str) -> None:
        """Turn the file of `begin` into the content."""
        directory = self._opened()
        (directory / (file_id + _PART)).rename(directory / file_id)
        self._discarded.discard(file_id)

    def discard(self, file_id: str) -> None:
        """Remove a content, whether complete, begun or absent. While a backup reads, this waits for the next call."""
        directory = self._opened()
        self._discarded.add(file_id)
        with suppress(BlockingIOError), _locked(self._store.directory or directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
            for name in (name for each in self._discarded for name in (each, each + _PART)):
                (directory / name).unlink(missing_ok=True)
            self._discarded.clear()

    @contextmanager
    def kept(self, file_id: str | None) -> Iterator[None]:
        """Remove a content, if there is one, if what is to keep it fails."""
        try:
            yield
        except BaseException:
            if file_id is not None:
                self.discard(file_id)
            raise

    async def write(self, file_id: str, lines: Iterable[bytes]) -> int:
        """Write a content whose lines are made one by one, and return its size; other tasks run between pieces of it.

        A cancellation and an error leave nothing behind.
        """
        size = rested = 0
        try:
            with self.begin(file_id) as file:
                await asyncio.sleep(0)
                for line in lines:
                    for at in range(0, len(line), _PIECE_BYTES):
                        size += file.write(memoryview(line)[at : at + _PIECE_BYTES])
                        if size - rested >= _PIECE_BYTES:
                            rested = size
                            await asyncio.sleep(0)
                    size += file.write(b"\n")
            self.complete(file_id)
        except BaseException:
            self.discard(file_id)
            raise
        return size

    @contextmanager
    def importing(self) -> Iterator[str]:
        """The id of a new import; if it fails, its contents are removed."""
        imported = f"import_{secrets.token_hex(10)}"
        try:
            yield imported
        except BaseException:
            for path in self._prepared(imported):
                path.unlink()
            raise

    def prepare(self, imported: str, file_id: str, content: bytes) -> None:
        """Write a content of an import, which takes its place in `finish`; raises Unwritable."""
        try:
            self.require_room()
            (self._opened() / f"{file_id}.{imported}").write_bytes(content)
        except OSError as error:
            raise Unwritable(error) from error

    def finish(self, imported: str) -> None:
        """Let the contents of a committed import take their places."""
        for path in self._prepared(imported):
            path.rename(path.with_suffix(""))
            self._discarded.discard(path.stem)

    def _prepared(self, imported: str) -> list[Path]:
        return [] if self._directory is None else list(self._directory.glob(f"*.{imported}"))

    def read(self, file_id: str, offset: int = 0) -> IO[bytes]:
        """Open a content for reading from `offset`; it can be read to its end even if it is removed meanwhile."""
        file = (self._opened() / file_id).open("rb")
        file.seek(offset)
        return file

    def append(self, file_id: str, offset: int, lines: bytes | bytearray) -> None:
        """Write at `offset`, over what a killed process may have left there."""
        if not lines:
            return
        self.require_room()
        path = self._opened() / file_id
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(offset)
            file.write(lines)

    def cut(self, file_id: str, size: int) -> None:
        """Truncate to `size`."""
        with (self._opened() / file_id).open("r+b") as file:
            file.truncate(size)

    def keep_only(self, file_ids: Collection[str]) -> None:
        """Remove every content but these."""
        if self._directory is None or not self._directory.exists():
            return
        for path in list(self._directory.iterdir()):
            if path.name not in file_ids:
                path.unlink()

    def exported(self) -> dict[str, str]:
        """Every content, in base64."""
        if self._directory is None or not self._directory.exists():
            return {}
        whole = (path for path in sorted(self._directory.iterdir()) if not path.suffix)
        return {path.name: base64.b64encode(path.read_bytes()).decode() for path in whole}

    def _opened(self) -> Path:
        if self._directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="relay-localcloud-")
            self._directory = Path(self._temporary.name)
        elif self._temporary is None:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        return self._directory


@contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held(state: Path) -> Iterator[None]:
    """While this lasts, no content of a state is discarded; an import, a reset and a start still remove some."""
    with _locked(state, fcntl.LOCK_SH):
        yield


def pieces(file: IO[bytes], count: int, size: int = _PIECE_BYTES) -> Iterator[bytes]:
    """The next `count` bytes, piece by piece; closes the file."""
    with file:
        while count > 0 and (piece := file.read(min(count, size))):
            count -= len(piece)
            yield piece


def restore(tx: Tx, storage: FileStorage, document: JsonValue, imported: str) -> None:
    """Write a document's contents, after its tables; they take their places in `sweep`, once the tables are committed.

    Raises StateFileError if one is missing or unreadable, and Unwritable.
    """
    given = document.get("files", {}) if isinstance(document, dict) else {}
    if not isinstance(given, dict):
        raise StateFileError("files is not an object")
    missing = sorted(rows.contents(tx).keys() - given.keys())
    if missing:
        raise StateFileError(f"files has no content of {missing[0]!r}")
    known = _known(tx)
    strange = [file_id for file_id in known if not _ID.fullmatch(file_id)]
    if strange:
        raise StateFileError(f"{strange[0]!r} cannot be the id of a file")
    contents = {file_id: _decoded(given, file_id) for file_id in known & given.keys()}
    for file_id, content in contents.items():
        storage.prepare(imported, file_id, content)
    write_meta(tx.connection, _IMPORTED, json.dumps(imported))


def sweep(tx: Tx, storage: FileStorage) -> None:
    """Finish the import that the rows are from, and remove every content of no file and no live batch."""
    imported = read_meta(tx.connection, _IMPORTED)
    if imported is not None:
        storage.finish(json.loads(imported))
        remove_meta(tx.connection, _IMPORTED)
    storage.keep_only(_known(tx))


def _known(tx: Tx) -> set[str]:
    return rows.known_files(tx) | rows.contents_at_work(tx).keys()


def _decoded(given: Mapping[str, JsonValue], file_id: str) -> bytes:
    content = given[file_id]
    try:
        if isinstance(content, str):
            return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise StateFileError(f"the content of {file_id!r} is not base64")

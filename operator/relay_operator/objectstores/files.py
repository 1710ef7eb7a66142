"""Files below the folders that the administrator allows."""

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.store import LONGEST_PIECE, ObjectInfo, Opened
from relay_operator.records.pieces import gathered

_T = TypeVar("_T")
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # never blocks on a FIFO without a writer
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PERMANENT = frozenset({errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EROFS})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileStore:
    """One path. Links are followed; then the opened file must be below a root. See `Store` for the methods."""

    def __init__(self, location: Location, roots: tuple[PurePosixPath, ...]) -> None:
        self._location = location
        self._path = PurePosixPath(location.path)
        self._roots = roots
        if not any(self._path.is_relative_to(root) for root in roots):
            raise self._not_allowed()

    async def find(self) -> ObjectInfo | None:
        try:
            descriptor, info = await asyncio.to_thread(self._open_to_read)
        except StoreError as error:
            if error.reason is not StoreReason.NOT_FOUND:
                raise
            os.close(await asyncio.to_thread(self._open_folder))
            return None
        os.close(descriptor)
        return info

    async def open(self, start: int, version: str) -> Opened:
        descriptor, info = await asyncio.to_thread(self._open_to_read)
        if (version and info.version != version) or (start and start >= (info.size or 0)):
            os.close(descriptor)
            raise self._changed()
        return Opened(info, self._pieces(descriptor, info, start), partial(os.close, descriptor))

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Write to a hidden file beside it, which is renamed once it is complete and on disk."""
        folder = await asyncio.to_thread(self._open_folder)
        hidden = self._hidden()
        try:
            with self._errors():
                descriptor = os.open(hidden, _NEW, 0o644, dir_fd=folder)
            try:
                async for piece in gathered(chunks, LONGEST_PIECE):
                    with self._errors():
                        await _to_its_end(partial(_write_all, descriptor, piece))
                with self._errors():
                    info = await _to_its_end(partial(_published, descriptor, folder, hidden, self._path.name))
            finally:
                os.close(descriptor)
                with suppress(FileNotFoundError):
                    os.unlink(hidden, dir_fd=folder)
        finally:
            os.close(folder)
        return info.version

    async def create(self, content: bytes) -> bool:
        return await asyncio.to_thread(self._create, content)

    async def delete(self) -> None:
        folder = await asyncio.to_thread(self._open_folder)
        try:
            with self._errors(), suppress(FileNotFoundError):
                os.unlink(self._path.name, dir_fd=folder)
        finally:
            os.close(folder)

    def _create(self, content: bytes) -> bool:
        folder = self._open_folder()
        hidden = self._hidden()
        try:
            with self._errors():
                descriptor = os.open(hidden, _NEW, 0o644, dir_fd=folder)
                try:
                    _write_all(descriptor, content)
                    os.fsync(descriptor)
                    os.link(hidden, self._path.name, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError:
                    return False
                finally:
                    os.close(descriptor)
                    os.unlink(hidden, dir_fd=folder)
        finally:
            os.close(folder)
        return True

    def _hidden(self) -> str:
        """An unused name for a file that is not complete."""
        return f".{secrets.token_hex(6)}.partial"

    async def check_writable(self) -> None:
        await asyncio.to_thread(self._try_folder)

    async def _pieces(self, descriptor: int, info: ObjectInfo, start: int) -> AsyncGenerator[bytes, None]:
        position = start
        while True:
            with self._errors():
                piece = await asyncio.to_thread(os.pread, descriptor, LONGEST_PIECE, position)
            if not piece:
                break
            position += len(piece)
            yield piece
        if _info(os.fstat(descriptor)).version != info.version:
            raise self._changed()

    def _open_to_read(self) -> tuple[int, ObjectInfo]:
        with self._errors():
            descriptor = os.open(self._path, _READ)
        try:
            self._check_opened(descriptor)
            status = os.fstat(descriptor)
            self._check_regular(status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, _info(status)

    def _check_regular(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(StoreReason.INVALID, f"{self._location} is not a regular file.")

    def _open_folder(self) -> int:
        try:
            with self._errors():
                folder = os.open(self._path.parent, _FOLDER)
        except StoreError as error:
            if error.reason is StoreReason.NOT_FOUND:
                sentence = f"{self._location} is in a folder that does not exist: create it, or correct the URL."
                raise StoreError(StoreReason.BUCKET_NOT_FOUND, sentence) from None
            raise
        try:
            self._check_opened(folder)
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _try_folder(self) -> None:
        folder = self._open_folder()
        try:
            name = self._hidden()
            with self._errors():
                os.close(os.open(name, _NEW, 0o600, dir_fd=folder))
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)

    def _check_opened(self, descriptor: int) -> None:
        """Check the path that the kernel reports for the descriptor: the opened path may lead elsewhere by now."""
        actual = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not any(actual.is_relative_to(Path(root).resolve()) for root in self._roots):
            raise self._not_allowed()

    def _not_allowed(self) -> StoreError:
        sentence = (
            f"{self._location} is not below a folder that this operator may use: an administrator can add one to "
        )
        return StoreError(StoreReason.NOT_ALLOWED, sentence + "RELAY_FILE_ROOTS.")

    def _changed(self) -> StoreError:
        return StoreError(StoreReason.CHANGED, f"{self._location} was changed while it was read.")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(StoreReason.NOT_FOUND, f"{self._location} does not exist.") from None
        except PermissionError:
            sentence = f"{self._location} may not be opened by the operator's user: change who may."
            raise StoreError(StoreReason.FORBIDDEN, sentence) from None
        except OSError as error:
            reason = StoreReason.INVALID if error.errno in _PERMANENT else StoreReason.UNREACHABLE
            why = os.strerror(error.errno or 0)
            raise StoreError(reason, f"{self._location} could not be used: {why}.") from None


def _info(status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(status.st_size, f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}")


async def _to_its_end(write: Callable[[], _T]) -> _T:
    """Run in a thread, and wait for it even when cancelled.

    The caller closes the descriptor next, and its number may become that of another file or connection: a thread that
    still wrote would write there.
    """
    writing = asyncio.ensure_future(asyncio.to_thread(write))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        while not writing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _published(descriptor: int, folder: int, hidden: str, name: str) -> ObjectInfo:
    os.fsync(descriptor)
    os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
    return _info(os.fstat(descriptor))

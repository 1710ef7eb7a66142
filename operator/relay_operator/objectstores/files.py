"""Files below the folders that the administrator allows."""

import asyncio
import errno
import os
import secrets
import stat
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from relay_operator.objectstores.errors import StoreError, StoreReason, tolerated
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.store import LONGEST_PIECE, ObjectInfo, Opened
from relay_operator.records.pieces import gathered

_T = TypeVar("_T")
_END_SECONDS = 20.0
"""How long the end of a write waits until its file is closed, which then happens later."""
# Every call of the system runs here: if a network file system hangs, it holds back files alone, not the event loop.
_THREADS = ThreadPoolExecutor(16, thread_name_prefix="files")
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
        return await _in_thread(self._find)

    async def open(self, start: int, version: str) -> Opened:
        opening = _in_thread(self._open_to_read)
        try:
            descriptor, info = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        if (version and info.version != version) or (start and start >= (info.size or 0)):
            os.close(descriptor)
            raise self._changed()
        return Opened(info, self._pieces(descriptor, info, start), partial(os.close, descriptor))

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Write to a hidden file beside it, which is renamed once it is complete and on disk."""
        hidden = _Hidden(self._path.name)
        try:
            with self._errors():
                await _in_thread(partial(hidden.begin, self._open_folder))
            async for piece in gathered(chunks, LONGEST_PIECE):
                with self._errors():
                    await _in_thread(partial(hidden.write, piece))
            with self._errors():
                info = await _in_thread(hidden.publish)
        finally:
            ending = _in_thread(hidden.end)
            await asyncio.wait([ending], timeout=_END_SECONDS)
        return info.version

    async def create(self, content: bytes) -> bool:
        return await _in_thread(partial(self._create, content))

    async def delete(self) -> None:
        await _in_thread(self._delete)

    async def check_writable(self) -> None:
        await _in_thread(self._try_folder)

    async def _pieces(self, descriptor: int, info: ObjectInfo, start: int) -> AsyncGenerator[bytes, None]:
        position = start
        while True:
            with self._errors():
                piece = await _in_thread(partial(os.pread, descriptor, LONGEST_PIECE, position))
            if not piece:
                break
            position += len(piece)
            yield piece
        if _info(await _in_thread(partial(os.fstat, descriptor))).version != info.version:
            raise self._changed()

    def _find(self) -> ObjectInfo | None:
        with tolerated(StoreReason.NOT_FOUND):
            descriptor, info = self._open_to_read()
            os.close(descriptor)
            return info
        os.close(self._open_folder())
        return None

    def _create(self, content: bytes) -> bool:
        hidden = _Hidden(self._path.name)
        try:
            with self._errors():
                hidden.begin(self._open_folder)
                hidden.write(content)
                return hidden.appear()
        finally:
            hidden.end()

    def _delete(self) -> None:
        folder = self._open_folder()
        try:
            with self._errors(), suppress(FileNotFoundError):
                os.unlink(self._path.name, dir_fd=folder)
        finally:
            os.close(folder)

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
        hidden = _Hidden(self._path.name)
        try:
            with self._errors():
                hidden.begin(self._open_folder)
        finally:
            hidden.end()

    def _check_opened(self, descriptor: int) -> None:
        """Check the path that the kernel reports for the descriptor: the opened path may lead elsewhere by now."""
        actual = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not any(actual.is_relative_to(Path(root).resolve()) for root in self._roots):
            raise self._not_allowed()

    def _not_allowed(self) -> StoreError:
        advice = "an administrator can add one to RELAY_FILE_ROOTS"
        sentence = f"{self._location} is not below a folder that this operator may use: {advice}."
        return StoreError(StoreReason.NOT_ALLOWED, sentence)

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


class _Hidden:
    """A file that is not complete, beside the one that it becomes.

    Its methods block, and run one after the other, none after `end`: a cancelled call runs on in its thread, and must
    not write to a descriptor that was closed meanwhile, whose number may be that of another file or connection by then.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._hidden = f".{secrets.token_hex(6)}.partial"
        self._lock = threading.Lock()
        self._ended = False
        self._opened = ExitStack()
        self._folder = self._file = -1

    def begin(self, open_folder: Callable[[], int]) -> None:
        """Open the folder, and create the file in it."""
        with self._turn():
            self._folder = open_folder()
            self._opened.callback(os.close, self._folder)
            self._file = os.open(self._hidden, _NEW, 0o644, dir_fd=self._folder)
            self._opened.callback(self._remove)
            self._opened.callback(os.close, self._file)

    def write(self, data: bytes) -> None:
        """Append the data."""
        with self._turn():
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]

    def publish(self) -> ObjectInfo:
        """Give it its name; what has this name is replaced."""
        with self._turn():
            os.fsync(self._file)
            os.rename(self._hidden, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
            return _info(os.fstat(self._file))

    def appear(self) -> bool:
        """Give it its name; False if something has this name."""
        with self._turn():
            os.fsync(self._file)
            try:
                os.link(self._hidden, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except FileExistsError:
                return False
            return True

    def end(self) -> None:
        """Close what is open, and remove the hidden name as far as the file system lets it."""
        with self._lock, suppress(OSError):
            self._ended = True
            self._opened.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            if self._ended:
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            yield

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._hidden, dir_fd=self._folder)


def _info(status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(status.st_size, f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}")


def _close_opened(opening: "asyncio.Future[tuple[int, ObjectInfo]]") -> None:
    """Close what nobody waits for any more."""
    if opening.exception() is None:
        os.close(opening.result()[0])


def _in_thread(work: Callable[[], _T]) -> asyncio.Future[_T]:
    return asyncio.get_running_loop().run_in_executor(_THREADS, work)

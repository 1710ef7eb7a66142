"""Uploads: written to the disk while they arrive, and a file only once they are whole."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from relay_localcloud.batches.multipart import MultipartError, MultipartUpload
from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.http.errors import ApiError
from relay_wire.files import BATCH_UPLOAD_LIMIT, INPUT

LONGEST_NAME = 255

_log = logging.getLogger(__name__)


class Uploads:
    """How many uploads each organization has under way."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def one_more(self, organization_id: str, most: int) -> Iterator[bool]:
        """Count one for as long as this lasts; False where `most` are under way already."""
        if self._under_way[organization_id] >= most:
            yield False
            return
        self._under_way[organization_id] += 1
        try:
            yield True
        finally:
            self._under_way[organization_id] -= 1


@dataclass
class _Sink:
    """Takes the file's bytes, up to the limit."""

    file: IO[bytes]
    size: int = 0

    def take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size <= BATCH_UPLOAD_LIMIT:
            self.file.write(data)


@dataclass(frozen=True)
class Received:
    """A file that has arrived, its content in the storage under the id that it was received for."""

    filename: str
    size: int


@contextmanager
def needing_room() -> Iterator[None]:
    """Answer 503 where a file cannot be written."""
    try:
        yield
    except OSError as error:
        _log.warning("A file could not be written: %s", error)
        raise ApiError(503, "The file could not be written: there may be no room on the disk.") from error


async def receive(storage: FileStorage, file_id: str, boundary: bytes, body: AsyncIterator[bytes]) -> Received:
    """Read an upload to its end. ApiError 400 and 413, and whatever breaks the connection, leave nothing behind."""
    try:
        received = await _read(storage, file_id, boundary, body)
        storage.complete(file_id)
    except BaseException:
        storage.discard(file_id)
        raise
    return received


async def unstalled(body: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """A body as it comes; ApiError 408, which ends the connection, where nothing of it comes for so long."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(body, None)
        except TimeoutError:
            closed = {"Connection": "close"}
            raise ApiError(408, f"Nothing came of the body for {seconds:g} seconds.", headers=closed) from None
        if piece is None:
            return
        yield piece


async def drain(body: AsyncIterator[bytes]) -> None:
    """Read what the client still sends, which would not see an answer before it has sent everything."""
    async for _ in body:
        pass


async def _read(storage: FileStorage, file_id: str, boundary: bytes, body: AsyncIterator[bytes]) -> Received:
    with storage.begin(file_id) as file:
        sink = _Sink(file)
        try:
            upload = MultipartUpload(boundary, sink.take)
            async for data in body:
                upload.feed(data)
            upload.finish()
        except MultipartError as error:
            await drain(body)
            raise ApiError(400, f"Nothing was uploaded: {error}.") from None
    if upload.fields.get("purpose") != INPUT:
        raise ApiError(400, f"purpose: it must be {INPUT!r}.")
    if sink.size > BATCH_UPLOAD_LIMIT:
        raise ApiError(413, f"The file has {sink.size} bytes; at most {BATCH_UPLOAD_LIMIT} can be uploaded.")
    return Received((upload.filename or "upload.jsonl")[:LONGEST_NAME], sink.size)

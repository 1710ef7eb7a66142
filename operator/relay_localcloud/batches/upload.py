"""Uploads (multipart/form-data): written to the disk while they arrive; a file exists only once they are complete."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import IO, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.http.bodies import LONGEST_REST
from relay_localcloud.http.errors import ApiError
from relay_wire.files import BATCH_UPLOAD_LIMIT, INPUT

LONGEST_NAME = 255
_LARGEST_FIELD = 1024
_MOST_PARTS = 20
LARGEST_UPLOAD: Final = BATCH_UPLOAD_LIMIT + LONGEST_REST
"""Bytes of a body that are read, whatever is wrong with it."""

_log = logging.getLogger(__name__)


class Uploads:
    """Counts the uploads under way of each organization."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def one_more(self, organization_id: str, most: int) -> Iterator[bool]:
        """Count one more while this lasts; False if `most` are under way already."""
        if self._under_way[organization_id] >= most:
            yield False
            return
        self._under_way[organization_id] += 1
        try:
            yield True
        finally:
            self._under_way[organization_id] -= 1


class MultipartError(ValueError):
    """The body is not an upload; the message says what is wrong."""


class MultipartUpload:
    """Pass the body to `feed`, then call `finish`; the file's bytes are written to `file`, up to the limit."""

    def __init__(self, content_type: str, file: IO[bytes]) -> None:
        """Raises MultipartError if the Content-Type is another one, or has no valid boundary."""
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise MultipartError("the Content-Type must be multipart/form-data with its boundary")
        self.filename: str | None = None
        """None until a file has come."""
        self.size = 0
        self.fields: dict[str, str] = {}
        self._file = file
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._name, self._value = "", bytearray()
        self._in_file, self._ended = False, False
        self._parts = 0
        try:
            self._parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                    "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_ends,
                    "on_end": self._body_ends,
                },
            )
        except FormParserError as error:
            raise MultipartError(f"the boundary is not usable: {error}") from error

    def feed(self, data: bytes) -> None:
        """Parse the next piece; MultipartError if this cannot be a part of an upload."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise MultipartError(f"the body is not multipart/form-data: {error}") from error

    def finish(self) -> None:
        """End the body; MultipartError if it ended too early or had no file."""
        if not self._ended:
            raise MultipartError("the body ends before its last boundary")
        if self.filename is None:
            raise MultipartError("file: this part is missing")

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise MultipartError(f"the body has more than {_MOST_PARTS} parts")
        self._disposition, self._value = b"", bytearray()

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        name.clear()
        value.clear()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        self._in_file = self._name == "file"
        if self._in_file:
            if self.filename is not None:
                raise MultipartError("file: there is more than one")
            self.filename = options.get(b"filename", b"").decode(errors="replace")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.size += end - start
            if self.size <= BATCH_UPLOAD_LIMIT:
                self._file.write(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _LARGEST_FIELD:
            raise MultipartError(f"{self._name}: this field is over {_LARGEST_FIELD} bytes")

    def _part_ends(self) -> None:
        if not self._in_file:
            self.fields[self._name] = self._value.decode(errors="replace")

    def _body_ends(self) -> None:
        self._ended = True


@contextmanager
def needing_room() -> Iterator[None]:
    """Answer 503 if a file cannot be written."""
    try:
        yield
    except OSError as error:
        _log.warning("A file could not be written: %s", error)
        raise ApiError(503, "The file could not be written: there may be no room on the disk.") from error


async def receive(storage: FileStorage, file_id: str, content_type: str, body: AsyncIterator[bytes]) -> tuple[str, int]:
    """Read an upload to its end; returns the file's name and size, with its content in the storage.

    ApiError 400 and 413, and a broken connection, leave nothing behind.
    """
    try:
        with storage.begin(file_id) as file:
            received = await _read(file, content_type, _with_room(storage, body))
        storage.complete(file_id)
    except BaseException:
        storage.discard(file_id)
        raise
    return received


async def _with_room(storage: FileStorage, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for data in body:
        storage.require_room()
        yield data


async def bounded(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body of an upload, as it arrives; ApiError 413 if it does not end within the bound."""
    size = 0
    async for data in body:
        size += len(data)
        if size > LARGEST_UPLOAD:
            raise ApiError(413, f"The body is over {LARGEST_UPLOAD} bytes; a file has at most {BATCH_UPLOAD_LIMIT}.")
        yield data


async def drain(body: AsyncIterator[bytes]) -> None:
    """Read what the client still sends, since it would not see an answer before it has sent everything."""
    async for _ in body:
        pass


async def _read(file: IO[bytes], content_type: str, body: AsyncIterator[bytes]) -> tuple[str, int]:
    try:
        upload = MultipartUpload(content_type, file)
        async for data in body:
            upload.feed(data)
        upload.finish()
    except MultipartError as error:
        await drain(body)
        raise ApiError(400, f"Nothing was uploaded: {error}.") from None
    if upload.fields.get("purpose") != INPUT:
        raise ApiError(400, f"purpose: it must be {INPUT!r}.")
    if upload.size > BATCH_UPLOAD_LIMIT:
        raise ApiError(413, f"The file has {upload.size} bytes; at most {BATCH_UPLOAD_LIMIT} can be uploaded.")
    return (upload.filename or "upload.jsonl")[:LONGEST_NAME], upload.size

"""Cuts a stream of records into parts of the size limit for uploads, each a stream of its own."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass

from relay_operator.records.pieces import gathered
from relay_wire.files import BATCH_UPLOAD_LIMIT


@dataclass(frozen=True, slots=True)
class PartMade:
    """A part as produced. The same input and limit always produce the same parts."""

    number: int
    """Counted from 1."""
    records: int
    bytes: int
    sha256: str


def input_digest(parts: Iterable[PartMade]) -> str:
    """SHA-256 of all records, computed from their parts: it changes with any record, and with the limit."""
    return hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()


class Splitter:
    """Parts in order, none empty, each of at most `limit` bytes, unless one record alone is longer.

    A part can be read until `parts` moves on. The next part is cut after the rest of this one was read, so that a part
    uploaded before can be skipped without sending it, and still gets its digest.
    """

    def __init__(self, records: AsyncIterable[list[bytes]], limit: int = BATCH_UPLOAD_LIMIT) -> None:
        self.made: list[PartMade] = []
        self._source = aiter(records)
        self._limit = limit
        self._waiting: list[bytes] = []
        self._broken: Exception | None = None

    async def parts(self) -> AsyncIterator["Part"]:
        """The parts.

        Both `Part.pieces` and this raise an error of the records' stream, since an uploader may turn it into another
        error: a part that was cut short never looks complete.
        """
        while await self._more():
            part = Part(len(self.made) + 1, self)
            yield part
            self.made.append(await part.finish())

    async def next_piece(self, size: int, records: int) -> tuple[int, bytes]:
        """The next records for a part with this size and count: their number and lines; 0 if the part is full."""
        if not await self._more():
            return 0, b""
        count = self._fitting(size, records)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return count, b"\n".join([*taken, b""])

    async def _more(self) -> bool:
        if self._broken is not None:
            raise self._broken
        while not self._waiting:
            try:
                self._waiting = await anext(self._source)
            except StopAsyncIteration:
                return False
            except Exception as error:
                self._broken = error
                raise
        return True

    def _fitting(self, size: int, records: int) -> int:
        """How many of the waiting records fit; a record that alone exceeds the limit gets a part of its own."""
        waiting, count = self._waiting, len(self._waiting)
        if size + sum(map(len, waiting)) + len(waiting) <= self._limit:
            return count
        for index, record in enumerate(waiting):
            size += len(record) + 1
            if size > self._limit:
                count = index
                break
        return count if count or records else 1


class Part:
    """One part while it is produced."""

    def __init__(self, number: int, splitter: Splitter) -> None:
        self.number = number
        self._splitter = splitter
        self._sha256 = hashlib.sha256()
        self._records = 0
        self._bytes = 0
        self._read = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes to upload. Raises RuntimeError on a second read, since the input is a stream."""
        if self._read:
            raise RuntimeError("a part can be read once; split the input again to send it again")
        self._read = True
        async for piece in gathered(self._rest()):
            yield piece

    async def finish(self) -> PartMade:
        """The complete part; first reads the rest of it."""
        async for _ in self._rest():
            pass
        return PartMade(self.number, self._records, self._bytes, self._sha256.hexdigest())

    async def _rest(self) -> AsyncIterator[bytes]:
        while True:
            count, piece = await self._splitter.next_piece(self._bytes, self._records)
            if not count:
                return
            self._records += count
            self._bytes += len(piece)
            self._sha256.update(piece)
            yield piece

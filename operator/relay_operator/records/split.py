"""Cuts a stream of records into parts that may be uploaded, each as a stream of its own."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass

from relay_operator.records.pieces import gathered
from relay_wire.files import BATCH_UPLOAD_LIMIT


@dataclass(frozen=True, slots=True)
class PartMade:
    """A part as it was produced. The same input and limits always make the same parts."""

    number: int
    """Counted from 1."""
    records: int
    bytes: int
    sha256: str


def input_digest(parts: Iterable[PartMade]) -> str:
    """SHA-256 of all records, by way of their parts: it differs where any record or limit differs."""
    return hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()


class Splitter:
    """Parts in order, none of them empty, each of at most `limit` bytes.

    Each part is there to be read while `parts` stands at it; what its reader left is read when the next one is asked
    for, so that a part that was uploaded before is passed by without being sent, and its digest is known all the same.
    """

    def __init__(self, records: AsyncIterable[list[bytes]], limit: int = BATCH_UPLOAD_LIMIT) -> None:
        self.made: list[PartMade] = []
        self._source = aiter(records)
        self._limit = limit
        self._waiting: list[bytes] = []
        self._broken: Exception | None = None

    async def parts(self) -> AsyncIterator["Part"]:
        """The parts.

        What the records' stream raises comes out of `Part.pieces` and again of here, since whoever uploads a part may
        make another error of it: a part that was cut short never looks whole.
        """
        while await self._more():
            part = Part(len(self.made) + 1, self)
            yield part
            self.made.append(await part.finish())

    async def next_piece(self, size: int, records: int) -> tuple[int, bytes]:
        """More of a part that has so many bytes and records: how many records, and their lines; none if it is full."""
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
        """How many of the records that wait fit.

        Raises:
            ValueError: where one alone is over the limit; `Expected.longest` is there to prevent it.

        """
        waiting, count = self._waiting, len(self._waiting)
        if size + sum(map(len, waiting)) + len(waiting) <= self._limit:
            return count
        for index, record in enumerate(waiting):
            size += len(record) + 1
            if size > self._limit:
                count = index
                break
        if not count and not records:
            raise ValueError(f"a record is larger than a part may be: {self._limit} bytes")
        return count


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
        """The bytes to upload.

        Raises:
            RuntimeError: when read a second time. The input behind is a stream: to send a part again, split it again.

        """
        if self._read:
            raise RuntimeError("a part can be read once; split the input again to send it again")
        self._read = True
        async for piece in gathered(self._rest()):
            yield piece

    async def finish(self) -> PartMade:
        """What the part is as a whole; reads what nobody has read."""
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

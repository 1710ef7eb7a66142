"""Cuts a stream of bytes into lines, in blocks, so that a single line costs no await."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass, field

from relay_operator.records.pace import Pace
from relay_operator.records.pieces import cut

PIECE_BYTES = 64 * 1024
PIECE_LINES = 128
"""The most lines per piece: about a millisecond of work, however short or long the lines are."""
LONGEST_LINE = 10 * 1024 * 1024
"""Bytes of one record (section 8: inference body, 10 MiB)."""
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines without their ends; blank lines and too long ones are empty."""

    first: int
    """The number of the first line, counted from 1."""
    lines: list[bytes]
    too_long: tuple[int, ...] = ()
    """The numbers of lines over the limit; their content is dropped."""


@dataclass(slots=True)
class _Cutter:
    """Keeps the beginning of a line whose end is in a later piece."""

    longest: int
    number: int = 1
    begun: bytearray = field(default_factory=bytearray)
    begun_bytes: int = 0
    too_long: bool = False

    def cut(self, piece: bytes) -> Iterator[Block]:
        """The lines that end in this piece, in blocks."""
        rest = piece
        while len(lines := rest.split(b"\n", PIECE_LINES)) > 1:
            rest = lines.pop()
            yield self._block(lines, piece)
        self._begin(rest)

    def last(self) -> Block | None:
        """The last line, if it has no newline."""
        return self._block([b""], b"") if self.begun_bytes else None

    def _begin(self, rest: bytes) -> None:
        self.begun_bytes += len(rest)
        self.too_long = self.begun_bytes > self.longest + len(BOM + b"\r")  # neither is part of the line
        if self.too_long:
            self.begun.clear()
        else:
            self.begun += rest

    def _block(self, lines: list[bytes], piece: bytes) -> Block:
        first, self.number = self.number, self.number + len(lines)
        if self.begun_bytes:
            self._begin(lines[0])
            lines[0] = bytes(self.begun)
        too_long = [first] if self.too_long else []
        self.begun, self.begun_bytes, self.too_long = bytearray(), 0, False
        if first == 1 and lines[0].startswith(BOM):
            lines[0] = lines[0][len(BOM) :]
        if lines[0].endswith(b"\r") or b"\r" in piece:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        if max(map(len, lines)) > self.longest:
            too_long += [first + index for index, line in enumerate(lines) if len(line) > self.longest]
            lines = [b"" if len(line) > self.longest else line for line in lines]
        return Block(first, lines, tuple(too_long))


async def lines(chunks: AsyncIterable[bytes], pace: Pace, longest: int = LONGEST_LINE) -> AsyncIterator[Block]:
    """The stream's lines, each ended by LF or CR LF, except perhaps the last; a byte order mark is dropped.

    The chunks' boundaries do not matter. At most `longest` bytes of a line are held.
    """
    cutter = _Cutter(longest)
    async for chunk in chunks:
        for piece in cut(chunk, PIECE_BYTES):
            for block in cutter.cut(piece):
                await pace.turn()
                yield block
    if (last := cutter.last()) is not None:
        yield last

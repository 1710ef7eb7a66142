"""Streams of bytes in pieces of other lengths than they came in."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator

SENT_BYTES = 64 * 1024
"""Each piece costs an upload a call, so small ones are sent together."""


async def gathered(pieces: AsyncIterable[bytes], size: int = SENT_BYTES) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `size`, but for the last; nothing at all if there are none."""
    held, length = list[bytes](), 0
    async for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if length:
        yield b"".join(held)


def cut(chunk: bytes | memoryview, longest: int) -> Iterator[bytes]:
    """One chunk in pieces of at most `longest` bytes."""
    if isinstance(chunk, bytes) and len(chunk) <= longest:
        yield chunk
        return
    view = memoryview(chunk)
    for start in range(0, len(view), longest):
        yield bytes(view[start : start + longest])


async def collected(pieces: AsyncIterator[bytes], size: int) -> bytes:
    """Bytes from the front, at least `size` of them where there are so many; the iterator goes on behind them."""
    held = bytearray()
    while len(held) < size and (piece := await anext(pieces, b"")):
        held += piece
    return bytes(held)

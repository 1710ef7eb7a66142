"""Cuts and joins the pieces of byte streams."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator

SENT_BYTES = 64 * 1024
"""Each piece costs an upload one call, so small ones are joined."""


async def gathered(pieces: AsyncIterable[bytes], size: int = SENT_BYTES) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `size`, except the last; no piece if there are no bytes."""
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
    """Bytes from the front: at least `size`, or all there are; the iterator continues behind them."""
    held = bytearray()
    while len(held) < size and (piece := await anext(pieces, b"")):
        held += piece
    return bytes(held)

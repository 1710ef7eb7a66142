"""Streams of bytes in pieces of other lengths than they came in."""

from collections.abc import AsyncIterator, Iterator

from relay_operator.objectstores.store import LONGEST_PIECE


def cut(chunk: bytes | memoryview, longest: int = LONGEST_PIECE) -> Iterator[bytes]:
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

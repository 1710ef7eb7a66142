"""Streams of bytes in pieces of other lengths than they came in."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator

from relay_operator.objectstores.store import LONGEST_PIECE


def cut(chunk: bytes | memoryview, longest: int = LONGEST_PIECE) -> Iterator[bytes]:
    """One chunk in pieces of at most `longest` bytes."""
    if isinstance(chunk, bytes) and len(chunk) <= longest:
        yield chunk
        return
    view = memoryview(chunk)
    for start in range(0, len(view), longest):
        yield bytes(view[start : start + longest])


async def gathered(chunks: AsyncIterable[bytes], size: int = LONGEST_PIECE) -> AsyncGenerator[bytes, None]:
    """The same bytes in pieces of at least `size`, but for the last; nothing at all where there are none."""
    held = bytearray()
    async for chunk in chunks:
        if not held and len(chunk) >= size:
            yield chunk
            continue
        held += chunk
        if len(held) >= size:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


async def collected(pieces: AsyncIterator[bytes], size: int) -> bytes:
    """Bytes from the front, at least `size` of them where there are so many; the iterator goes on behind them."""
    held = bytearray()
    while len(held) < size and (piece := await anext(pieces, b"")):
        held += piece
    return bytes(held)


async def of_size(chunks: AsyncIterable[bytes], size: int) -> AsyncGenerator[bytes, None]:
    """The same chunks; raises ValueError where they come to more or fewer bytes, before the first byte too many."""
    seen = 0
    async for chunk in chunks:
        seen += len(chunk)
        if seen > size:
            break
        yield chunk
    if seen != size:
        raise ValueError(f"{seen} bytes or more were made where {size} had been promised")

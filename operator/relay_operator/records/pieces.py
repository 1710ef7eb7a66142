"""Makes pieces large enough for whoever sends them on."""

from collections.abc import AsyncIterable, AsyncIterator

SENT_BYTES = 64 * 1024
"""Each piece costs an upload a call, so small ones are sent together."""


async def gathered(pieces: AsyncIterable[bytes], size: int = SENT_BYTES) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `size`, but for the last; nothing at all where there are none."""
    held, length = list[bytes](), 0
    async for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if length:
        yield b"".join(held)

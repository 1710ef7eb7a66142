"""Makes pieces large enough for whoever sends them on."""

from collections.abc import AsyncIterable, AsyncIterator

SENT_BYTES = 64 * 1024
"""Each piece costs an upload a call, so small ones are sent together."""


async def gathered(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `SENT_BYTES`, but for the last."""
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= SENT_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)

"""How much long work moves: what reads records for it counts them, whoever watches it asks."""

from collections.abc import AsyncIterable, AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Moved:
    """Bytes that were read for a job."""

    size: int = 0


MOVED: Final = ContextVar[Moved | None]("moved", default=None)
"""Of the job that runs in this context."""


@dataclass(frozen=True, slots=True)
class LeastSpeed:
    """Work that moves less than so many bytes in so many seconds gives its place up to those who wait."""

    size: int = 1024**2
    seconds: float = 60


async def counted(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The pieces, each counted for the job that reads it."""
    async for piece in pieces:
        moved = MOVED.get()
        if moved is not None:
            moved.size += len(piece)
        yield piece

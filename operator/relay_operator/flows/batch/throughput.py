"""Measures how much long work moves: its readers count bytes, its calls count as some, and its supervisor compares."""

from collections.abc import AsyncIterable, AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Moved:
    """Bytes read for a job, or what counts as much."""

    size: int = 0


MOVED: Final = ContextVar[Moved | None]("moved", default=None)
"""The counter of the job that runs in this context."""

_CALL: Final = 64 * 1024
"""What a call about one file counts as, in bytes: looking for hundreds of files, or deleting them, moves none."""


@dataclass(frozen=True, slots=True)
class LeastSpeed:
    """Work slower than `size` bytes in `seconds` gives its place up to waiting jobs."""

    size: int = 1024**2
    seconds: float = 60


async def counted(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, each counted for the job that reads it."""
    async for piece in pieces:
        if (moved := MOVED.get()) is not None:
            moved.size += len(piece)
        yield piece


def count_call() -> None:
    """Count a call that the cloud answered, for the job that made it."""
    if (moved := MOVED.get()) is not None:
        moved.size += _CALL

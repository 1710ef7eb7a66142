"""The interface of every kind of place to `ObjectStores`: one object at one location."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import dataclass
from typing import Protocol

LONGEST_PIECE = 1_048_576  # bytes


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as observed. `version` changes with its content; a web server may report neither field."""

    size: int | None
    version: str


@dataclass(frozen=True, slots=True)
class Opened:
    """Bytes in transfer, from `start` on, in pieces of at most `LONGEST_PIECE`."""

    info: ObjectInfo
    pieces: AsyncGenerator[bytes, None]
    close: Callable[[], None]  # needed even if nothing was read: a generator that never began has nothing to clean up


class Store(Protocol):
    """One object. Every method raises `StoreError`."""

    async def find(self) -> ObjectInfo | None:
        """The object; None if the bucket exists and the object does not."""

    async def open(self, start: int, version: str) -> Opened:
        """Read from a byte within the object. With `version`, another version is Changed if the place can tell."""

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Write all or nothing, and replace an existing object. Returns the version as in `ObjectInfo`."""

    async def create(self, content: bytes) -> bool:
        """Write all or nothing; False if the object already exists, which stays unchanged."""

    async def delete(self) -> None:
        """Delete the object; its absence is success."""

    async def check_writable(self) -> None:
        """Return if a write is likely to succeed."""

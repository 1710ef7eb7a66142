"""What every kind of place offers, as `ObjectStores` uses it: one object of one location."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import dataclass
from typing import Protocol

LONGEST_PIECE = 1_048_576  # bytes


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as it was seen. `version` changes when its content does; either may be untold on the web."""

    size: int | None
    version: str


@dataclass(frozen=True, slots=True)
class Opened:
    """Bytes on their way, from `start` on, in pieces of at most `LONGEST_PIECE`."""

    info: ObjectInfo
    pieces: AsyncGenerator[bytes, None]
    close: Callable[[], None]  # also if nothing was read: a generator that never began has nothing to clean up


class Store(Protocol):
    """One object. Every method raises `StoreError`."""

    async def find(self) -> ObjectInfo | None:
        """The object as it is; None if there is none in a bucket that exists."""

    async def open(self, start: int, version: str) -> Opened:
        """From a byte within the object on; of this version, where it is given and the place can tell: else Changed."""

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Whole or not at all; what is there is replaced. The version as in `ObjectInfo`."""

    async def create(self, content: bytes) -> bool:
        """Whole or not at all; False if there is an object, which stays as it is."""

    async def delete(self) -> None:
        """Absence is success."""

    async def check_writable(self) -> None:
        """Returns where a write may be expected to work."""

"""The memory that lists of a cloud take: large ones are read one after another, and kept within a bound."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass(eq=False, slots=True, weakref_slot=True)
class ListRoom:
    """Room for the lists of one Cloud, or of several that belong to the same tenant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large list is read into memory."""
    kept: dict[int, tuple[int, Callable[[], None]]] = field(default_factory=dict)
    """Finished lists, whatever they list, the oldest first: their memory in bytes, and what drops them."""


@dataclass(slots=True)
class ListTurn:
    """The turn of one list in its room: taken once the list is large, and over with the context."""

    room: ListRoom
    taken: bool = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.taken:
            self.room.lock.release()

    async def take(self) -> None:
        """Wait for the turn, unless it is taken."""
        if not self.taken:
            await self.room.lock.acquire()
            self.taken = True

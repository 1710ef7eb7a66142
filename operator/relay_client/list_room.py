"""The memory that lists of a cloud take: large ones are read one after another, and kept within a bound."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True, weakref_slot=True)
class ListRoom:
    """Room for the lists of one Cloud, or of several that belong to the same tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large list is read into memory."""
    kept: dict[int, tuple[int, Callable[[], None]]] = field(default_factory=dict)
    """Finished lists, whatever they list, the oldest first: their memory in bytes, and what drops them."""

"""Reads, writes and checks objects, wherever they are."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from relay_operator.objectstores.credentials import Credentials
    from relay_operator.objectstores.location import Location
    from relay_operator.objectstores.policy import StorePolicy


@dataclass(frozen=True, slots=True)
class Written:
    """What was published. `version` is the store's marker of exactly this content; empty where it gives none."""

    version: str
    size: int


class Reading:
    """An object that is being read: iterate over it for its bytes, in pieces of at most 1 MiB."""

    size: int | None  # bytes of the whole object; None where a web server does not tell
    version: str  # changes when the content does; empty where the server gives no marker

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises `StoreError` as it comes: a cut connection is resumed, content that changed meanwhile is Changed."""
        raise NotImplementedError


class ObjectStores:
    """Every place that batches read from and write to. Made once; `async with` it for as long as it is used."""

    def __init__(self, policy: StorePolicy) -> None:
        self._policy = policy

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    @asynccontextmanager
    async def read(
        self, location: Location, credentials: Credentials | None, *, offset: int = 0
    ) -> AsyncIterator[Reading]:
        """Opens an object from a byte on; raises `StoreError`. Without credentials nothing is signed."""
        yield Reading()

    async def exists(self, location: Location, credentials: Credentials | None) -> bool:
        """Whether there is an object; raises `StoreError` where that cannot be told."""
        raise NotImplementedError

    async def write(
        self, location: Location, credentials: Credentials | None, chunks: AsyncIterable[bytes], *, replace: bool
    ) -> Written:
        """Publishes an object whole or not at all, also when cancelled; raises `StoreError`.

        Without `replace` an object that is there is AlreadyExists. What `chunks` raises is raised.
        """
        raise NotImplementedError

    async def check_writable(self, location: Location, credentials: Credentials | None) -> None:
        """As good as can be known before paying; leaves nothing behind. Raises `StoreError`."""
        raise NotImplementedError

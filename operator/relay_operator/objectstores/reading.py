"""Reads an object over as many connections as it takes."""

import asyncio
from collections.abc import AsyncIterator

from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.store import Opened, Store

_PAUSES = (0.1, 0.5, 2.0, 5.0, 10.0)  # seconds before each attempt without progress; then it gives up


class Reading:
    """Iterate over it once for the bytes, in pieces of at most 1 MiB.

    After a broken connection it continues from the same byte, but only if the object's version is the same.
    """

    def __init__(self, location: Location, store: Store, opened: Opened) -> None:
        self.size = opened.info.size  # bytes of the whole object; None if a web server does not report them
        self.version = opened.info.version  # changes with the content; empty if the server has no such marker
        self._location = location
        self._store = store
        self._opened: Opened | None = opened
        self._position = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises `StoreError`, with reason Changed if the object was replaced or removed meanwhile."""
        failures = 0
        while True:
            try:
                opened = self._opened = self._opened or await self._reopened()
                async for piece in opened.pieces:
                    failures = 0
                    self._position += len(piece)
                    yield piece
                self._check_whole()
            except StoreError as error:
                await self.aclose()
                if self._position == self.size:
                    return
                if error.reason is StoreReason.NOT_FOUND:
                    raise self._changed("removed") from None
                if not error.transient or not self.version or failures == len(_PAUSES):
                    raise
            else:
                return
            await asyncio.sleep(_PAUSES[failures])
            failures += 1

    async def aclose(self) -> None:
        """End the connection."""
        if self._opened is not None:
            await self._opened.pieces.aclose()
            self._opened.close()
            self._opened = None

    async def _reopened(self) -> Opened:
        opened = await self._store.open(self._position, self.version)
        if opened.info.version != self.version or opened.info.size != self.size:
            opened.close()
            raise self._changed("replaced")
        return opened

    def _check_whole(self) -> None:
        if self.size is None or self._position == self.size:
            return
        if self._position > self.size:
            raise self._changed("replaced")
        sentence = f"{self._location} ended at byte {self._position} of {self.size}."
        raise StoreError(StoreReason.UNREACHABLE, sentence)

    def _changed(self, how: str) -> StoreError:
        return StoreError(StoreReason.CHANGED, f"{self._location} was {how} while it was read.")

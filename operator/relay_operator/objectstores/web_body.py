"""The body of a PUT that is sent as it is made."""

from collections.abc import AsyncIterator


class Body:
    """Counts what is sent. What making it raised is kept, since HTTP clients report it as a lost connection."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self.size = len(first)
        self.failure: Exception | None = None
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield self._first
            async for piece in self._rest:
                self.size += len(piece)
                yield piece
        except Exception as failure:
            self.failure = failure
            raise

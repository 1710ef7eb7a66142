"""The body of a PUT that is sent as it is made."""

from collections.abc import AsyncIterator


class Body:
    """Counts what is sent. What making it raised is kept, since HTTP clients report it as a lost connection."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes], size: int | None) -> None:
        self.size = len(first)
        self.failure: Exception | None = None
        self._first = first
        self._rest = rest
        self._promised = size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises ValueError where there are more or fewer bytes than were promised."""
        try:
            yield self._first
            async for piece in self._rest:
                self.size += len(piece)
                self._check(at_most=True)
                yield piece
            self._check(at_most=False)
        except Exception as failure:
            self.failure = failure
            raise

    def _check(self, *, at_most: bool) -> None:
        if self._promised is None or self.size == self._promised or (at_most and self.size < self._promised):
            return
        raise ValueError(f"{self.size} bytes were made where {self._promised} had been promised")

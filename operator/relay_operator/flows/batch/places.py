"""How many jobs run at once, and whose turn it is: the jobs of one namespace or account leave room for others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Share:
    """Whom a job belongs to."""

    namespace: str
    account: str


@dataclass(slots=True)
class Places:
    """Places for jobs, in fair shares.

    A namespace leaves as many places free as it has, so it gets at most half. An account leaves half as many free as it
    has, so that two of its namespaces never get all. The share with the fewest places goes first; of equal shares, the
    one that has waited longest.
    """

    limit: int
    _running: list[Share] = field(default_factory=list)
    _waiting: list[tuple[Share, asyncio.Future[None]]] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        """Whether a job waits for a place."""
        return bool(self._waiting)

    @asynccontextmanager
    async def one(self, share: Share) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the context."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((share, turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if (share, turn) in self._waiting:
                self._waiting.remove((share, turn))
            else:
                self._running.remove(share)
            self._give()

    def _give(self) -> None:
        """Give away all free places."""
        while (chosen := self._next()) is not None:
            self._waiting.remove(chosen)
            self._running.append(chosen[0])
            chosen[1].set_result(None)

    def _next(self) -> tuple[Share, asyncio.Future[None]] | None:
        free = self.limit - len(self._running)
        namespaces = Counter(share.namespace for share in self._running)
        accounts = Counter(share.account for share in self._running)
        may = [
            each
            for each in self._waiting
            if not each[1].done() and free > max(namespaces[each[0].namespace], accounts[each[0].account] // 2)
        ]
        return min(may, key=lambda each: (namespaces[each[0].namespace], accounts[each[0].account]), default=None)

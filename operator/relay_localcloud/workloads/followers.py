"""Followed logs: each ends once its request would not be admitted any more, and when the cloud stops."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.turns import Turns
from relay_localcloud.identity.credentials import authenticate
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.workloads.vm_logs import LINES
from relay_localcloud.workloads.workloads import WORKLOADS, Workload, visible

MOST_FOLLOWED: Final = 100
"""Logs of an organization that are followed at once (assumed)."""

LOOK_SECONDS: Final = 2.0
"""The real seconds after which a follower is checked without news: keys and sessions expire, and people lose roles."""


class Follower:
    """A request that follows the log of a workload."""

    def __init__(self, caller: Principal, credential: str, workload: Workload) -> None:
        self.workload_id = workload.id
        self.organization_id = workload.organization_id
        self._rule = caller.rule
        self._credential = credential
        self._news = asyncio.Event()

    def wake(self) -> None:
        """End the current wait for news."""
        self._news.set()

    async def news(self) -> None:
        """Return once the workload or its log has changed, and after `LOOK_SECONDS` at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._news.wait()
        self._news.clear()

    def admitted(self, tx: Tx) -> Workload:
        """The workload; ApiError if the request would not be admitted any more, or it is another organization's."""
        workload = visible(tx, authenticate(tx, self._credential).check(self._rule, None), self.workload_id)
        if workload.organization_id != self.organization_id:
            raise not_found("VM or pod", self.workload_id)
        return workload


class Followers:
    """All followers, by their workload."""

    def __init__(self, store: Store, turns: Turns) -> None:
        self._store = store
        self._turns = turns
        self._by_workload: dict[str, set[Follower]] = {}
        self._of_organization: Counter[str] = Counter()
        self._stopping = False
        store.watch(WORKLOADS.table, "id", ("status", "organization_id"), self._changed)
        store.watch(LINES.table, "vm_id", ("line",), self._changed)

    @contextmanager
    def with_one_more(self, follower: Follower) -> Iterator[None]:
        """Register a follower while this lasts; ApiError 429 if its organization has too many."""
        if self._of_organization[follower.organization_id] >= MOST_FOLLOWED:
            raise ApiError(429, f"This organization follows {MOST_FOLLOWED} logs already: end one of them first.")
        self._of_organization[follower.organization_id] += 1
        beside = self._by_workload.setdefault(follower.workload_id, set())
        beside.add(follower)
        try:
            yield
        finally:
            beside.discard(follower)
            if not beside and self._by_workload.get(follower.workload_id) is beside:
                del self._by_workload[follower.workload_id]
            self._of_organization[follower.organization_id] -= 1
            if not self._of_organization[follower.organization_id]:
                del self._of_organization[follower.organization_id]

    async def news_of(self, follower: Follower) -> None:
        """Wait for news, and then for the organization's turn to look at it; ApiError 503 once the cloud stops."""
        if not self._stopping:
            await follower.news()
        if self._stopping:
            raise ApiError(503, "The local cloud is stopping.")
        await self._turns.of(follower.organization_id)

    def admitted(self, follower: Follower) -> Workload:
        """The workload as it is, even if a fault makes its log stale; ApiError if the follower is not admitted."""
        with self._store.transaction(at=self._store.current_time()) as tx:
            return follower.admitted(tx)

    def end(self) -> None:
        """End every followed log, since the cloud stops."""
        self._stopping = True
        for workload_id in self._by_workload:
            self._changed(workload_id)

    def _changed(self, workload_id: str) -> None:
        # This may run inside a transaction: those whom it wakes look at the change after it.
        for follower in self._by_workload.get(workload_id, ()):
            follower.wake()

"""What is passing through the gateway, so that it ends with what let it in: its workload's endpoint, and its key."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from relay_localcloud.gateway.admission import admit
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.targets import Target
from relay_localcloud.http.errors import ApiError


class Passage:
    """A request that was let in, for as long as it and its answer last, or its WebSocket."""

    def __init__(self, request: web.BaseRequest, target: Target) -> None:
        self.request = request
        self.target = target
        self.end: Callable[[], Awaitable[None]] = self.abort
        """Breaks it off; a WebSocket has a way of its own."""

    async def abort(self) -> None:
        """Break the connection, so that nobody takes what came so far for the whole answer."""
        if self.request.transport is not None:
            self.request.transport.abort()


class Passages:
    """Everything that is passing. What would not be let in any more is ended at once."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._by_workload: dict[str, set[Passage]] = {}
        self._ending: set[asyncio.Future[None]] = set()
        directory.on_change = self._look_again

    @contextmanager
    def through(self, workload_id: str, passage: Passage) -> Iterator[None]:
        """Count it for as long as this lasts."""
        beside = self._by_workload.setdefault(workload_id, set())
        beside.add(passage)
        try:
            yield
        finally:
            beside.discard(passage)
            if not beside and self._by_workload.get(workload_id) is beside:
                del self._by_workload[workload_id]

    def _look_again(self, workload_id: str | None) -> None:
        if workload_id in self._by_workload or (workload_id is None and self._by_workload):
            # This is inside a transaction: what it changes can be read, and is true, only after it.
            asyncio.get_running_loop().call_soon(self._end_refused, workload_id)

    def _end_refused(self, workload_id: str | None) -> None:
        chosen = self._by_workload.values() if workload_id is None else [self._by_workload.get(workload_id, set())]
        for passage in [passage for beside in chosen for passage in beside if not self._may_pass(passage)]:
            ending = asyncio.ensure_future(passage.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _may_pass(self, passage: Passage) -> bool:
        endpoint = self._directory.endpoint(passage.target)
        if endpoint is None:
            return False
        try:
            admit(endpoint, passage.request.headers, self._directory)
        except ApiError:
            return False
        return True

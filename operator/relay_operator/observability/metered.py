"""Counts every request to the cloud by its operation, from any caller."""

import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from relay_client import OPERATIONS, AnyOperation, ConnectionPool
from relay_client.answers import Answer
from relay_client.pool import OpenAnswer, Request

_OTHER = "other"


AnswerT = TypeVar("AnswerT", Answer, OpenAnswer)
RequestObserver: TypeAlias = Callable[[str, int | None, float], None]
"""Called for every request with operation, status (None: no answer) and duration in seconds."""


class MeteredPool(ConnectionPool):
    """A pool that reports every request."""

    def __init__(
        self,
        on_request: RequestObserver,
        clock: Callable[[], float],
        may_write: Callable[[], bool],
        max_connections: int,
        proxy: Callable[[str], str | None] | None = None,
    ) -> None:
        super().__init__(may_write=may_write, max_connections=max_connections, proxy=proxy)
        self._on_request = on_request
        self._clock = clock

    async def exchange(self, request: Request) -> Answer:
        """Send one request and return its answer. Raises NoAnswerError."""
        return await self._metered(request, super().exchange(request))

    async def open(self, request: Request) -> OpenAnswer:
        """Send one request and return the head of its answer. Raises NoAnswerError."""
        return await self._metered(request, super().open(request))

    async def _metered(self, request: Request, exchange: Awaitable[AnswerT]) -> AnswerT:
        started, status = self._clock(), None
        try:
            answer = await exchange
            status = answer.status
            return answer
        finally:
            self._on_request(operation_at(request.method, request.url), status, self._clock() - started)


def operation_at(method: str, url: str) -> str:
    """The name of the operation that a request performs; ids in paths never become labels."""
    path = url.partition("?")[0]
    candidates = _OPERATIONS.get((method, path.count("/", path.find("/v1/"))), [])
    return next((name for name, pattern in candidates if pattern.search(path)), _OTHER)


def _index(operations: tuple[AnyOperation, ...]) -> dict[tuple[str, int], list[tuple[str, re.Pattern[str]]]]:
    index: dict[tuple[str, int], list[tuple[str, re.Pattern[str]]]] = {}
    for operation in operations:
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(operation.path)) + "$")
        index.setdefault((operation.method, operation.path.count("/")), []).append((operation.name, pattern))
    return index


_OPERATIONS = _index(OPERATIONS)

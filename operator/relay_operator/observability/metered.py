"""Counts every request to the cloud by its operation, from any caller."""

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar

from relay_client import OPERATIONS, AnyOperation, CallPolicy, ConnectionPool
from relay_client.answers import Answer
from relay_client.pool import OpenAnswer

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

    async def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float,
        policy: CallPolicy,
        may_begin: Callable[[], bool],
    ) -> Answer:
        """Send one request and return its answer. Raises NoAnswerError."""
        answer = super().exchange(method, url, headers, content, seconds, policy, may_begin)
        return await self._metered(method, url, answer)

    async def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: AsyncIterable[bytes] | None,
        seconds: float | None,
        policy: CallPolicy,
        may_begin: Callable[[], bool],
    ) -> OpenAnswer:
        """Send one request and return the head of its answer. Raises NoAnswerError."""
        answer = super().open(method, url, headers, content, seconds, policy, may_begin)
        return await self._metered(method, url, answer)

    async def _metered(self, method: str, url: str, request: Awaitable[AnswerT]) -> AnswerT:
        started, status = self._clock(), None
        try:
            answer = await request
            status = answer.status
            return answer
        finally:
            self._on_request(operation_at(method, url), status, self._clock() - started)


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

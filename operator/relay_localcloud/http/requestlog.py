"""The log of requests at `GET /_localcloud/requests`, in memory: the newest 50,000, of at most 32 MiB.

A full log guarantees each organization an even share, so that no organization displaces another's requests.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from heapq import merge
from itertools import dropwhile
from operator import attrgetter
from sys import getsizeof
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.exchange import Exchange, Operations, attach, segments
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.shares import even_share

KEPT: Final = 50_000
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of memory; a typical request takes less than 500."""
LONGEST_PATH: Final = 4096

_SHORTENED_AT: Final = 16
"""The log exceeds its bounds by one part in so many before it is shortened."""
_FIXED_SIZE: Final = 300
"""Bytes that a request takes besides the texts that its sender chose."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request, logged when its answer began or was withheld; `status` is None if the request was not executed."""

    seq: int
    at: int
    method: str
    path: str
    operation: str | None
    status: int | None
    organization_id: str | None
    unread_fields: tuple[str, ...]
    fault_id: str | None
    body: str | None

    @property
    def size(self) -> int:
        """About how many bytes of memory the request takes."""
        return _FIXED_SIZE + getsizeof(self.path) + getsizeof(self.body) + sum(map(getsizeof, self.unread_fields))

    def as_json(self) -> dict[str, object]:
        """The item as the control interface shows it."""
        return {**shown(self, *_SHOWN), "at": timestamp(self.at)}


_SHOWN: Final = tuple(each.name for each in fields(LoggedRequest) if each.name != "body")


@dataclass(slots=True)
class _Share:
    """The logged requests of one organization, oldest first."""

    requests: deque[LoggedRequest] = field(default_factory=deque)
    size: int = 0

    def add(self, logged: LoggedRequest) -> None:
        self.requests.append(logged)
        self.size += logged.size

    def drop_oldest(self) -> None:
        self.size -= self.requests.popleft().size


class RequestLog:
    """The newest requests, numbered from 1; requests without a valid key share the room of one organization."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._shares: defaultdict[str | None, _Share] = defaultdict(_Share)
        self._count = 0
        self._size = 0
        self._last = 0

    def add(self, method: str, path: str, exchange: Exchange) -> None:
        """Number and keep one request."""
        self._last += 1
        organization_id = (exchange.principal.organization_id if exchange.principal else None) or None
        logged = LoggedRequest(
            self._last,
            self._now(),
            method,
            path[:LONGEST_PATH],
            exchange.operation,
            exchange.status,
            organization_id,
            tuple(exchange.unread_fields),
            exchange.fault_id,
            exchange.body,
        )
        self._shares[organization_id].add(logged)
        self._count += 1
        self._size += logged.size
        if self._count > KEPT + KEPT // _SHORTENED_AT or self._size > LARGEST + LARGEST // _SHORTENED_AT:
            self._shorten()

    def forget(self) -> None:
        """Delete all requests, and restart at 1."""
        self._shares.clear()
        self._count = self._size = self._last = 0

    def after(self, seq: int, organization_id: str | None) -> list[LoggedRequest]:
        """The requests with a greater number, oldest first."""
        found = (logged for share in self._of(organization_id) for logged in share.requests if logged.seq > seq)
        return sorted(found, key=attrgetter("seq"))

    @property
    def last(self) -> int:
        """The number of the newest request; 0 before the first."""
        return self._last

    def before(self, seq: int | None, organization_id: str | None) -> Iterator[LoggedRequest]:
        """The requests with a smaller number, or all, newest first."""
        shares = self._of(organization_id)
        newest_first = merge(*(reversed(share.requests) for share in shares), key=lambda logged: -logged.seq)
        return dropwhile(lambda logged: seq is not None and logged.seq >= seq, newest_first)

    def _of(self, organization_id: str | None) -> list[_Share]:
        if organization_id is None:
            return list(self._shares.values())
        return [self._shares[organization_id]] if organization_id in self._shares else []

    def _shorten(self) -> None:
        shares = self._shares.values()
        most = even_share((len(share.requests) for share in shares), KEPT)
        largest = even_share((share.size for share in shares), LARGEST)
        for share in shares:
            while len(share.requests) > most or share.size > largest:
                share.drop_oldest()
        self._count = sum(len(share.requests) for share in shares)
        self._size = sum(share.size for share in shares)


class RequestLogging:
    """The outermost layer: names the operation and logs the outcome of the request; control calls are not logged."""

    def __init__(self, app: ASGIApp, operations: Operations, log: RequestLog) -> None:
        self._app = app
        self._operations = operations
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; log it before its answer is sent, so that a client with the answer finds the entry."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(*self._operations.find(scope["method"], segments(scope)))
        attach(scope, exchange)
        if not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return

        logged = False

        async def send_logged(message: Message) -> None:
            nonlocal logged
            if message["type"] == "http.response.start" and not logged:
                logged = True
                exchange.status = message["status"]
                self._log.add(scope["method"], scope["path"], exchange)
            await send(message)

        try:
            await self._app(scope, receive, send_logged)
        finally:
            if not logged:
                self._log.add(scope["method"], scope["path"], exchange)

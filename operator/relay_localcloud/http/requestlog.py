"""The log of requests at `GET /_localcloud/requests`; the newest 50,000 are kept, in memory."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.clock.clock import Clock
from relay_localcloud.http.exchange import Exchange, Operations, attach
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.rows import shown

KEPT = 50_000
LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request, logged when its answer began or was withheld; `status` is None where it was never acted on."""

    seq: int
    at: int
    method: str
    path: str
    operation: str | None
    status: int | None
    organization_id: str | None
    unread_fields: tuple[str, ...]
    fault_id: str | None

    def as_json(self) -> dict[str, object]:
        """The item as the control interface shows it."""
        return {**shown(self), "at": timestamp(self.at)}


class RequestLog:
    """A ring of the newest requests, numbered from 1 on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ring: deque[LoggedRequest] = deque(maxlen=KEPT)
        self._last = 0

    def add(self, method: str, path: str, exchange: Exchange) -> None:
        """Number and keep one request."""
        self._last += 1
        organization_id = (exchange.principal.organization_id if exchange.principal else None) or None
        self._ring.append(
            LoggedRequest(
                self._last,
                self._clock.now(),
                method,
                path[:LONGEST_PATH],
                exchange.operation,
                exchange.status,
                organization_id,
                tuple(exchange.unread_fields),
                exchange.fault_id,
            )
        )

    def forget(self) -> None:
        """Begin again at 1."""
        self._ring.clear()
        self._last = 0

    def after(self, seq: int, organization_id: str | None) -> Iterator[LoggedRequest]:
        """The requests with a greater number, oldest first."""
        first = self._last - len(self._ring) + 1
        for logged in islice(self._ring, max(seq + 1 - first, 0), None):
            if organization_id is None or logged.organization_id == organization_id:
                yield logged

    @property
    def last(self) -> int:
        """The number of the newest request; 0 before the first."""
        return self._last

    def before(self, seq: int | None, organization_id: str | None) -> Iterator[LoggedRequest]:
        """The requests with a smaller number, or all, newest first."""
        for logged in reversed(self._ring):
            if (seq is None or logged.seq < seq) and organization_id in {None, logged.organization_id}:
                yield logged


class RequestLogging:
    """The outermost layer: names the operation, and logs what became of the request; control calls are not logged."""

    def __init__(self, app: ASGIApp, operations: Operations, log: RequestLog) -> None:
        self._app = app
        self._operations = operations
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; log it before its answer is sent, so that whoever has the answer finds it logged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(*self._operations.find(scope["method"], scope["path"]))
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

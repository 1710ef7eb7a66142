"""The layer that applies faults to requests: after authentication, before the operation.

Cutting a connection needs the server's transport (`ABORT` and `CLOSE` of `http/servers.py`).
"""

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.faults import faults
from relay_localcloud.faults.faults import Answered, Effect, Fault
from relay_localcloud.http.connections import ABORT, CLOSE
from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import Exchange, exchange_of
from relay_localcloud.kernel import history
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Store

_BODILESS = (204, 304)
"""Statuses whose answer has no body (RFC 9110): a client would read one as the next answer."""

_PAGE = b"<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>This is not JSON</h1></body></html>\n"


class FaultRegistry:
    """The operations that have faults, cached beside the table, since every request needs them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._operations: frozenset[str] = frozenset()
        self.reload()

    def reload(self) -> None:
        """Read the table again, after faults were added, removed or imported."""
        with self._store.transaction() as tx:
            self._operations = faults.operations(tx)
            reads_the_past = faults.any_reads_the_past(tx)
        self._store.remember_past(wanted=reads_the_past)

    def has(self, operation: str) -> bool:
        """Whether any fault names this operation."""
        return operation in self._operations

    def meet(self, operation: str | None, organization_id: str | None) -> Fault | None:
        """The fault that applies to this request."""
        if operation is None or operation not in self._operations:
            return None
        with self._store.transaction() as tx:
            return faults.meet(tx, operation, organization_id)


class FaultInjection:
    """Applies a fault to its request."""

    def __init__(self, app: ASGIApp, registry: FaultRegistry, refused: ErrorAnswer) -> None:
        self._app = app
        self._registry = registry
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, as its fault allows."""
        exchange = exchange_of(scope)
        organization_id = exchange.principal.organization_id if exchange.principal else None
        fault = self._registry.meet(exchange.operation, organization_id)
        if fault is None:
            await self._app(scope, receive, send)
            return
        exchange.fault_id = fault.id
        await self._suffer(fault.effect, exchange, scope, receive, send)

    async def _suffer(self, effect: Effect, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        match effect:
            case Effect("status", Answered() as answered):
                await self._answer(answered, scope, receive, send)
            case Effect("delaySeconds", float(delay)):
                await asyncio.sleep(delay)
                await self._app(scope, receive, send)
            case Effect("answerDelaySeconds", float(delay)):
                reply = await self._reply(scope, receive)
                await asyncio.sleep(delay)
                await _truncate(reply, len(reply.body), scope, receive, send)
            case Effect("drop"):
                await self._drop(effect, exchange, scope, receive)
            case Effect("truncateBytes", int(kept)):
                exchange.reply_breaks = True
                await _truncate(await self._reply(scope, receive), kept, scope, receive, send)
            case Effect("html"):
                await _send_page(await self._reply(scope, receive), send)
            case Effect("staleSeconds", float(behind)):
                with history.reading_as_of(seconds(behind)):
                    await self._app(scope, receive, send)
            case Effect("cutStreamAfter", int(pieces)):
                exchange.cut_stream_after = pieces
                await self._app(scope, receive, send)
            case Effect("priceFactor", float(factor)):
                exchange.price_factor = factor
                await self._app(scope, receive, send)
            case _:
                raise AssertionError(f"{effect} is not an effect on requests")

    async def _drop(self, effect: Effect, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        if effect.value == "after":
            exchange.reply_breaks = True
            exchange.status = (await self._reply(scope, receive)).status
        await _cut(scope, receive, ABORT)

    async def _answer(self, effect: Answered, scope: Scope, receive: Receive, send: Send) -> None:
        error = ApiError(
            effect.status,
            f"A fault of this local cloud answers {scope['method']} {scope['path']} with {effect.status}.",
        )
        response = self._refused(error, scope)
        if effect.body is not None:
            text = effect.body if isinstance(effect.body, str) else json.dumps(effect.body)
            response.body = text.encode()
        for name, value in effect.headers.items():
            response.headers[name] = value
        response.headers["content-length"] = str(len(response.body))
        if effect.status in _BODILESS:
            response.body = b""
            del response.headers["content-length"]
        await response(scope, receive, send)

    async def _reply(self, scope: Scope, receive: Receive) -> "_Reply":
        reply = _Reply()
        await self._app(scope, receive, reply.take)
        return reply


class _Reply:
    """An answer that is held back."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message.get("headers", []))
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


async def _truncate(reply: _Reply, kept: int, scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(name, value) for name, value in reply.headers if name != b"content-length"]
    if reply.status not in _BODILESS:
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    whole = kept >= len(reply.body)
    await send({"type": "http.response.body", "body": bytes(reply.body[:kept]), "more_body": not whole})
    if not whole:
        await _cut(scope, receive, CLOSE)


async def _send_page(reply: _Reply, send: Send) -> None:
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(_PAGE)).encode())]
    status = 200 if reply.status in _BODILESS else reply.status
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": _PAGE})


async def _cut(scope: Scope, receive: Receive, how: str) -> None:
    """End the connection (ABORT: at once; CLOSE: once what was written has been sent), and wait until it has ended."""
    scope["extensions"][how]()
    while (await receive())["type"] != "http.disconnect":
        pass

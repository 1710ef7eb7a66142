"""httpx2's transport on aiohttp's connections, for their CPU. The only user of aiohttp in this package.

No redirects, cookies, decompression or environment, and nothing is sent twice: `Cloud` decides on repetition.
"""

import asyncio
import contextlib
import select
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import cast
from weakref import WeakSet

import aiohttp
import httpx2
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

SENDING = "connection.ready"
"""The trace event after which bytes of the request may leave: told before the first of them is written."""

_CONNECTION = "aiohttp_connection"
"""The extension of a request that holds the connection it is sent on."""
_CLOSE_SECONDS = 2.0
_MAX_FIELD_BYTES = 64 * 1024
# What aiohttp passes to its connector does not name the request that a connection is for.
_request: ContextVar[httpx2.Request] = ContextVar("request")


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends each request once, over a pooled connection of the event loop that the first one is sent in.

    Reads `timeout` (`pool`, `connect`, in seconds) and `trace` from the request's extensions, as httpx2 has them, and
    raises httpx2's exceptions. What bounds the exchange as a whole is the caller's.
    """

    def __init__(
        self, *, max_connections: int, keepalive_seconds: float, ssl_context: ssl.SSLContext, proxy: str | None
    ) -> None:
        if proxy is not None and not proxy.startswith(("http://", "https://")):
            raise ValueError("the proxy must begin with http:// or https://")
        self._max_connections = max_connections
        self._keepalive_seconds = keepalive_seconds
        self._ssl_context = ssl_context
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answers as soon as the head of the response is there; the body is read through the response's stream."""
        connect_seconds = cast("Mapping[str, float]", request.extensions["timeout"])["connect"]
        token = _request.set(request)
        try:
            answer = await self._opened().request(
                request.method,
                URL(str(request.url), encoded=True),
                data=_data(request),
                headers=request.headers.multi_items(),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(connect=connect_seconds),
            )
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        finally:
            _request.reset(token)
        return httpx2.Response(answer.status, headers=list(answer.raw_headers), stream=_Body(answer))

    async def aclose(self) -> None:
        """Closes all connections; a request that is under way fails."""
        self._closed = True
        if self._session is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise httpx2.ConnectError("the connections were closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._max_connections, self._keepalive_seconds, self._ssl_context),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=["Content-Type"],
                auto_decompress=False,
                trust_env=False,
                proxy=self._proxy,
                middlewares=[_sent_once],
                max_line_size=_MAX_FIELD_BYTES,
                max_field_size=_MAX_FIELD_BYTES,
            )
        return self._session


class _Connector(aiohttp.TCPConnector):
    """Bounds the wait for a free connection by itself, and gives none on which anything came unasked.

    aiohttp reuses a connection until the event loop has seen its end, and one that holds an answer to nothing.
    """

    def __init__(self, max_connections: int, keepalive_seconds: float, ssl_context: ssl.SSLContext) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive_seconds, ssl=ssl_context)
        self._free = asyncio.Semaphore(max_connections)
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp passes it by this name
    ) -> Connection:
        """A connection for one request, whose trace is told of it. Raises PoolTimeout where none becomes free."""
        request = _request.get()
        await self._take_place(cast("Mapping[str, float]", request.extensions["timeout"])["pool"])
        try:
            connection = await self._usable(req, traces, timeout)
        except BaseException:
            self._free.release()
            raise
        connection.add_callback(self._free.release)
        request.extensions[_CONNECTION] = connection
        trace = cast("Callable[[str, Mapping[str, object]], Awaitable[None]]", request.extensions["trace"])
        await trace(SENDING, {})
        return connection

    async def _take_place(self, seconds: float) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("no connection is free") from None

    async def _usable(
        self, req: aiohttp.ClientRequest, traces: list[Trace], bounds: aiohttp.ClientTimeout
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, bounds)
            protocol = connection.protocol
            assert protocol is not None
            # Under TLS, tickets may wait to be read on a fresh one.
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            if not protocol.should_close and not _is_readable(connection.transport):
                return connection
            connection.close()


def _is_readable(transport: asyncio.Transport | None) -> bool:
    """Whether something waits that the event loop has not read yet; asked of the socket, so alike under any loop."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _sent_once(
    request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Fails in terms for which aiohttp does not send a request again, as it does where a connection broke."""
    try:
        return await handler(request)
    except aiohttp.ClientError as error:
        raise _translated(error) from error


def _data(request: httpx2.Request) -> bytes | AsyncIterator[bytes] | None:
    """The body as aiohttp takes it: at once, or in pieces, each of which it waits with until the last one was taken."""
    return (request.read() or None) if isinstance(request.stream, httpx2.ByteStream) else _pieces(request)


async def _pieces(request: httpx2.Request) -> AsyncIterator[bytes]:
    async for piece in cast("httpx2.AsyncByteStream", request.stream):
        # A server that answers early closes the connection, and writing to that would lose the answer unread.
        if _is_readable(cast("Connection", request.extensions[_CONNECTION]).transport):
            await asyncio.sleep(0)
        yield piece


class _Body(httpx2.AsyncByteStream):
    """The body of an answer. Once it was read to its end its connection is free; closed earlier, it is given up."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._answer.content.readany()
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        if not self._answer.closed:
            self._answer.close()


def _translated(error: aiohttp.ClientError) -> httpx2.HTTPError | httpx2.InvalidURL:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return httpx2.ConnectTimeout("timed out")
        case aiohttp.ClientHttpProxyError():
            return httpx2.ProxyError(f"the proxy answered {error.status} {error.message}")
        case aiohttp.ClientConnectorError():
            return httpx2.ConnectError(f"{error.host}:{error.port}: {error.os_error}")
        case aiohttp.InvalidURL():
            return httpx2.InvalidURL(str(error))
        case aiohttp.ServerDisconnectedError():
            return httpx2.RemoteProtocolError("the server closed the connection without an answer")
        case aiohttp.ClientResponseError():
            return httpx2.RemoteProtocolError(f"the answer is not HTTP: {error.message}")
        case aiohttp.ClientPayloadError():
            return httpx2.RemoteProtocolError("the server closed the connection in the middle of the answer")
        case OSError(errno=None):
            return httpx2.WriteError("the connection broke while the request was sent")
        case OSError():
            return httpx2.ReadError(str(error))
        case _:
            return httpx2.RemoteProtocolError(f"{type(error).__name__}: {error}")

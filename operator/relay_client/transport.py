"""One request over aiohttp, sent once. Apart from pool.py, only this module of the package uses aiohttp.

It uses no redirects, cookies, decompression or environment, and sends nothing twice: `Cloud` decides on retries.
"""

import asyncio
import contextlib
import select
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock, Thread
from typing import ParamSpec, TypeAlias, TypeVar
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

Found: TypeAlias = Sequence[tuple[int, int, int, str, tuple[str | int, ...] | tuple[int, bytes]]]
LookUp: TypeAlias = Callable[[str, int, int, int, int, int], Found]
"""Looks one name up, and blocks until the answer, as `socket.getaddrinfo` does."""

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")

_CLOSE_SECONDS = 2.0
_LOOKUPS = 32
_MAX_HEADERS = 64
_MAX_FIELD_BYTES = 8 * 1024
"""Of the first line of an answer, and of each header."""
_LONGEST_REMEMBERED = 512
"""In characters; a URL with a cursor may have a hundred times as many."""
_BROKE_OFF = "the server closed the connection in the middle of the answer"


@dataclass(slots=True)
class Sending:
    """The progress of a request; the seconds limit the time before it is sent."""

    pool_seconds: float
    connect_seconds: float
    may_begin: Callable[[], bool]
    """Called once there is a connection, right before the first byte."""
    connection: Connection | None = None
    """The connection of the request; once set, bytes of the request may have been sent."""

    @property
    def begun(self) -> bool:
        """Whether bytes of the request may have been sent."""
        return self.connection is not None


# aiohttp does not tell its connector which request a connection is for.
_sending: ContextVar[Sending] = ContextVar("sending")


class ConnectionFailedError(Exception):
    """There was no connection, or it broke; the message says how."""


class WithheldError(ConnectionFailedError):
    """`may_begin` returned False, which says nothing about the server."""


def _url(text: str) -> URL:
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _parsed(text)


def _parsed(text: str) -> URL:
    return URL(text, encoded=text.isascii())  # paths and queries are quoted; a host, or a base URL's path, may not be


_remembered = lru_cache(maxsize=1024)(_parsed)  # callers use the same URLs again and again


class Transport:
    """Sends each request once, over pooled connections of the event loop of the first request.

    Raises ConnectionFailedError and OSError. The caller bounds the exchange as a whole.
    """

    def __init__(
        self,
        *,
        max_connections: int,
        keepalive_seconds: float,
        ssl_context: ssl.SSLContext,
        proxy_of: Callable[[str], str | None],
        look_up: LookUp,
    ) -> None:
        self._max_connections = max_connections
        self._keepalive_seconds = keepalive_seconds
        self._ssl_context = ssl_context
        self._proxy_of = proxy_of
        self._resolver = _Resolver(look_up)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | AsyncIterable[bytes] | None,
        sending: Sending,
    ) -> aiohttp.ClientResponse:
        """Return once the head of the response has arrived; the caller must read the body with `read`, or close it."""
        try:
            target = _url(url)
        except ValueError as unfit:
            raise ConnectionFailedError(f"not a URL: {unfit}") from unfit
        token = _sending.set(sending)
        try:
            return await self._opened().request(
                method,
                target,
                data=_pieces(content, sending) if isinstance(content, AsyncIterable) else content or None,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy_of(url),
                timeout=_bound(sending.connect_seconds),
            )
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        except UnicodeError as unfit:  # a label of the host's name is empty, or longer than 63 characters
            raise ConnectionFailedError(f"cannot connect: {target.host} cannot be the name of a host") from unfit
        finally:
            _sending.reset(token)

    async def aclose(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        if self._session is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ConnectionFailedError("cannot connect: the connections were closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._max_connections, self._keepalive_seconds, self._ssl_context, self._resolver),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=["Content-Type"],
                auto_decompress=False,
                trust_env=False,
                middlewares=[_sent_once],
                max_line_size=_MAX_FIELD_BYTES,
                max_field_size=_MAX_FIELD_BYTES,
                max_headers=_MAX_HEADERS,
            )
        return self._session


class _Resolver(AbstractResolver):
    """Looks names up in threads of its own, apart from the API server's name: uvloop makes two lookups at a time.

    A lookup cannot be cancelled: it takes a thread until the system gives up, which can be a minute. Until then, all
    who need the name at this port wait for the same lookup, since the connector caches names.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._threads = _Daemons(_LOOKUPS, "cloud-lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name. Raises OSError, UnicodeError."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._look_up, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
        return [_numeric(host, family, protocol, address) for family, _, protocol, _, address in found]

    async def close(self) -> None:
        """Does nothing: a lookup ends by itself, and its thread with it."""


class _Daemons(Executor):
    """Runs jobs in threads, up to `most` at once; a process that ends waits for none of them.

    With those of `concurrent.futures`, it would wait until the system gives up a lookup.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = Lock()
        self._running = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(
        self, fn: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs
    ) -> Future[ResultT]:
        answer = Future[ResultT]()
        with self._lock:
            if self._running < self._most:
                Thread(target=self._work, name=self._name, daemon=True).start()
                self._running += 1
            self._waiting.append(lambda: _answered(answer, partial(fn, *args, **kwargs)))
        return answer

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


def _answered(answer: Future[ResultT], job: Callable[[], ResultT]) -> None:
    """Do the job, unless nobody awaits its answer any more."""
    if answer.set_running_or_notify_cancel():
        try:
            answer.set_result(job())
        except BaseException as error:  # noqa: BLE001 - who awaits the answer gets it
            answer.set_exception(error)


def _numeric(name: str, family: int, protocol: int, address: Sequence[str | int | bytes]) -> ResolveResult:
    host, port, *more = address
    scope = f"%{more[1]!r}" if more and more[1] else ""  # of a link-local address of IPv6
    flags = socket.AI_NUMERICHOST
    return ResolveResult(
        hostname=name, host=f"{host!s}{scope}", port=int(port), family=family, proto=protocol, flags=flags
    )


class _Connector(aiohttp.TCPConnector):
    """Bounds the wait for a free connection itself, and never reuses one with unexpected data.

    aiohttp would reuse one whose end the event loop has not seen, or one that holds an unrequested answer.
    """

    def __init__(
        self, max_connections: int, keepalive_seconds: float, ssl_context: ssl.SSLContext, resolver: AbstractResolver
    ) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive_seconds, ssl=ssl_context, resolver=resolver)
        self._free = asyncio.Semaphore(max_connections)
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp passes it by this name
    ) -> Connection:
        """A connection for one request, whose `Sending` is informed."""
        sending = _sending.get()
        await self._take_place(sending.pool_seconds)
        try:
            connection = await self._usable(req, traces, timeout)
            _checked(connection, sending)
        except BaseException:
            self._free.release()
            raise
        connection.add_callback(self._free.release)
        sending.connection = connection
        return connection

    async def _take_place(self, seconds: float) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise ConnectionFailedError("no connection is free") from None

    async def _usable(
        self, req: aiohttp.ClientRequest, traces: list[Trace], bounds: aiohttp.ClientTimeout
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, bounds)
            protocol = connection.protocol
            assert protocol is not None
            # A fresh TLS connection may have unread session tickets.
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            if not protocol.should_close and not _is_readable(connection.transport):
                return connection
            connection.close()


def _checked(connection: Connection, sending: Sending) -> None:
    """Raises WithheldError, and releases the connection, if nothing may be sent any more."""
    if not sending.may_begin():
        connection.release()
        raise WithheldError("not sent: its sender may no longer send")


def _is_readable(transport: asyncio.Transport | None) -> bool:
    """Whether unread data waits on the socket; asks the socket itself, so it works with any event loop."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _sent_once(
    request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Turns errors into ones after which aiohttp does not repeat the request, as it would after a broken connection."""
    try:
        return await handler(request)
    except aiohttp.ClientError as error:
        raise _translated(error) from error


async def _pieces(content: AsyncIterable[bytes], sending: Sending) -> AsyncIterator[bytes]:
    """The body for aiohttp: each piece waits until the previous one is taken."""
    async for piece in content:
        # A server that answers early closes the connection; writing to it would lose the unread answer.
        if sending.connection is not None and _is_readable(sending.connection.transport):
            await asyncio.sleep(0)
        yield piece


async def read(answer: aiohttp.ClientResponse) -> bytes:
    """The next bytes of the body; empty at its end, which frees the connection. If closed earlier, it is dropped."""
    with _translating():
        return await answer.content.readany()


async def read_piece(answer: aiohttp.ClientResponse) -> bytes | None:
    """The next piece as the server cut the body, which may be empty; None at its end. Else as `read`."""
    with _translating():
        if answer.content.at_eof():  # aiohttp shares one stream among answers without a body, which never ends twice
            return None
        piece, is_whole = await answer.content.readchunk()
        return piece if piece or is_whole else None


@contextlib.contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientError as error:
        raise _translated(error) from error
    except RuntimeError as closed:  # aiohttp's, if the connection ended at a malformed chunk between two reads
        raise ConnectionFailedError(_BROKE_OFF) from closed


def headers_of(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    """Headers by lower-case name; repeated ones are joined."""
    joined: dict[str, str] = {}
    for name, value in answer.headers.items():
        known = name.lower()
        joined[known] = f"{joined[known]}, {value}" if known in joined else value
    return joined


@lru_cache(maxsize=8)
def _bound(connect_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(connect=connect_seconds)


def _translated(error: aiohttp.ClientError) -> ConnectionFailedError:
    return ConnectionFailedError(_reason(error))


def _reason(error: aiohttp.ClientError) -> str:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "cannot connect: timed out"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status} {error.message}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect: {error.host}:{error.port}: {error.os_error}"
        case aiohttp.InvalidURL():
            return f"not a URL: {error}"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP: {error.message}"
        case aiohttp.ClientPayloadError():
            return _BROKE_OFF
        case OSError(errno=None):
            return "the connection broke while the request was sent"
        case OSError():
            return f"the connection broke: {error}"
        case _:
            return f"{type(error).__name__}: {error}"

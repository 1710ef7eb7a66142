"""The only way out: a proxy on loopback that connects only to addresses it has checked.

Object store libraries resolve names and follow redirects by themselves. As clients of a proxy they do neither unseen:
the proxy is given a name for every connection, resolves it once, checks the address, and connects to that address.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, Self, TypeAlias, TypeVar

from relay_operator.objectstores.addresses import Address, Network, why_not_public, within
from relay_operator.objectstores.proxy_request import BadRequest, ProxyRequest, parse_request

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
_T = TypeVar("_T")
_PIECE = 65_536  # bytes
# Apart from the event loop's own lookups, of which uvloop makes two at a time: a name whose servers do not answer takes
# a thread for up to a minute, and must not hold back the API server's name, nor the names of clouds. By default, eight
# batches are with workers and four transfer records; each gives up after ten seconds, so all of them keep 72 threads
# busy at most, and no namespace those of others.
_LOOKUPS = ThreadPoolExecutor(128, thread_name_prefix="lookup")
_ANSWER_BYTES = 1_048_576  # what a server may send while one result is awaited; content comes in less at a time
_PIECE_COUNTS = 256  # bytes at least: obstore keeps a buffer of 4 KiB for each piece, however small
_SENT_FOR_ONE = 64  # bytes: the parts of an upload are answered one after another
_BEGUN_SECONDS = 10.0
_TO_ALLOW = "an administrator can add its network to RELAY_ALLOWED_PRIVATE_NETWORKS"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the proxy."""

    connections: int = 512
    header_bytes: int = 32_768
    header_seconds: float = 10
    connect_seconds: float = 10
    idle_seconds: float = 120


class EgressRefused(Exception):
    """A connection was refused; the message says which and why. `passing`: another attempt may succeed."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


class CannotConnect(Exception):
    """An allowed connection failed."""


async def system_resolver(host: str, port: int) -> Sequence[Address]:
    """The addresses to which the system resolves a name; raises OSError."""
    # As bytes, since Python refuses a str with a label of more than 63 characters with a UnicodeError.
    lookup = partial(socket.getaddrinfo, host.encode(), port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, lookup)
    return [ip_address(entry[4][0]) for entry in found]


@dataclass(eq=False, slots=True)
class _Awaited:
    """A result that a client works on, which may keep in memory all that comes until then."""

    left: int = _ANSWER_BYTES
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False, slots=True)
class Passage:
    """The right to use the proxy for one operation on one location."""

    user: str
    password: str = field(repr=False)
    port: int
    refused: asyncio.Future[EgressRefused] = field(repr=False)
    failure: str = ""  # why the latest allowed connection failed
    connections: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _awaited: _Awaited | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The proxy's URL without credentials."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The proxy's URL with the credentials of this passage."""
        return f"http://{self.user}:{self.password}@127.0.0.1:{self.port}"

    @property
    def authorization(self) -> str:
        """The value of the Proxy-Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    async def first_of(self, work: Awaitable[_T]) -> _T:
        """The result of the work; raises `EgressRefused` once a connection of it is refused, not after its retries.

        It is also refused if a server sends it more than a client should keep in memory.
        """
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self.refused}
        try:
            with self._awaiting():
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self.refused.done():
                raise self.refused.result()
            return await task
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not complain if a refusal came first

    @contextlib.contextmanager
    def _awaiting(self) -> Iterator[None]:
        """Within the context, what servers send is counted, and has a bound."""
        awaited = self._awaited = _Awaited()
        try:
            yield
        finally:
            awaited.over.set()
            self._awaited = None

    def refuse(self, refused: EgressRefused) -> None:
        """Let the work in progress, and any later work, fail."""
        if not self.refused.done():
            self.refused.set_result(refused)

    async def sent(self, size: int) -> None:
        """Count what a server was sent: it may answer that, too."""
        if self._awaited is not None:
            self._awaited.left = min(self._awaited.left + size // _SENT_FOR_ONE, _ANSWER_BYTES)

    async def received(self, size: int) -> None:
        """Count what a server sent, once it is passed on; raises `EgressRefused` beyond the bound."""
        awaited = self._awaited
        if awaited is None:
            return
        awaited.left -= max(size, _PIECE_COUNTS)
        if awaited.left >= 0:
            return
        # It may be content that is read ahead: then its client has the beginning, and the result comes now.
        try:
            await asyncio.wait_for(awaited.over.wait(), _BEGUN_SECONDS)
        except TimeoutError:
            refused = EgressRefused("its server sends too much, or in too many pieces, for an answer", passing=True)
            self.refuse(refused)
            raise refused from None


class EgressGuard:
    """The proxy. It listens on loopback, and serves only holders of a `Passage`."""

    def __init__(
        self, allowed: tuple[Network, ...], *, resolve: Resolver = system_resolver, limits: Limits | None = None
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._limits = limits or Limits()
        self._passages: dict[str, Passage] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        limit = self._limits.header_bytes
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=limit)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.contextmanager
    def passage(self) -> Iterator[Passage]:
        """Credentials that are valid within the context; connections made with them end with it."""
        if self._server is None:
            raise RuntimeError("the egress guard is used outside of its `async with`")
        refused: asyncio.Future[EgressRefused] = asyncio.get_running_loop().create_future()
        port = self._server.sockets[0].getsockname()[1]
        passage = Passage(secrets.token_hex(8), secrets.token_urlsafe(24), port, refused)
        self._passages[passage.user] = passage
        try:
            yield passage
        finally:
            del self._passages[passage.user]
            for connection in passage.connections:
                connection.cancel()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._tasks) >= self._limits.connections:
            writer.write(_answer(503, "Too many connections"))
            writer.close()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer, task)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # The closed connection tells the client; nobody else waits for this task's outcome.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        try:
            async with asyncio.timeout(self._limits.header_seconds):
                request = parse_request(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return await _say(writer, 431, "Request header too large")
        except BadRequest as bad:
            return await _say(writer, 400, str(bad))
        passage = self._authorized(request)
        if passage is None:
            return await _say(writer, 407, "Proxy authentication required")
        passage.connections.add(task)
        try:
            await self._forward(request, passage, reader, writer)
        finally:
            passage.connections.discard(task)

    def _authorized(self, request: ProxyRequest) -> Passage | None:
        passage = self._passages.get(request.user)
        if passage is None or not hmac.compare_digest(request.authorization.encode(), passage.authorization.encode()):
            return None
        return passage

    async def _forward(
        self,
        request: ProxyRequest,
        passage: Passage,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            upstream = await self._connect(request)
        except EgressRefused as refused:
            passage.refuse(refused)
            return await _say(writer, 403, "Refused by policy")
        except CannotConnect as failed:
            passage.failure = str(failed)
            return await _say(writer, 502, "Cannot connect")
        passage.failure = ""
        try:
            if request.tunnel:
                writer.write(_answer(200, "Connection established"))
            else:
                upstream[1].write(request.origin_form)
            await _relay((reader, writer), upstream, passage, self._limits.idle_seconds)
        finally:
            upstream[1].close()

    async def _connect(self, request: ProxyRequest) -> Ends:
        """Connect to a checked address; raises `EgressRefused` and `CannotConnect`."""
        host, port = request.host, request.port
        addresses = await self._addresses(host, port)
        for address in addresses:
            if not request.tunnel and not within(address, self._allowed):
                raise EgressRefused(
                    f"{host} is to be called over plain http, without TLS: use https, or let an administrator add "
                    "its network to RELAY_ALLOWED_PRIVATE_NETWORKS"
                )
        for address in addresses:
            try:
                async with asyncio.timeout(self._limits.connect_seconds):
                    return await asyncio.open_connection(str(address), port)
            except (OSError, TimeoutError):
                continue
        raise CannotConnect(f"nothing answers at {host} port {port}")

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        """The host's addresses, all checked; raises `EgressRefused`."""
        try:
            literal = ip_address(host)
        except ValueError:
            return await self._resolved(host, port)
        if (kind := why_not_public(literal, self._allowed)) is not None:
            raise EgressRefused(f"{host} is {kind}: {_TO_ALLOW}")
        return [literal]

    async def _resolved(self, host: str, port: int) -> Sequence[Address]:
        # One answer for names with inner addresses and for unknown names, so that it reveals no inner name.
        nowhere = EgressRefused(
            f"there is no such name as {host}, or it leads to a private address: {_TO_ALLOW}", passing=True
        )
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                addresses = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, TimeoutError):
            raise nowhere from None
        if not addresses or any(why_not_public(address, self._allowed) for address in addresses):
            raise nowhere
        return addresses


def _answer(status: int, phrase: str) -> bytes:
    length = "" if status == 200 else "Content-Length: 0\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status} {phrase}\r\n{length}\r\n".encode()


async def _say(writer: asyncio.StreamWriter, status: int, phrase: str) -> None:
    writer.write(_answer(status, phrase))
    await writer.drain()


async def _relay(client: Ends, server: Ends, passage: Passage, idle_seconds: float) -> None:
    """Pass bytes both ways until both sides have ended, both were silent for too long, or the passage refuses more.

    Each direction holds at most the streams' own buffers.
    """
    clock = asyncio.get_running_loop().time

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: Callable[[int], Awaitable[None]]
    ) -> None:
        while piece := await reader.read(_PIECE):
            idle.reschedule(clock() + idle_seconds)
            writer.write(piece)
            await writer.drain()
            await passed(len(piece))
            idle.reschedule(clock() + idle_seconds)
        if writer.can_write_eof():
            writer.write_eof()

    with contextlib.suppress(TimeoutError, ExceptionGroup):
        async with asyncio.timeout(idle_seconds) as idle, asyncio.TaskGroup() as ways:
            ways.create_task(pump(client[0], server[1], passage.sent))
            ways.create_task(pump(server[0], client[1], passage.received))

"""The connections beneath the calls: one request, one answer, read whole or piece by piece."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import dataclass, field

import aiohttp

from relay_client.answers import Answer, NoAnswerError
from relay_client.retry import CallPolicy
from relay_client.transport import (
    ConnectionFailedError,
    LookUp,
    Sending,
    Transport,
    WithheldError,
    headers_of,
    read,
    read_piece,
)

# If a server closes an idle connection just as a create is sent on it, the create's outcome is unknown. Servers keep
# idle connections for at least 5 s, so older ones than this are not reused.
_KEEPALIVE_SECONDS = 2.0
_PIECE_COUNTS = 256
"""Bytes that each piece of a body counts at least, beyond the first: aiohttp works on each of them."""
_FAILURES = (ConnectionFailedError, OSError)


def always() -> bool:
    """True: nothing holds a request back."""
    return True


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and how long it may take."""

    method: str
    url: str
    policy: CallPolicy
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | AsyncIterable[bytes] | None = field(default=None, repr=False)
    seconds: float | None = None
    may_begin: Callable[[], bool] = always
    """Called like the pool's `may_write`."""


class OpenAnswer:
    """An answer whose body is not read yet; it holds a connection until it is read to its end or closed."""

    def __init__(self, response: aiohttp.ClientResponse, policy: CallPolicy) -> None:
        self._response = response
        self._policy = policy
        self.status = response.status
        self.headers = headers_of(response)

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    async def piece(self) -> bytes:
        """The next bytes, empty at the end. Raises BrokenOffError, also if none arrive within `idle_seconds`."""
        seconds = self._policy.idle_seconds
        try:
            async with asyncio.timeout(seconds):
                return await read(self._response)
        except TimeoutError:
            raise BrokenOffError(f"nothing came for {seconds:g} s") from None
        except _FAILURES as error:
            raise BrokenOffError(_reason(error, None)) from None

    async def whole(self, seconds: float) -> Answer:
        """The answer with its whole body, which must be small and arrive within `seconds`."""
        broken, body = None, None
        try:
            async with asyncio.timeout(seconds):
                body = await _body(self._response, self._policy.max_response_bytes)
        except _FAILURES as error:
            broken = _reason(error, seconds)
        finally:
            await self.aclose()
        return _answer(self._response, body, broken, self._policy)

    async def aclose(self) -> None:
        """Give up the unread rest."""
        _end(self._response)


class BrokenOffError(Exception):
    """A body broke off before its end; the message says how."""


class ConnectionPool:
    """The connections of one process; many `Cloud`s may share it, since it keeps neither keys nor cookies.

    Calls `may_write` right before the first byte of each request except a GET; if it returns False, nothing is sent.
    `proxy` is the URL of an HTTP proxy, or a function that returns it for the URL of a request, None for no proxy.
    Raises ValueError if it is another URL.
    """

    def __init__(
        self,
        *,
        max_connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | Callable[[str], str | None] | None = None,
        may_write: Callable[[], bool] | None = None,
        look_up: LookUp = socket.getaddrinfo,
    ) -> None:
        if isinstance(proxy, str) and not proxy.startswith(("http://", "https://")):
            raise ValueError("the proxy must begin with http:// or https://")
        self._may_write = always if may_write is None else may_write
        self._transport = Transport(
            max_connections=max_connections,
            keepalive_seconds=_KEEPALIVE_SECONDS,
            ssl_context=ssl.create_default_context() if ssl_context is None else ssl_context,
            proxy_of=proxy if callable(proxy) else lambda _url: proxy,
            look_up=look_up,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def _sending(self, request: Request) -> Sending:
        def may_send() -> bool:
            return request.method == "GET" or (self._may_write() and request.may_begin())

        return Sending(request.policy.pool_seconds, request.policy.connect_seconds, may_send)

    async def _head(self, request: Request, sending: Sending) -> aiohttp.ClientResponse:
        return await self._transport.send(request.method, request.url, request.headers, request.content, sending)

    async def exchange(self, request: Request) -> Answer:
        """Send one request and return its answer within its seconds; redirects are answers. Raises NoAnswerError."""
        sending, policy = self._sending(request), request.policy
        # Kept outside the try: once there is a head, any failure means an answer that broke off.
        response: aiohttp.ClientResponse | None = None
        body, broken = None, None
        try:
            async with asyncio.timeout(request.seconds):
                response = await self._head(request, sending)
                body = await _body(response, policy.max_response_bytes)
        except _FAILURES as error:
            broken = _reason(error, request.seconds)
            if response is None:
                raise NoAnswerError(broken, begun=sending.begun, withheld=isinstance(error, WithheldError)) from None
        finally:
            if response is not None:
                _end(response)
        assert response is not None
        return _answer(response, body, broken, policy)

    async def open(self, request: Request) -> OpenAnswer:
        """Send one request; return the head of its answer, within its seconds if it has any. Raises NoAnswerError.

        Content is sent as it comes; an answer that arrives before its end stops the sending.
        """
        sending = self._sending(request)
        try:
            async with asyncio.timeout(request.seconds):
                return OpenAnswer(await self._head(request, sending), request.policy)
        except _FAILURES as error:
            withheld = isinstance(error, WithheldError)
            raise NoAnswerError(_reason(error, request.seconds), begun=sending.begun, withheld=withheld) from None


def _end(response: aiohttp.ClientResponse) -> None:
    if not response.closed:
        response.close()


def _answer(response: aiohttp.ClientResponse, body: bytes | None, broken: str | None, policy: CallPolicy) -> Answer:
    oversized = body is None and broken is None
    how = f"it has over {policy.max_response_bytes} bytes, or too many pieces" if oversized else broken
    return Answer(response.status, headers_of(response), body or b"", how, oversized)


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    while (piece := await read_piece(response)) is not None:
        size += max(len(piece), _PIECE_COUNTS) if pieces else len(piece)
        if size > max_bytes:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: Exception, seconds: float | None) -> str:
    if isinstance(error, ConnectionFailedError):
        return str(error)
    if isinstance(error, TimeoutError) and seconds is not None:
        return f"no complete answer within {round(seconds, 1):g} s"
    return f"{type(error).__name__}: {error}"

"""The connections beneath the calls: one request, one answer, read whole or piece by piece.

With transport.py the only user of httpx2.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import httpx2

from relay_client.answers import Answer, NoAnswerError
from relay_client.retry import CallPolicy
from relay_client.transport import SENDING, AiohttpTransport

# A server that closes an idle connection just as a create is sent on it leaves the create's outcome unknown.
# Servers keep idle connections for 5 s at least; older ones than this are not used again.
_KEEPALIVE_SECONDS = 2.0
# Reading a URL costs as much as sending the request, and the same ones are asked for again and again.
_url = lru_cache(maxsize=1024)(httpx2.URL)


class OpenAnswer:
    """An answer whose body is still to be read; it holds a connection until it was read to its end or closed."""

    def __init__(self, response: httpx2.Response, policy: CallPolicy) -> None:
        self._response = response
        self._body = aiter(cast("httpx2.AsyncByteStream", response.stream))
        self._policy = policy
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def is_success(self) -> bool:
        """A 2xx."""
        return 200 <= self.status < 300

    async def piece(self) -> bytes:
        """The next bytes, none after the last. Raises BrokenOffError, also where none come for `idle_seconds`."""
        seconds = self._policy.idle_seconds
        try:
            async with asyncio.timeout(seconds):
                return await anext(self._body, b"")
        except TimeoutError:
            raise BrokenOffError(f"nothing came for {seconds:g} s") from None
        except _FAILURES as error:
            raise BrokenOffError(_reason(error, None)) from None

    async def whole(self, seconds: float) -> Answer:
        """The answer with all of its body, which should be small, and come within `seconds`."""
        broken, body = None, None
        try:
            async with asyncio.timeout(seconds):
                body = await _body(self._response, self._policy.max_response_bytes)
        except _FAILURES as error:
            broken = _reason(error, seconds)
        finally:
            await self.aclose()
        if body is None and broken is None:
            broken = f"over {self._policy.max_response_bytes} bytes"
        return Answer(self.status, self.headers, body or b"", broken)

    async def aclose(self) -> None:
        """Gives up what was not read."""
        await self._response.aclose()


class BrokenOffError(Exception):
    """A body ended before its end; the text says how."""


class ConnectionPool:
    """The connections of one process; it may be shared by many `Cloud`s, since it keeps neither keys nor cookies.

    Raises ValueError where `proxy` is not the URL of an HTTP proxy.
    """

    def __init__(
        self,
        *,
        max_connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._transport = AiohttpTransport(
            max_connections=max_connections,
            keepalive_seconds=_KEEPALIVE_SECONDS,
            ssl_context=httpx2.create_ssl_context() if ssl_context is None else ssl_context,
            proxy=proxy,
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()

    async def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float,
        policy: CallPolicy,
    ) -> Answer:
        """One request, one answer, within `seconds`; redirects are answers. Raises NoAnswerError."""
        sending = _Sending()
        response: httpx2.Response | None = None
        try:
            async with asyncio.timeout(seconds):
                request = _request(method, url, headers, content, policy, sending)
                response = await self._transport.handle_async_request(request)
                body = await _body(response, policy.max_response_bytes)
        except _FAILURES as error:
            if response is None:
                raise NoAnswerError(_reason(error, seconds), begun=sending.begun) from None
            return Answer(response.status_code, response.headers, b"", broken=_reason(error, seconds))
        finally:
            if response is not None:
                await response.aclose()
        if body is None:
            return Answer(response.status_code, response.headers, b"", broken=f"over {policy.max_response_bytes} bytes")
        return Answer(response.status_code, response.headers, body)

    async def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: AsyncIterable[bytes] | None,
        seconds: float | None,
        policy: CallPolicy,
    ) -> OpenAnswer:
        """One request, and the head of its answer within `seconds`, where they are given. Raises NoAnswerError.

        Content is sent as it comes; an answer that comes before its end ends the sending.
        """
        sending = _Sending()
        try:
            async with asyncio.timeout(seconds):
                request = _request(method, url, headers, content, policy, sending)
                return OpenAnswer(await self._transport.handle_async_request(request), policy)
        except _FAILURES as error:
            raise NoAnswerError(_reason(error, seconds), begun=sending.begun) from None


@dataclass(slots=True)
class _Sending:
    """Whether bytes of a request may have left."""

    begun: bool = False

    async def trace(self, event: str, _info: Mapping[str, object]) -> None:
        if event == SENDING:
            self.begun = True


_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError)


def _request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | AsyncIterable[bytes] | None,
    policy: CallPolicy,
    sending: _Sending,
) -> httpx2.Request:
    body = httpx2.ByteStream(content or b"") if content is None or isinstance(content, bytes) else _Pieces(content)
    extensions = {"timeout": policy.phases, "trace": sending.trace}
    return httpx2.Request(method, _url(url), headers=headers, stream=body, extensions=extensions)


class _Pieces(httpx2.AsyncByteStream):
    """A request body that is sent as it comes."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._pieces)


async def _body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        size += len(chunk)
        if size > max_bytes:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _reason(error: Exception, seconds: float | None) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "cannot connect: timed out"
    if isinstance(error, httpx2.PoolTimeout):
        return "no connection is free"
    if isinstance(error, httpx2.ConnectError):
        return f"cannot connect: {error}"
    if isinstance(error, TimeoutError) and seconds is not None:
        return f"no complete answer within {seconds:g} s"
    return f"{type(error).__name__}: {error}"

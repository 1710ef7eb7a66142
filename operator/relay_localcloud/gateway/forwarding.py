"""Relays requests to a workload's upstream and answers back, piece by piece, without holding a whole body."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NoReturn

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from relay_localcloud.egress.connections import connector_to
from relay_localcloud.egress.reach import Reach
from relay_localcloud.gateway.answers import Streamed
from relay_localcloud.gateway.confinement import confined
from relay_localcloud.gateway.passages import Passage
from relay_localcloud.gateway.ways import tls_on, unreachable
from relay_localcloud.http.errors import ApiError
from relay_localcloud.runtimes.runtime import Way

CONNECT_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 300.0
"""How long an upstream may send nothing once it has the request, and a client may neither send nor read."""

_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


def open_session() -> aiohttp.ClientSession:
    """A session for upstreams: it follows no redirects, decompresses nothing, and keeps no cookies."""
    # Upstreams close idle connections after five seconds or more; a POST on one that is kept longer may fail.
    connector = connector_to(Reach.everywhere(), verified=True, limit=0, keepalive_timeout=2)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    without_redirects = aiohttp.TraceConfig()
    without_redirects.on_request_redirect.append(_refuse_redirect)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_NOT_ADDED,
        trace_configs=[without_redirects],
    )


class RedirectedError(aiohttp.ClientError):
    """An upstream answered with a redirect where only its own answer will do."""


async def _refuse_redirect(_: object, __: object, told: aiohttp.TraceRequestRedirectParams) -> NoReturn:
    """Follow none: aiohttp would let the handshakes of WebSockets, to wherever a workload sends the gateway."""
    told.response.close()
    raise RedirectedError


async def forward(
    passage: Passage, session: aiohttp.ClientSession, way: Way, url: URL, headers: CIMultiDict[str]
) -> web.StreamResponse:
    """Relay one request and its answer.

    ApiError 400 for a malformed body, 502 if the upstream does not answer.
    """
    request, body = passage.request, Body(passage)
    sent = body.pieces() if request.body_exists else None
    try:
        answer = await session.request(
            request.method, url, headers=headers, data=sent, allow_redirects=False, ssl=tls_on(way)
        )
    except (aiohttp.ClientError, TimeoutError, OSError) as failure:
        raise body.fault or unreachable(way, failure) from failure
    async with answer:
        await passage.turn()  # upstreams may answer many requests at once
        response = Streamed(
            status=answer.status, reason=answer.reason, headers=confined(answer.headers, passage.prefix)
        )
        await response.prepare(request)
        try:
            await _pour(answer.content, passage, response)
        except (aiohttp.ClientError, TimeoutError, OSError):
            # The client must not mistake what has arrived so far for the whole answer.
            if request.transport is not None:
                request.transport.abort()
        return response


async def _pour(source: aiohttp.StreamReader, passage: Passage, response: web.StreamResponse) -> None:
    async for piece in source.iter_any():
        async with asyncio.timeout(SILENT_SECONDS):
            await response.write(piece)
        if not source.at_eof():
            await passage.turn()
    await response.write_eof()


class Body:
    """A request's body while it is relayed."""

    def __init__(self, passage: Passage) -> None:
        self._content = passage.request.content
        self._turn = passage.turn
        self.fault: ApiError | None = None
        """Why the body broke off, if the client is the cause."""

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body piece by piece. ApiError 400 if it stops arriving, or violates HTTP's framing."""
        try:
            # The first piece is what has arrived, perhaps nothing: the client session sends no head without a piece.
            yield self._content.read_nowait()
            while not self._content.at_eof():
                async with asyncio.timeout(SILENT_SECONDS):
                    piece = await self._content.readany()
                await self._turn()
                yield piece
        except (web.RequestPayloadError, TimeoutError) as failure:
            self.fault = ApiError(400, "The body breaks off, or is not framed as HTTP says.")
            raise self.fault from failure

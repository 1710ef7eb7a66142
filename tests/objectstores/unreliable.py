"""A stretch of network between the stores and an S3 server that does wrong as it is told."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@dataclass
class Unreliable:
    """Passes requests on. `cuts` are the numbers of bytes after which successive answers to GET break off."""

    upstream: str
    url: str = ""
    cuts: list[int] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None  # awaited once, before the first cut
    refused_part: str = ""  # number of a part that is answered with 503
    part_came: asyncio.Event = field(default_factory=asyncio.Event)
    hold_parts: bool = False  # a part is passed on only when another request came, or when none came for a while
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, Range, If-Match
    answered: list[str] = field(default_factory=list)  # methods, in the order of their answers
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = request.headers
        body = await request.read()
        self.requests.append((request.method, headers.get("Range", ""), headers.get("If-Match", "")))
        self._came.set()
        if self.hold_parts and "partNumber" in request.query:
            self.part_came.set()
            await self._next_request()
        if self.refused_part and request.query.get("partNumber") == self.refused_part:
            return web.Response(status=503)
        url = URL(self.upstream + request.raw_path, encoded=True)
        kept = {name: value for name, value in headers.items() if name != "Connection"}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, url, headers=kept, data=body) as answer,
        ):
            return await self._pass_on(request, answer)

    async def _next_request(self) -> None:
        self._came.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._came.wait(), 0.3)

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        kept = {
            name: value for name, value in answer.headers.items() if name not in ("Connection", "Transfer-Encoding")
        }
        response = web.StreamResponse(status=answer.status, headers=kept)
        self.answered.append(request.method)
        await response.prepare(request)
        body = await answer.read()
        cut = self.cuts.pop(0) if self.cuts and request.method == "GET" and answer.status < 300 else None
        await response.write(body[:cut])
        if cut is not None:
            await self._cut(request)
        return response

    async def _cut(self, request: web.Request) -> None:
        if self.meanwhile is not None:
            await self.meanwhile()
            self.meanwhile = None
        if request.transport is not None:
            request.transport.close()


@asynccontextmanager
async def unreliable(upstream: str) -> AsyncIterator[Unreliable]:
    """Stands before the server at `upstream`."""
    network = Unreliable(upstream)
    app = web.Application(client_max_size=64 * 1_048_576)
    app.router.add_route("*", "/{path:.*}", network.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    network.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield network
    finally:
        await runner.cleanup()

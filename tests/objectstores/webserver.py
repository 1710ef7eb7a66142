"""A web server of objects in memory, over http or https, that notes what it was asked."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from tests.support.certificates import write_serving_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_LONG_AGO = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class WebServer:
    """`objects` by path; `redirects` by path too. With `ranges` off, ranges are not understood."""

    url: str = ""
    ca: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    versions: bool = True  # told by ETag and Last-Modified
    authorization: str = ""  # required, where it is not empty
    needs_length: bool = False
    conditions: bool = True  # of a PUT are heeded
    lengths: bool = True  # told by Content-Length
    cuts: list[int] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    broken_off: asyncio.Event = field(default_factory=asyncio.Event)  # a PUT ended before its end

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs, dict(request.headers)))
        if self.authorization and request.headers.get("Authorization") != self.authorization:
            return web.Response(status=401)
        if request.path in self.redirects:
            return web.Response(status=307, headers={"Location": self.redirects[request.path]})
        if request.method == "PUT":
            return await self._store(request)
        if request.path not in self.objects:
            return web.Response(status=404)
        return await self._serve(request, self.objects[request.path])

    async def _store(self, request: web.Request) -> web.StreamResponse:
        headers = request.headers
        new_alone = "*" in headers.get("If-None-Match", "") or headers.get("x-goog-if-generation-match") == "0"
        if self.conditions and new_alone and request.path in self.objects:
            return web.Response(status=412)
        if self.needs_length and request.content_length is None:
            return web.Response(status=411)
        try:
            body = await request.read()
        except (OSError, asyncio.CancelledError):
            self.broken_off.set()
            raise
        self.objects[request.path] = body
        return web.Response(status=201, headers={"ETag": _etag(body), "x-goog-generation": "1"})

    async def _serve(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.headers.get("If-Match", _etag(body)) != _etag(body):
            return web.Response(status=412)
        headers, start, status = {"ETag": _etag(body), "Last-Modified": _LONG_AGO} if self.versions else {}, 0, 200
        asked = request.headers.get("Range", "")
        if asked and self.ranges:
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            if start >= len(body):
                return web.Response(status=416)
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        response = web.StreamResponse(status=status, headers=headers)
        if self.lengths:
            response.content_length = len(body) - start
        await response.prepare(request)
        if request.method == "GET":
            cut = self.cuts.pop(0) if self.cuts else None
            await response.write(body[start:][:cut])
            if cut is not None and request.transport is not None:
                request.transport.close()
        return response


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:16]}"'


@asynccontextmanager
async def web_server(certificates: Path | None = None) -> AsyncIterator[WebServer]:
    """Serves https with a certificate for localhost and 127.0.0.1, made in the folder; without one, plain http."""
    server = WebServer()
    trust = None
    if certificates is not None:
        write_serving_certificate(certificates)
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        server.ca = (certificates / "ca.crt").read_text()
    app = web.Application(client_max_size=256 * 1_048_576)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust)
    await site.start()
    server.url = f"{'https' if trust else 'http'}://localhost:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()

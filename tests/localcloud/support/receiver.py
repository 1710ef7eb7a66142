"""A receiver of webhooks, which keeps what it was sent and answers as it is told."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from types import TracebackType


@dataclass(frozen=True)
class Received:
    """One call."""

    headers: dict[str, str]
    raw: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.raw)

    @property
    def delivery(self) -> str:
        return self.headers["x-relay-delivery"]

    def is_signed_with(self, secret: str) -> bool:
        """Section 6: HMAC-SHA256 over the raw body; the key is the hex SHA-256 of the secret, as text."""
        key = hashlib.sha256(secret.encode()).hexdigest().encode()
        return self.headers["x-relay-signature"] == "sha256=" + hmac.new(key, self.raw, hashlib.sha256).hexdigest()


@dataclass
class Receiver:
    """Listens on a free port; `answers` are given one after the other, then 200."""

    answers: list[int] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    hang: asyncio.Event | None = None
    """Where set, every call waits for it."""
    tls: ssl.SSLContext | None = None
    url: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self._take)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}/hook"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.hang is not None:
            self.hang.set()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def types(self) -> list[str]:
        """The event types in the order of arrival."""
        return [received.event["type"] for received in self.received]

    async def _take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(headers, await request.read()))
        if self.hang is not None:
            await self.hang.wait()
        status = self.answers.pop(0) if self.answers else 200
        moved = {"Location": "/elsewhere"} if 300 <= status < 400 else None
        return web.json_response({"ok": True}, status=status, headers=moved)

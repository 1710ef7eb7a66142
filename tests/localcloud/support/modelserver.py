"""A server behind a model that behaves as a test says: what no local cloud does as an upstream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def completion(**more: Any) -> dict[str, Any]:
    """A chat completion as other servers write it."""
    message = {"role": "assistant", "content": "from afar"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "far", "choices": [choice], **more}


@dataclass
class ModelServer:
    """Listens on a free port; keeps the headers and bodies it was sent."""

    status: int = 200
    body: bytes | None = None
    """What is answered; without one, a completion."""
    content_type: str = "application/json"
    hang: asyncio.Event | None = None
    """Where set, every answer waits for it, after `body` was sent."""
    received: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    tls: ssl.SSLContext | None = None
    url: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**25)
        application.router.add_post("/v1/{tail:.*}", self._take)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.hang is not None:
            self.hang.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.received.append(({name.lower(): value for name, value in request.headers.items()}, await request.json()))
        self.arrived.set()
        if self.body is None and self.hang is not None:
            await self.hang.wait()
        if self.body is None:
            return web.json_response(completion(usage=USAGE), status=self.status)
        answer = web.StreamResponse(status=self.status, headers={"Content-Type": self.content_type})
        await answer.prepare(request)
        await answer.write(self.body)
        if self.hang is not None:
            await self.hang.wait()
        return answer

"""A server behind a model that behaves as a test says: what no local cloud does as an upstream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.localcloud.support.listener import Listener

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def completion(**more: Any) -> dict[str, Any]:
    """A chat completion as other servers write it."""
    message = {"role": "assistant", "content": "from afar"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "far", "choices": [choice], **more}


@dataclass
class ModelServer(Listener):
    """Keeps the headers and bodies it was sent; `hang` holds an answer back only after `body` was sent."""

    path = "/v1"
    status: int = 200
    body: bytes | None = None
    """What is answered; without one, a completion."""
    content_type: str | None = None
    """What `body` is said to be; if absent, a stream if it looks like one, else JSON."""
    received: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def runner(self) -> web.AppRunner:
        application = web.Application(client_max_size=2**25)
        application.router.add_post("/v1/{tail:.*}", self.take)
        return web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.received.append(({name.lower(): value for name, value in request.headers.items()}, await request.json()))
        self.arrived.set()
        if self.body is None and self.hang is not None:
            await self.hang.wait()
        if self.body is None:
            return web.json_response(completion(usage=USAGE), status=self.status)
        usual = "text/event-stream" if self.body.startswith(b"data:") else "application/json"
        answer = web.StreamResponse(status=self.status, headers={"Content-Type": self.content_type or usual})
        await answer.prepare(request)
        await answer.write(self.body)
        if self.hang is not None:
            await self.hang.wait()
        return answer

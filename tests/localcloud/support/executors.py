"""Tool executors of tests: one that speaks the `http` contract, and an MCP server of the official package."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.localcloud.support.listener import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.localcloud.support.mcp_tools import McpServer


def results(body: Any) -> Any:
    """What a well-behaved executor answers: `done` to every call."""
    return {"results": [{"tool_call_id": call["id"], "content": "done and dusted"} for call in body["tool_calls"]]}


@dataclass
class HttpExecutor(Listener):
    """Answers as `respond` says."""

    path = "/tools"
    respond: Callable[[Any], Any] = results
    """Makes the answer from the parsed body: JSON, or a response; None hangs up."""
    received: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self.received.append(({name.lower(): value for name, value in request.headers.items()}, body))
        self.called.set()
        if self.hang is not None:
            await self.hang.wait()
        answer = self.respond(body)
        if answer is None and request.transport is not None:
            request.transport.abort()
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@asynccontextmanager
async def mcp_server() -> AsyncIterator[McpServer]:
    """A server with the tools `look` (done in its second round), `broken` and `hanging`, over Streamable HTTP."""
    # It takes as long to load as all other modules of a worker, and one worker needs it.
    from tests.localcloud.support import mcp_tools  # noqa: PLC0415

    async with mcp_tools.serving() as seen:
        yield seen

"""Tool executors of tests: one that speaks the `http` contract, and an MCP server of the official package."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from aiohttp import web
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from tests.localcloud.support.listener import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def results(body: Any) -> Any:
    """What a well-behaved executor answers: `done` to every call."""
    return {"results": [{"tool_call_id": call["id"], "content": "done and dusted"} for call in body["tool_calls"]]}


@dataclass
class HttpExecutor(Listener):
    """Answers as `respond` says."""

    path = "/tools"
    respond: Callable[[Any], Any] = results
    """Makes the answer from the parsed body: JSON, or a response."""
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
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@dataclass
class McpServer:
    """What an MCP server was called with."""

    url: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    hang: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def mcp_server() -> AsyncIterator[McpServer]:
    """A server with the tools `look` (done in its second round), `broken` and `hanging`, over Streamable HTTP."""
    seen = McpServer()
    server = MCPServer("tools of tests", log_level="CRITICAL")

    def note(name: str, round: int, context: Context[Any]) -> None:  # noqa: A002 - the argument of the model
        request = context.request_context
        meta = {key: value for key, value in (request.meta or {}).items() if not key.startswith("io.")}
        authorization = (context.headers or {}).get("authorization")
        seen.calls.append({"name": name, "round": round, "meta": meta, "authorization": authorization})

    @server.tool()
    async def look(round: int, context: Context[Any]) -> str:  # noqa: A002
        """Looks."""
        note("look", round, context)
        return "done" if round == 2 else "not yet"

    @server.tool()
    async def broken(round: int, context: Context[Any]) -> str:  # noqa: A002
        """Fails, and says so to the model."""
        note("broken", round, context)
        raise ToolError("broken, so I am done")

    @server.tool()
    async def hanging(round: int, context: Context[Any]) -> str:  # noqa: A002
        """Never answers."""
        note("hanging", round, context)
        await seen.hang.wait()
        return "done"

    listening = socket.create_server(("127.0.0.1", 0))
    seen.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    config = uvicorn.Config(server.streamable_http_app(), log_config=None, timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)
    task = asyncio.create_task(serving.serve([listening]))
    yield seen
    seen.hang.set()
    serving.should_exit = True
    await task

"""An MCP server of the official package, with tools for tests."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class McpServer:
    """What an MCP server was called with."""

    url: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    hang: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving() -> AsyncIterator[McpServer]:
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

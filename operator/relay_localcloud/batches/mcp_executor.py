"""Tool executors that are MCP servers over Streamable HTTP. Imports the MCP client: loaded when first needed."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final, Self, cast

import aiohttp
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, RequestParamsMeta, TextContent
from yarl import URL

from relay_localcloud.batches.executors import (
    LARGEST_ANSWER,
    ToolCall,
    ToolRoundError,
    executor_error,
    refused_address,
    session,
)
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.egress.connections import was_refused

# What goes wrong is the record's failure, not the cloud's; and an executor's URL may have a secret in it.
for _name in ("mcp", "httpx2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_HOP_BY_HOP: Final = frozenset({"connection", "transfer-encoding", "content-length", "accept-encoding", "host"})


class McpExecutor:
    """Calls each tool by its name; the context goes along as `params._meta`. One MCP session a record."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self._refused = False

    async def __aenter__(self) -> Self:
        """Nothing is connected before the first round."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the MCP session."""
        # The answers are there; how the server takes the farewell is its affair.
        with suppress(MCPError, httpx2.HTTPError, ExceptionGroup):
            await self._stack.aclose()

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """One `tools/call` for each call, one after another."""
        try:
            client = await self._connected()
            return [await self._call(client, call) for call in calls]
        except (MCPError, httpx2.HTTPError, ExceptionGroup, OSError, RuntimeError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            if self._refused:
                raise refused_address() from error
            raise executor_error(_reason(error)) from error

    async def _connected(self) -> Client:
        if self._client is None:
            opened = await self._stack.enter_async_context(session(self._tools))
            http = httpx2.AsyncClient(transport=_Transport(opened, self._note_refusal), max_redirects=0, timeout=None)
            http = await self._stack.enter_async_context(http)
            transport = streamable_http_client(self._tools.url, http_client=http)
            self._client = await self._stack.enter_async_context(Client(transport))
        return self._client

    async def _call(self, client: Client, call: ToolCall) -> str:
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise ToolRoundError(
                "tool_executor_error", "The model gave arguments for a tool that are not a JSON object."
            )
        meta = None if self._tools.context is None else cast("RequestParamsMeta", dict(self._tools.context))
        return _text(await client.call_tool(function["name"], arguments, meta=meta))

    def _note_refusal(self) -> None:
        self._refused = True


class _Transport(httpx2.AsyncBaseTransport):
    """Sends httpx2's requests over a session that checks the addresses it connects to."""

    def __init__(self, session: aiohttp.ClientSession, on_refusal: Callable[[], None]) -> None:
        self._session = session
        self._on_refusal = on_refusal

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answers as soon as the head of the response is there."""
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        try:
            answer = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=await request.aread() or None,
                headers=headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            if was_refused(error):
                self._on_refusal()
            raise httpx2.ConnectError(type(error).__name__) from error
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() != "content-encoding"]
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer))


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as it comes, up to a limit."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for piece in self._answer.content.iter_any():
                read += len(piece)
                if read > LARGEST_ANSWER:
                    raise httpx2.ReadError(f"over {LARGEST_ANSWER} bytes")
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise httpx2.ReadError(type(error).__name__) from error

    async def aclose(self) -> None:
        self._answer.close()


def _text(result: CallToolResult) -> str:
    """What the model reads, errors of a tool included: the texts as lines, else the structured content as JSON."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if texts or result.structured_content is None:
        return "\n".join(texts)
    return json.dumps(result.structured_content)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} in the Model Context Protocol"

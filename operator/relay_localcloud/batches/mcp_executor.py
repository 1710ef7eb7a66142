"""Tool executors that are MCP servers over Streamable HTTP. Imports the MCP client: loaded when first needed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final, Self, cast

import aiohttp
import httpx2
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, RequestParamsMeta, TextContent
from yarl import URL

from relay_localcloud.batches.event_data import EventData
from relay_localcloud.batches.executors import (
    LARGEST_ANSWER,
    ToolCall,
    ToolRoundError,
    executor_error,
    refused_address,
    require_few_values,
    require_small,
    session,
    too_large,
)
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.egress.connections import was_refused
from relay_localcloud.http.json_values import MOST_VALUES, has_more

# Errors are failures of the record, not of the cloud, and an executor's URL may contain a secret: keep them unlogged.
for _name in ("mcp", "httpx2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_EVENTS: Final = "text/event-stream"
_STEP: Final = 16 * 1024
"""Bytes of an answer that are read at once: up to half as many lines."""
_HOP_BY_HOP: Final = frozenset({"connection", "transfer-encoding", "content-length", "accept-encoding", "host"})
_DONE_HERE: Final = frozenset({"content-encoding", "content-type"})


class McpExecutor:
    """Calls each tool by its name; the context is sent as `params._meta`. One MCP session per record."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self._failure: ToolRoundError | None = None

    async def __aenter__(self) -> Self:
        """Do nothing: the first round connects."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the MCP session."""
        # All answers have arrived; a server that fails at the farewell changes nothing.
        with suppress(MCPError, httpx2.HTTPError, ExceptionGroup):
            await self._stack.aclose()

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """Send one `tools/call` for each call, one after another."""
        try:
            return await self._results(await self._connected(), calls)
        except (MCPError, httpx2.HTTPError, ExceptionGroup, OSError, RuntimeError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise self._failure or executor_error(_reason(error)) from error

    async def _connected(self) -> Client:
        if self._client is None:
            opened = await self._stack.enter_async_context(session(self._tools))
            http = httpx2.AsyncClient(transport=_Transport(opened, self._note_failure), max_redirects=0, timeout=None)
            http = await self._stack.enter_async_context(http)
            try:
                self._client = await self._begun(http, "legacy")
            except (MCPError, ExceptionGroup) as error:
                if self._failure is not None or not isinstance(_cause(error), MCPError):
                    raise
                self._client = await self._begun(http, "auto")  # the server may speak newer versions only
            self._client.session.validate_tool_result = _unread  # type: ignore[method-assign, assignment]
        return self._client

    async def _begun(self, http: httpx2.AsyncClient, mode: ConnectMode) -> Client:
        """A session; "legacy" begins with `initialize`, without which servers up to 2025-11-25 may hang up."""
        transport = streamable_http_client(self._tools.url, http_client=http)
        return await self._stack.enter_async_context(Client(transport, mode=mode))

    async def _results(self, client: Client, calls: Sequence[ToolCall]) -> list[str]:
        results: list[str] = []
        for call in calls:
            results.append(await self._call(client, call))
            require_small(results)
        return results

    async def _call(self, client: Client, call: ToolCall) -> str:
        function = call["function"]
        given = function["arguments"] or "{}"
        if await has_more(given.encode()):
            raise ToolRoundError(
                "tool_executor_error", f"The model gave arguments for a tool that have over {MOST_VALUES} values."
            )
        try:
            arguments = json.loads(given)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise ToolRoundError(
                "tool_executor_error", "The model gave arguments for a tool that are not a JSON object."
            )
        meta = None if self._tools.context is None else cast("RequestParamsMeta", dict(self._tools.context))
        return _text(await client.call_tool(function["name"], arguments, meta=meta))

    def _note_failure(self, failure: ToolRoundError) -> None:
        self._failure = failure


class _Transport(httpx2.AsyncBaseTransport):
    """Sends httpx2's requests over a session that checks the addresses it connects to.

    `failed` is called with failures that no error of the Model Context Protocol expresses.
    """

    def __init__(self, session: aiohttp.ClientSession, failed: Callable[[ToolRoundError], None]) -> None:
        self._session = session
        self._failed = failed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return as soon as the head of the response has arrived."""
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
                self._failed(refused_address())
            raise httpx2.ConnectError(type(error).__name__) from error
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _DONE_HERE]
        # Without a charset: values are counted in UTF-8.
        kept.append(("Content-Type", answer.content_type))
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer, self._failed))


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as it arrives, up to a limit; one with too many values breaks off before its end."""

    def __init__(self, answer: aiohttp.ClientResponse, failed: Callable[[ToolRoundError], None]) -> None:
        self._answer = answer
        self._failed = failed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._checked():
                for at in range(0, len(piece), _STEP):
                    yield piece[at : at + _STEP]
                    await asyncio.sleep(0)
        except ToolRoundError as failure:
            self._failed(failure)
            raise httpx2.StreamError(str(failure)) from failure  # the client turns every such error into a failed call
        except (aiohttp.ClientError, TimeoutError) as error:
            raise httpx2.ReadError(type(error).__name__) from error

    async def _checked(self) -> AsyncIterator[bytes]:
        events, whole, read = EventData(), bytearray(), 0
        streamed = self._answer.content_type == _EVENTS
        async for piece in self._answer.content.iter_any():
            read += len(piece)
            if read > LARGEST_ANSWER:
                raise too_large()
            if not streamed:
                whole += piece
            else:
                for data in events.fed(piece):
                    await require_few_values(data)
            yield piece
        for data in events.rest() if streamed else [bytes(whole)]:
            await require_few_values(data)

    async def aclose(self) -> None:
        self._answer.close()


async def _unread(_: str, __: CallToolResult) -> None:
    """Do not validate a result against its tool's schema: both are the server's, and a pattern may take for ever."""


def _text(result: CallToolResult) -> str:
    """What the model reads, including errors of a tool: the texts as lines, else the structured content as JSON."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if texts or result.structured_content is None:
        return "\n".join(texts)
    return json.dumps(result.structured_content)


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: BaseException) -> str:
    return f"{type(_cause(error)).__name__} in the Model Context Protocol"

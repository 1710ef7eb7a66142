"""Tool executors: who answers the calls that a model makes between its turns."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import aiohttp
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from relay_localcloud.batches import connections
from relay_localcloud.batches.records import RecordFailure
from relay_localcloud.batches.tool_config import Tools

ToolCall = Mapping[str, Any]
"""A call as the model made it: `{id, type, function: {name, arguments}}`."""


class ToolRoundError(Exception):
    """A round of tools failed, and with it the record."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = RecordFailure(code, message)


def executor_error(message: str) -> ToolRoundError:
    """The executor did not do its part."""
    return ToolRoundError("tool_executor_error", f"The tool executor failed: {message}.")


def refused_address() -> ToolRoundError:
    """The executor is where nobody may be sent."""
    return ToolRoundError(
        "invalid_tool_config", "body.relay.tool_config: url: it does not resolve to an address that is allowed."
    )


class Executor(Protocol):
    """Answers the calls of one record, round by round."""

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """The result of each call, in their order. Raises ToolRoundError, and TimeoutError from within."""

    async def __aenter__(self) -> Self:
        """Be ready for rounds."""

    async def __aexit__(self, *_: object) -> None:
        """Close what is open."""


class _Result(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    tool_call_id: str
    content: str


class _Results(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    results: list[_Result]


class HttpExecutor:
    """The `http` contract: `{custom_id, context, tool_calls}` in, `{results: [{tool_call_id, content}]}` out."""

    def __init__(self, tools: Tools, custom_id: str) -> None:
        self._tools = tools
        self._custom_id = custom_id

    async def __aenter__(self) -> Self:
        """Open a session; nothing is connected yet."""
        self._session = connections.session(self._tools)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._session.close()

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """One POST."""
        body: dict[str, JsonValue] = {
            "custom_id": self._custom_id,
            "context": None if self._tools.context is None else dict(self._tools.context),
            "tool_calls": [dict(call) for call in calls],
        }
        try:
            async with self._session.post(self._tools.url, json=body, allow_redirects=False) as response:
                raw = await _bounded(response)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            if connections.was_refused(error):
                raise refused_address() from error
            raise executor_error(f"{type(error).__name__} while it was called") from error
        if not 200 <= response.status < 300:
            raise executor_error(f"it answered {response.status}, not 200")
        return _contents(raw, calls)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > connections.LARGEST_ANSWER:
            raise executor_error(f"its answer is over {connections.LARGEST_ANSWER} bytes")
    return bytes(raw)


def _contents(raw: bytes, calls: Sequence[ToolCall]) -> list[str]:
    try:
        answered = {result.tool_call_id: result.content for result in _Results.model_validate_json(raw).results}
        return [answered[call["id"]] for call in calls]
    except ValidationError as error:
        raise executor_error('its answer is not {"results": [{"tool_call_id", "content"}]}') from error
    except KeyError as error:
        raise executor_error("its answer has no result for one of the calls") from error

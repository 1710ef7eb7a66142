"""Tool executors: they answer a model's tool calls between its turns. Imports aiohttp: loaded when needed."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

import aiohttp
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from yarl import URL

from relay_localcloud.batches.records import RecordFailure
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.egress.connections import Resolver, connector_to, was_refused
from relay_localcloud.egress.reach import AddressRefusedError
from relay_localcloud.http.json_values import MOST_VALUES, has_more

ToolCall = Mapping[str, Any]
"""A tool call of the model: `{id, type, function: {name, arguments}}`."""

LARGEST_ANSWER: Final = 10 * 1024 * 1024

_LEEWAY_SECONDS: Final = 1.0
"""Beyond a round's own time limit, which ends it first; limits what remains then, such as closing a session."""
_LONGEST_LOOKUP_SECONDS: Final = 5.0


class ToolRoundError(Exception):
    """A round of tools failed, and with it the record."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = RecordFailure(code, message)


def executor_error(problem: str) -> ToolRoundError:
    """The failure of a round because the executor misbehaved."""
    return ToolRoundError("tool_executor_error", f"The tool executor failed: {problem}.")


def refused_address() -> ToolRoundError:
    """The failure of a round because the executor's address is not allowed."""
    return ToolRoundError(
        "invalid_tool_config", "body.relay.tool_config: url: it does not resolve to an address that is allowed."
    )


async def require_few_values(raw: bytes) -> None:
    """Raise ToolRoundError if parsing this answer would delay everybody else."""
    if await has_more(raw):
        raise executor_error(f"its answer has over {MOST_VALUES} values")


def too_large() -> ToolRoundError:
    """The failure of a round because the executor's answer exceeds the limit."""
    return executor_error(f"its answer is over {LARGEST_ANSWER} bytes")


def require_small(results: Sequence[str]) -> None:
    """Raise ToolRoundError if the results of a round exceed the limit together."""
    if sum(map(len, results)) > LARGEST_ANSWER:
        raise executor_error(f"its results of one round are over {LARGEST_ANSWER} bytes")


class Executor(Protocol):
    """Answers the tool calls of one record, round by round."""

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """The result of each call, in order, small together. Raises ToolRoundError, and TimeoutError from within."""

    async def __aenter__(self) -> Self:
        """Prepare for rounds."""

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
        """Open a session; no connection is made yet."""
        self._session = session(self._tools)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the session."""
        await self._session.close()

    async def run(self, calls: Sequence[ToolCall]) -> list[str]:
        """Answer a round with one POST."""
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
            if was_refused(error):
                raise refused_address() from error
            raise executor_error(f"{type(error).__name__} while it was called") from error
        if not 200 <= response.status < 300:
            raise executor_error(f"it answered {response.status}, not 200")
        await require_few_values(raw)
        results = _contents(raw, calls)
        require_small(results)  # a model may give many calls one id
        return results


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > LARGEST_ANSWER:
            raise too_large()
    return bytes(raw)


def _contents(raw: bytes, calls: Sequence[ToolCall]) -> list[str]:
    try:
        answered = {result.tool_call_id: result.content for result in _Results.model_validate_json(raw).results}
        return [answered[call["id"]] for call in calls]
    except ValidationError as error:
        raise executor_error('its answer is not {"results": [{"tool_call_id", "content"}]}') from error
    except KeyError as error:
        raise executor_error("its answer has no result for one of the calls") from error


def session(tools: Tools) -> aiohttp.ClientSession:
    """A session for one record; it checks every address that it connects to, whatever the name."""
    # Only that setting allows loopback, and executors on a laptop have self-signed certificates.
    verified = not tools.reach.loopback
    connector = connector_to(tools.reach, verified=verified, force_close=True)
    headers = {} if tools.authorization is None else {"Authorization": tools.authorization}
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=tools.timeout_seconds + _LEEWAY_SECONDS),
        trust_env=False,
    )


async def leads_astray(tools: Tools) -> bool:
    """Whether the name resolves to an address that is not allowed, or, for plain http, does not resolve.

    With https, a name that does not resolve may never be called, or may resolve by then.
    """
    url = URL(tools.url)
    try:
        async with asyncio.timeout(_LONGEST_LOOKUP_SECONDS):
            await Resolver(tools.reach).resolve(url.host or "", url.port or 0, socket.AF_UNSPEC)
    except AddressRefusedError:
        return True
    except (OSError, TimeoutError):
        return not tools.reach.public
    return False

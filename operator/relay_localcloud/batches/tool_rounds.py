"""Tool rounds (section 2, "Tool config"): the model and the tool executor take turns until the model is done."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from relay_localcloud.batches.executors import (
    Executor,
    HttpExecutor,
    ToolCall,
    ToolRoundError,
    executor_error,
    leads_astray,
    refused_address,
)
from relay_localcloud.batches.records import OWNED_KEY, Outcome, Record, sent_to_model
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.http.json_values import MOST_VALUES, has_more, uncollected
from relay_localcloud.inference.bodies import LARGEST_BODY
from relay_localcloud.inference.charges import NOTHING, Usage
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.inference.invoke import Answer
from relay_wire.inference import Family

AskModel = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""Asks the record's model with a body; raises InferenceError."""


async def take_turns(ask: AskModel, tools: Tools, record: Record) -> Outcome:
    """Do a record with a tool config: at most `most_rounds` rounds, and one invocation more."""
    used: list[Usage] = []
    try:
        if await leads_astray(tools):
            raise refused_address()
        async with await _executor(tools, record.custom_id) as executor:
            body = await _turns(ask, executor, tools, sent_to_model(record.body), used)
        return Outcome(200, body, usage=sum(used, NOTHING))
    except ToolRoundError as error:
        return Outcome.failed(error.failure, sum(used, NOTHING))
    except InferenceError as error:
        return Outcome.refused(error, Family.CHAT_COMPLETIONS, sum(used, NOTHING))


async def _turns(
    ask: AskModel, executor: Executor, tools: Tools, body: dict[str, Any], used: list[Usage]
) -> dict[str, Any]:
    """The last answer; the usage of each is added to `used`, so that it is charged whatever happens after it."""
    rounds = 0
    while True:
        answer = await ask(body)
        used.append(answer.usage.halved)
        message, calls = _turn(answer.body)
        if not calls or rounds == tools.most_rounds:
            return {**answer.body, OWNED_KEY: {"tool_rounds": rounds}}
        results = await _round(executor, tools, calls)
        rounds += 1
        told = [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        body = {**body, "messages": [*body["messages"], message, *told]}
        await _require_small(body)


async def _require_small(body: Mapping[str, Any]) -> None:
    """Raise ToolRoundError if a conversation has outgrown the limits of a request (section 8)."""
    with uncollected():
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    if len(raw) > LARGEST_BODY:
        raise executor_error(f"with its results, the conversation is over {LARGEST_BODY} bytes")
    if await has_more(raw):
        raise executor_error(f"with its results, the conversation has over {MOST_VALUES} values")


async def _round(executor: Executor, tools: Tools, calls: Sequence[ToolCall]) -> list[str]:
    try:
        async with asyncio.timeout(tools.timeout_seconds):
            return await executor.run(calls)
    except TimeoutError as error:
        waited = f"The tool executor took over {tools.timeout_seconds * 1000:g} ms."
        raise ToolRoundError("tool_timeout", waited) from error


def _turn(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Sequence[ToolCall]]:
    """The assistant's message of a turn, and its tool calls; a server may answer anything."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if choice.get("finish_reason") != "tool_calls" or not isinstance(message, dict):
        return {}, ()
    calls = message.get("tool_calls")
    return message, [call for call in calls if _is_call(call)] if isinstance(calls, list) else ()


def _is_call(call: object) -> bool:
    if not isinstance(call, dict) or not isinstance(call.get("id"), str):
        return False
    function = call.get("function")
    return isinstance(function, dict) and all(isinstance(function.get(name), str) for name in ("name", "arguments"))


async def _executor(tools: Tools, custom_id: str) -> Executor:
    if tools.kind == "http":
        return HttpExecutor(tools, custom_id)
    # The MCP client takes a second to load, and most batches do not need it.
    module = await asyncio.to_thread(import_module, "relay_localcloud.batches.mcp_executor")
    executor: Executor = module.McpExecutor(tools)
    return executor

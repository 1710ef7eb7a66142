"""Tool rounds (section 2, "Tool config"): the model and the tool executor take turns until the model is done."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from relay_localcloud.batches.executors import (
    Executor,
    HttpExecutor,
    ToolCall,
    ToolRoundError,
    leads_astray,
    refused_address,
)
from relay_localcloud.batches.records import OWNED_KEY, Outcome, Record, sent_to_model
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.inference.charges import NOTHING, Usage
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.inference.invoke import Answer
from relay_wire.inference import Family

AskModel = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""Asks the record's model with a body; raises InferenceError."""


async def take_turns(ask: AskModel, tools: Tools, record: Record) -> Outcome:
    """Do a record with a tool config: at most `most_rounds` rounds, and one invocation more."""
    answers: list[Answer] = []
    try:
        if await leads_astray(tools):
            raise refused_address()
        async with await _executor(tools, record.custom_id) as executor:
            body = await _turns(ask, executor, tools, sent_to_model(record.body), answers)
        return Outcome(200, body, usage=_used(answers))
    except ToolRoundError as error:
        return Outcome.failed(error.failure, _used(answers))
    except InferenceError as error:
        return Outcome.refused(error, Family.CHAT_COMPLETIONS, _used(answers))


async def _turns(
    ask: AskModel, executor: Executor, tools: Tools, body: dict[str, Any], answers: list[Answer]
) -> dict[str, Any]:
    """The last answer; each one is added to `answers`, so that it is charged whatever happens after it."""
    rounds = 0
    while True:
        answer = await ask(body)
        answers.append(answer)
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


def _used(answers: Sequence[Answer]) -> Usage:
    return sum((answer.usage.halved for answer in answers), NOTHING)


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

"""Tool rounds (section 2, "Tool config"): the model and the tool executor take turns until the model is done."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import JsonValue

from relay_localcloud.batches import connections
from relay_localcloud.batches.executors import Executor, HttpExecutor, ToolCall, ToolRoundError, refused_address
from relay_localcloud.batches.records import OWNED_KEY, Record, RecordFailure, sent_to_model
from relay_localcloud.batches.result_lines import Outcome
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.inference.invoke import Answer
from relay_wire.inference import Family

AskModel = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""Asks the record's model with a body; raises InferenceError."""


@dataclass
class _Used:
    """What the invocations that answered have used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0

    def add(self, answer: Answer) -> None:
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        self.cost_nano_usd += answer.cost_nano_usd // 2

    def outcome(self, status: int | None, body: JsonValue, failure: RecordFailure | None = None) -> Outcome:
        return Outcome(status, body, failure, self.input_tokens, self.output_tokens, self.cost_nano_usd)


async def take_turns(ask: AskModel, tools: Tools, record: Record) -> Outcome:
    """Do a record with a tool config: at most `most_rounds` rounds, and one invocation more."""
    used = _Used()
    try:
        if await connections.leads_astray(tools):
            raise refused_address()
        async with await _executor(tools, record.custom_id) as executor:
            return await _turns(ask, executor, tools, sent_to_model(record.body), used)
    except ToolRoundError as error:
        return used.outcome(None, None, error.failure)
    except InferenceError as error:
        return used.outcome(error.status, error.body(Family.CHAT_COMPLETIONS))


async def _turns(ask: AskModel, executor: Executor, tools: Tools, body: dict[str, Any], used: _Used) -> Outcome:
    rounds = 0
    while True:
        answer = await ask(body)
        used.add(answer)
        message, calls = _turn(answer.body)
        if not calls or rounds == tools.most_rounds:
            return used.outcome(200, {**answer.body, OWNED_KEY: {"tool_rounds": rounds}})
        results = await _round(executor, tools, calls)
        rounds += 1
        told = [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        body = {**body, "messages": [*body["messages"], message, *told]}


async def _round(executor: Executor, tools: Tools, calls: Sequence[ToolCall]) -> list[str]:
    try:
        async with asyncio.timeout(tools.timeout_seconds):
            return await executor.run(calls)
    except TimeoutError as error:
        waited = f"The tool executor took over {tools.timeout_seconds * 1000:g} ms."
        raise ToolRoundError("tool_timeout", waited) from error


def _turn(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Sequence[ToolCall]]:
    """The assistant's message of a turn, and the tools that it calls; a server may answer anything."""
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
    # The MCP client takes a second to load, and most batches have no use for it.
    module = await asyncio.to_thread(import_module, "relay_localcloud.batches.mcp_executor")
    executor: Executor = module.McpExecutor(tools)
    return executor

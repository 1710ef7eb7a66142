"""A conversation of tool rounds has the bounds of a request: the record ends before the model would get more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.batches.executors import LARGEST_ANSWER
from relay_localcloud.http.json_values import MOST_VALUES
from relay_localcloud.inference.bodies import LARGEST_BODY
from tests.localcloud.support.batches import failure, lines, record, run
from tests.localcloud.support.executors import HttpExecutor
from tests.localcloud.support.modelserver import USAGE, ModelServer, completion

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.localcloud.support.server import Organization

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

pytestmark = pytest.mark.usefixtures("loopback_is_admitted")


def with_tools(executor: HttpExecutor, model: str = "tools", **config: Any) -> dict[str, Any]:
    return record("r", "look", model, tools=[LOOK], relay={"tool_config": {"url": executor.url, **config}})


def saying(content: str) -> Callable[[Any], Any]:
    """An executor's answer to every call."""
    return lambda body: {"results": [{"tool_call_id": call["id"], "content": content} for call in body["tool_calls"]]}


def calling(count: int, **more: Any) -> bytes:
    """A model's answer with so many calls, all of one id."""
    call = {"id": "one", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call] * count, **more}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return json.dumps(completion(usage=USAGE, choices=[choice])).encode()


@pytest.mark.parametrize("letter", ["w", "é"])
async def test_it_ends_before_the_body_is_larger_than_a_request_may_be(
    organization: Organization, executor: HttpExecutor, letter: str
) -> None:
    a_third = letter * (LARGEST_BODY // 3 // len(letter.encode()) - 1_000)
    executor.respond = saying(a_third)
    batch = await run(organization, [with_tools(executor, max_rounds=3)])
    assert batch["request_counts"]["completed"] == 1, batch
    (line,) = await lines(organization, batch)
    assert line["response"]["body"]["relay"] == {"tool_rounds": 3}
    executor.received.clear()
    response, error = await failure(organization, with_tools(executor, max_rounds=16))
    assert (response, error["code"]) == (None, "tool_executor_error")
    assert f"the conversation is over {LARGEST_BODY} bytes" in error["message"]
    assert len(executor.received) == 4


async def test_it_ends_before_the_body_has_more_values_than_a_request_may_have(
    organization: Organization, executor: HttpExecutor, behind: ModelServer
) -> None:
    executor.respond, behind.body = saying("more"), calling(1, thoughts=[0] * (MOST_VALUES // 2))
    response, error = await failure(organization, with_tools(executor, "mine"))
    assert (response, error["code"]) == (None, "tool_executor_error")
    assert f"the conversation has over {MOST_VALUES} values" in error["message"]
    assert len(behind.received) == 2


async def test_the_results_of_one_round_have_a_bound_together(
    organization: Organization, executor: HttpExecutor, behind: ModelServer
) -> None:
    result = {"tool_call_id": "one", "content": "w" * (LARGEST_ANSWER // 1_000)}
    executor.respond, behind.body = lambda _: {"results": [result]}, calling(1_001)
    response, error = await failure(organization, with_tools(executor, "mine"))
    assert (response, error["code"]) == (None, "tool_executor_error")
    assert f"its results of one round are over {LARGEST_ANSWER} bytes" in error["message"]


async def test_no_more_tools_of_an_mcp_server_are_called_than_there_is_room_for(
    organization: Organization, executor: HttpExecutor, behind: ModelServer
) -> None:
    def respond(body: Any) -> Any:
        content = [{"type": "text", "text": "w" * (LARGEST_ANSWER // 2)}]
        results = {"initialize": SHAKEN, "tools/call": {"content": content}}
        return {"jsonrpc": "2.0", "id": body.get("id"), "result": results.get(body["method"], {})}

    executor.respond, behind.body = respond, calling(10)
    response, error = await failure(organization, with_tools(executor, "mine", type="mcp"))
    assert (response, error["code"]) == (None, "tool_executor_error")
    assert f"its results of one round are over {LARGEST_ANSWER} bytes" in error["message"]
    assert [received["method"] for _, received in executor.received if received].count("tools/call") == 3


SHAKEN = {
    "protocolVersion": "2025-03-26",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "old", "version": "1"},
}

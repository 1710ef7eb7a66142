"""Tool rounds with MCP servers (section 2, "Tool config")."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.batches.test_tool_rounds import BAD_ANSWERS, answered, legacy_mcp, with_tools
from tests.localcloud.support.batches import failure
from tests.localcloud.support.executors import HttpExecutor, mcp_server

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

pytestmark = pytest.mark.usefixtures("loopback_is_admitted")


async def test_an_mcp_server_is_called_by_the_names_of_its_tools(organization: Organization) -> None:
    async with mcp_server() as server:
        config: dict[str, Any] = {
            "type": "mcp",
            "authorization": "Bearer mcp",
            "context": {"tenant": "blue", "deep": {"er": 1}},
        }
        body, _ = await answered(organization, with_tools(server.url, **config))
    assert body["relay"] == {"tool_rounds": 2}
    assert body["choices"][0]["message"]["content"] == "done"
    context = {"tenant": "blue", "deep": {"er": 1}}
    assert server.calls == [
        {"name": "look", "round": number, "meta": context, "authorization": "Bearer mcp"} for number in (1, 2)
    ]


async def test_what_an_mcp_tool_says_of_its_failure_is_told_to_the_model(organization: Organization) -> None:
    async with mcp_server() as server:
        body, _ = await answered(organization, with_tools(server.url, "broken", type="mcp"))
    assert "broken, so I am done" in body["choices"][0]["message"]["content"]


async def test_an_mcp_server_without_that_tool(organization: Organization) -> None:
    async with mcp_server() as server:
        body, _ = await answered(organization, with_tools(server.url, "nothing", type="mcp", max_rounds=1))
    assert body["relay"] == {"tool_rounds": 1}


async def test_an_mcp_server_of_an_earlier_version(organization: Organization, executor: HttpExecutor) -> None:
    executor.respond = legacy_mcp
    context = {"tenant": "blue"}
    body, _ = await answered(organization, with_tools(executor.url, type="mcp", context=context))
    assert body["choices"][0]["message"]["content"] == "all\ndone"
    (call,) = [received for _, received in executor.received if received and received["method"] == "tools/call"]
    assert call["params"]["_meta"]["tenant"] == "blue"
    assert (call["params"]["name"], call["params"]["arguments"]) == ("look", {"round": 1})


async def test_an_mcp_server_that_hangs_up_on_newer_methods(organization: Organization, executor: HttpExecutor) -> None:
    def respond(body: Any) -> Any:
        answer = legacy_mcp(body)
        return None if isinstance(answer, dict) and "error" in answer else answer

    executor.respond = respond
    body, _ = await answered(organization, with_tools(executor.url, type="mcp"))
    assert body["choices"][0]["message"]["content"] == "all\ndone"


async def test_an_mcp_server_of_a_newer_version_alone(organization: Organization, executor: HttpExecutor) -> None:
    def respond(body: Any) -> Any:
        if body["method"] == "initialize":
            return {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "Method not found"}}
        known: dict[str, dict[str, Any]] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/call": {"content": [{"type": "text", "text": "all done"}]},
        }
        return {"jsonrpc": "2.0", "id": body["id"], "result": known[body["method"]] | {"resultType": "complete"}}

    executor.respond = respond
    body, _ = await answered(organization, with_tools(executor.url, type="mcp"))
    assert body["choices"][0]["message"]["content"] == "all done"
    assert [received["method"] for _, received in executor.received] == ["initialize", "server/discover", "tools/call"]


async def test_what_an_mcp_server_says_of_its_results_is_not_followed(
    organization: Organization, executor: HttpExecutor
) -> None:
    def respond(body: Any) -> Any:
        answer = legacy_mcp(body)
        if body["method"] == "tools/list":
            answer["result"]["tools"][0]["outputSchema"] = {"type": "object", "required": ["nothing"]}
        if body["method"] == "tools/call":
            answer["result"] = {"content": [], "structuredContent": {"all": "done"}}
        return answer

    executor.respond = respond
    body, _ = await answered(organization, with_tools(executor.url, type="mcp"))
    assert body["choices"][0]["message"]["content"] == '{"all": "done"}'
    assert "tools/list" not in [received["method"] for _, received in executor.received if received]


async def test_an_mcp_tool_that_hangs_times_out(organization: Organization) -> None:
    async with mcp_server() as server:
        for timeout_ms in (2_000, 60_000):  # on a slow machine, the first may be over before the tool is called
            hanging = with_tools(server.url, "hanging", type="mcp", timeout_ms=timeout_ms)
            response, error = await failure(organization, hanging)
            assert (response, error["code"]) == (None, "tool_timeout")
            if server.calls:
                break
        assert len(server.calls) == 1


async def test_an_mcp_server_that_is_none(organization: Organization, executor: HttpExecutor) -> None:
    for kind in ("a page", "a server error", "a list", "a redirect", "a redirect inward"):
        executor.respond = BAD_ANSWERS[kind]
        response, error = await failure(organization, with_tools(executor.url, type="mcp", timeout_ms=60_000))
        assert (response, error["code"]) == (None, "tool_executor_error"), kind
    assert organization.server.complaints == []


async def test_an_mcp_server_that_hangs_times_out(organization: Organization, executor: HttpExecutor) -> None:
    executor.hang = asyncio.Event()
    response, error = await failure(organization, with_tools(executor.url, type="mcp", timeout_ms=300))
    assert (response, error["code"]) == (None, "tool_timeout")

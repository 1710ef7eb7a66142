"""`toolConfig`: every record's tool calls go to the executor, with an authorization that only a Secret holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.cluster.batch_side import (
    KIND,
    NAME,
    batch,
    complete,
    content_of,
    inference,
    published,
    put_prompts,
    record,
)
from tests.localcloud.support.executors import HttpExecutor, mcp_server
from tests.support.kube import KubeError
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
AUTHORIZATION = "Bearer canary-of-the-executor"


async def test_the_calls_of_every_record_reach_the_executor_with_the_secrets_authorization(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await _prepare(workspace, 3)
    async with HttpExecutor() as executor:
        done = await _run(workspace, {"url": executor.url, "type": "Http", "context": {"team": "search"}})

    answers, errors = await published(workspace)
    assert {each: content_of(answer) for each, answer in answers.items()} == dict.fromkeys(answers, "done and dusted")
    assert set(answers) == {"r0", "r1", "r2"}
    assert errors == {}
    assert {answer["response"]["body"]["relay"]["tool_rounds"] for answer in answers.values()} == {1}
    assert {headers["authorization"] for headers, _ in executor.received} == {AUTHORIZATION}
    assert sorted(body["custom_id"] for _, body in executor.received) == ["r0", "r1", "r2"]
    assert all(body["context"] == {"team": "search"} for _, body in executor.received)
    assert AUTHORIZATION not in json.dumps([done, answers])
    assert (await inference(workspace, "GET", "/v1/files"))["data"] == []


async def test_an_mcp_server_is_an_executor_too(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _prepare(workspace, 2)
    async with mcp_server() as server:
        await _run(workspace, {"url": server.url, "type": "Mcp"})

    answers, errors = await published(workspace)
    assert set(answers) == {"r0", "r1"}
    assert errors == {}
    assert [call["round"] for call in server.calls].count(2) == 2
    assert {call["authorization"] for call in server.calls} == {AUTHORIZATION}


async def test_an_executor_that_answers_html_fails_its_records_alone(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _prepare(workspace, 2)

    def respond(body: Any) -> Any:
        if body["custom_id"] == "r0":
            return web.Response(text="<html>not today</html>", content_type="text/html")
        return {"results": [{"tool_call_id": call["id"], "content": "done"} for call in body["tool_calls"]]}

    async with HttpExecutor(respond=respond) as executor:
        done = await _run(workspace, {"url": executor.url}, retryPolicy={"maxAttempts": 1})

    answers, errors = await published(workspace)
    assert answers.keys() == {"r1"}
    assert errors["r0"]["error"]["code"] == "tool_executor_error"
    assert done["status"]["requestCounts"] == {"total": 2, "completed": 1, "failed": 1}


async def test_tools_of_messages_are_refused_at_apply(workspace: Workspace) -> None:
    with pytest.raises(KubeError, match="toolConfig works with the endpoint /v1/chat/completions alone"):
        await workspace.apply(batch(endpoint="/v1/messages", toolConfig={"url": "https://tools.example.com/"}))


async def _prepare(workspace: Workspace, records: int) -> None:
    await workspace.cloud.control.settings(allowLoopbackExecutors=True)
    await put_prompts(workspace, [record(f"r{number}", tools=TOOLS) for number in range(records)])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "executor"}}
    await workspace.apply({**secret, "stringData": {"authorization": AUTHORIZATION}})


async def _run(workspace: Workspace, tool_config: dict[str, Any], **spec: Any) -> Manifest:
    authorization = {"authorizationSecretRef": {"name": "executor", "key": "authorization"}}
    await workspace.apply(batch(model="tools", toolConfig=tool_config | authorization, **spec))
    done = await workspace.becomes(KIND, NAME, complete)
    assert condition(done, "Ready")["status"] == "True"
    return done

"""Tool rounds of records (section 2, "Tool config"), with executors that really answer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from relay_localcloud.http.certificate import server_context
from relay_localcloud.http.json_values import MOST_VALUES
from tests.localcloud.support.batches import batch_of, content, create, errors, failure, lines, record, run
from tests.localcloud.support.executors import HttpExecutor, results
from tests.localcloud.support.inference import MESSAGES, message, ok
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.localcloud.support.server import Organization


pytestmark = pytest.mark.usefixtures("loopback_is_admitted")


def with_tools(url: str, tool: str = "look", **config: Any) -> dict[str, Any]:
    """A record of the model `tools`, which calls the offered tool until a result contains `done`."""
    offered = {"type": "function", "function": {"name": tool, "parameters": {"type": "object"}}}
    return record("r", "please look", "tools", tools=[offered], relay={"tool_config": {"url": url, **config}})


async def answered(organization: Organization, broken: dict[str, Any]) -> Any:
    """The answer of the one record of a batch, and its usage."""
    batch = await run(organization, [broken])
    assert batch["request_counts"] == {"total": 1, "completed": 1, "failed": 0}, await errors(organization, batch)
    (line,) = await lines(organization, batch)
    return line["response"]["body"], batch["usage"]


async def test_the_http_contract(organization: Organization, executor: HttpExecutor) -> None:
    context = {"deep": {"er": [1, 2.5, None, "ü"]}}
    body, usage = await answered(
        organization, with_tools(executor.url, authorization="Secret  with two  blanks", context=context)
    )
    ((headers, received),) = executor.received
    assert headers["authorization"] == "Secret  with two  blanks"
    assert headers["content-type"] == "application/json"
    (call,) = received["tool_calls"]
    assert received == {"custom_id": "r", "context": context, "tool_calls": [call]}
    assert (call["type"], call["function"]) == ("function", {"name": "look", "arguments": '{"round": 1}'})
    assert body["choices"][0]["message"]["content"] == "done and dusted"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["relay"] == {"tool_rounds": 1}
    # Two invocations: 2 words in and the 2 words of the arguments out, then 5 in and 3 out.
    assert usage == {"input_tokens": 7, "output_tokens": 5, "cost_nano_usd": 600}


async def test_rounds_go_on_until_the_model_is_done(organization: Organization, executor: HttpExecutor) -> None:
    def respond(body: Any) -> Any:
        said = "done" if len(executor.received) == 4 else "not yet"
        return {"results": [{"tool_call_id": call["id"], "content": said} for call in body["tool_calls"]]}

    executor.respond = respond
    body, _ = await answered(organization, with_tools(executor.url))
    arguments = [received["tool_calls"][0]["function"]["arguments"] for _, received in executor.received]
    assert arguments == [f'{{"round": {number}}}' for number in (1, 2, 3, 4)]
    assert body["relay"] == {"tool_rounds": 4}


@pytest.mark.parametrize(
    ("given", "rounds"), [({}, 8), ({"max_rounds": 0}, 8), ({"max_rounds": 3}, 3), ({"max_rounds": 99}, 16)]
)
async def test_rounds_are_clamped_and_the_last_turn_is_the_answer(
    organization: Organization, executor: HttpExecutor, given: dict[str, Any], rounds: int
) -> None:
    executor.respond = lambda body: {"results": [{"tool_call_id": body["tool_calls"][0]["id"], "content": "more"}]}
    body, usage = await answered(organization, with_tools(executor.url, **given))
    assert len(executor.received) == rounds
    assert body["relay"] == {"tool_rounds": rounds}
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["output_tokens"] == 2 * (rounds + 1)


async def test_without_calls_there_are_no_rounds(organization: Organization, executor: HttpExecutor) -> None:
    batch = await run(
        organization, [record("r", "hello", relay={"tool_config": {"url": executor.url}, "another_key": 1})]
    )
    (line,) = await lines(organization, batch)
    assert line["response"]["body"]["relay"] == {"tool_rounds": 0}
    assert executor.received == []


async def test_other_keys_of_the_extension_need_no_tools(organization: Organization) -> None:
    batch = await run(organization, [record("r", "hello", relay={"another_key": 1}), record("s", relay=None)])
    assert batch["request_counts"]["completed"] == 2
    assert all("relay" not in line["response"]["body"] for line in await lines(organization, batch))


async def test_the_tool_config_is_in_no_result_file(organization: Organization, executor: HttpExecutor) -> None:
    records = [with_tools(executor.url, authorization="TOPSECRET", context={"private": "PRIVATE"})]
    records.append({**with_tools("http://203.0.113.7/PLAIN", authorization="TOPSECRET"), "custom_id": "s"})
    batch = await run(organization, records)
    raw = await content(organization, batch["output_file_id"]) + await content(organization, batch["error_file_id"])
    for secret in (b'"tool_config"', b"TOPSECRET", b"PRIVATE", executor.url.encode(), b"PLAIN"):
        assert secret not in raw
    assert "TOPSECRET" not in organization.server.log


async def test_every_invocation_that_answered_is_paid(organization: Organization, executor: HttpExecutor) -> None:
    executor.respond = lambda _: web.Response(status=500)
    batch = await run(organization, [with_tools(executor.url)])
    assert batch["request_counts"] == {"total": 1, "completed": 0, "failed": 1}
    assert batch["usage"] == {"input_tokens": 2, "output_tokens": 2, "cost_nano_usd": 200}


BAD_ANSWERS = {
    "a server error": lambda _: web.Response(status=500),
    "not found": lambda _: web.Response(status=404),
    "a page": lambda _: web.Response(text="<html>hello</html>", content_type="text/html"),
    "nothing": lambda _: web.Response(),
    "a list": lambda _: [],
    "no results": lambda _: {"results": []},
    "a result of another call": lambda _: {"results": [{"tool_call_id": "x", "content": "done"}]},
    "a number": lambda body: {"results": [{"tool_call_id": body["tool_calls"][0]["id"], "content": 1}]},
    "a redirect": lambda _: web.Response(status=307, headers={"Location": "/inward"}),
    "a redirect inward": lambda _: web.Response(status=302, headers={"Location": "http://169.254.169.254/latest"}),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
async def test_an_executor_that_answers_nonsense_fails_the_record(
    organization: Organization, executor: HttpExecutor, kind: str
) -> None:
    executor.respond = BAD_ANSWERS[kind]
    response, error = await failure(organization, with_tools(executor.url))
    assert (response, error["code"]) == (None, "tool_executor_error")
    assert len(executor.received) == 1


def values(document: Any) -> int:
    """Items of lists and members of objects; none of them is empty."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return len(inner) + sum(map(values, inner))


def answering(most: int, method: str | None, answered: Callable[[Any], Any]) -> Callable[[Any], web.Response]:
    """The answers of an executor, those to this method with so many values; its texts have more separators."""

    def respond(body: Any) -> web.Response:
        answer = answered(body)
        if isinstance(answer, web.Response):
            return answer
        if method is None or body["method"] == method:
            inner = answer if method is None else answer["result"]
            inner["_meta"] = {"text": "[,{" * MOST_VALUES, "more": [0]}
            inner["_meta"]["more"] *= most - values(answer) + 1
        return web.json_response(answer)

    return respond


def in_events(respond: Callable[[Any], web.Response], end: str, head: str = "") -> Callable[[Any], web.Response]:
    """The same as server-sent events, whose lines end like this, after these."""

    def streamed(body: Any) -> web.Response:
        if "id" not in body:
            return respond(body)
        text = respond(body).text
        event = head.encode() + f"event: message{end}data: {text}{end}{end}".encode()
        return web.Response(body=event, headers={"Content-Type": "text/event-stream; charset=utf-8"})

    return streamed


@pytest.mark.parametrize("kind", ["http", "mcp", "mcp in events", "mcp in events with CRLF"])
@pytest.mark.parametrize("beyond", [0, 1])
async def test_an_answer_with_too_many_values_is_not_read(
    organization: Organization, executor: HttpExecutor, kind: str, beyond: int
) -> None:
    most = MOST_VALUES + beyond
    if kind == "http":
        executor.respond = answering(most, None, results)
    else:
        executor.respond = answering(most, "tools/call", legacy_mcp)
    if "events" in kind:
        executor.respond = in_events(executor.respond, "\r\n" if "CRLF" in kind else "\n", ': "\n')
    sent = with_tools(executor.url, type=kind.partition(" ")[0])
    if beyond:
        response, error = await failure(organization, sent)
        assert (response, error["code"]) == (None, "tool_executor_error")
        assert f"its answer has over {MOST_VALUES} values" in error["message"]
    else:
        body, _ = await answered(organization, sent)
        assert "done" in body["choices"][0]["message"]["content"]


async def test_an_executor_that_is_not_there_fails_the_record(organization: Organization) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        for kind in ("http", "mcp"):
            response, error = await failure(organization, with_tools(url, type=kind))
            assert (response, error["code"]) == (None, "tool_executor_error")


async def test_an_executor_that_hangs_times_out(organization: Organization, executor: HttpExecutor) -> None:
    executor.hang = asyncio.Event()
    response, error = await failure(organization, with_tools(executor.url, timeout_ms=200))
    assert (response, error["code"]) == (None, "tool_timeout")
    assert "200 ms" in error["message"]


async def test_a_record_that_waits_for_its_tools_holds_up_no_request(
    organization: Organization, executor: HttpExecutor
) -> None:
    executor.hang = asyncio.Event()
    await create(organization, [record("a", model="tools"), with_tools(executor.url), record("b", model="tools")])
    moving = asyncio.create_task(organization.server.advance(3600))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await executor.called.wait()
    shown = await organization.ok("GET", "/v1/whoami")
    assert shown["organizationId"] == organization.id
    assert not moving.done()
    executor.hang.set()
    await moving


async def test_a_cancelled_batch_keeps_the_record_that_waits_for_its_tools(
    organization: Organization, executor: HttpExecutor
) -> None:
    executor.hang = asyncio.Event()
    records = [{**with_tools(executor.url), "custom_id": str(number)} for number in range(3)]
    batch = await create(organization, records)
    moving = asyncio.create_task(organization.server.advance(3600))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await executor.called.wait()
    cancelled = await ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    assert cancelled["status"] == "cancelling"
    executor.hang.set()
    await moving
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "cancelled"
    assert shown["request_counts"] == {"total": 3, "completed": 1, "failed": 0}
    assert [line["custom_id"] for line in await lines(organization, shown)] == ["0"]


MALFORMED = {
    "no url": {},
    "a number for a url": {"url": 1},
    "an empty url": {"url": ""},
    "no scheme": {"url": "tools.example.com/x"},
    "another scheme": {"url": "ftp://tools.example.com/x"},
    "no host": {"url": "https:///x"},
    "a port that is none": {"url": "https://tools.example.com:99999/x"},
    "plain http": {"url": "http://tools.example.com/x"},
    "plain http to a public address": {"url": "http://8.8.8.8/x"},
    "a private address": {"url": "https://10.1.2.3/x"},
    "a link-local address": {"url": "https://169.254.169.254/latest/meta-data"},
    "carrier-grade NAT": {"url": "https://100.64.0.1/x"},
    "this host": {"url": "https://0.0.0.0/x"},
    "broadcast": {"url": "https://255.255.255.255/x"},
    "multicast": {"url": "https://224.0.0.1/x"},
    "a unique local address": {"url": "https://[fd00::1]/x"},
    "a mapped private address": {"url": "https://[::ffff:10.0.0.1]/x"},
    "a translated private address": {"url": "https://[64:ff9b::10.0.0.1]/x"},
    "an unknown type": {"url": "https://tools.example.com", "type": "grpc"},
    "a negative number": {"url": "https://tools.example.com", "max_rounds": -1},
    "a number as text": {"url": "https://tools.example.com", "max_rounds": "8"},
    "true for a number": {"url": "https://tools.example.com", "timeout_ms": True},
    "a negative timeout": {"url": "https://tools.example.com", "timeout_ms": -1},
    "a context that is no object": {"url": "https://tools.example.com", "context": []},
    "a line break in the header": {"url": "https://tools.example.com", "authorization": "a\r\nX: b"},
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_malformed_tool_config_fails_its_record_alone(organization: Organization, kind: str) -> None:
    await organization.server.ok("PATCH", "/settings", {"allowLoopbackExecutors": False})
    batch = await run(
        organization, [record("good"), record("bad", relay={"tool_config": MALFORMED[kind]}), record("also good")]
    )
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    (line,) = await errors(organization, batch)
    assert (line["custom_id"], line["response"], line["error"]["code"]) == ("bad", None, "invalid_tool_config")
    assert batch["usage"]["input_tokens"] == 4  # of the other two


@pytest.mark.parametrize("relay", ["a string", 1, [], {"tool_config": "a string"}, {"tool_config": []}])
async def test_what_is_no_object_is_no_tool_config(organization: Organization, relay: object) -> None:
    response, error = await failure(organization, record("r", relay=relay))
    assert (response, error["code"]) == (None, "invalid_tool_config")


async def test_messages_have_no_tool_config(organization: Organization) -> None:
    body = {**message("hello"), "relay": {"tool_config": {"url": "https://tools.example.com"}}}
    batch = await run(organization, [{"custom_id": "m", "method": "POST", "url": MESSAGES, "body": body}], MESSAGES)
    (line,) = await errors(organization, batch)
    assert line["error"]["code"] == "invalid_tool_config"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "tools.localhost"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_loopback_is_refused_unless_it_is_admitted(
    organization: Organization, executor: HttpExecutor, scheme: str, host: str
) -> None:
    await organization.server.ok("PATCH", "/settings", {"allowLoopbackExecutors": False})
    port = executor.url.split(":")[2].split("/")[0]
    for kind in ("http", "mcp"):
        response, error = await failure(organization, with_tools(f"{scheme}://{host}:{port}/x", type=kind))
        assert (response, error["code"]) == (None, "invalid_tool_config")
    assert executor.received == []


def name_of_a_private_address() -> str:
    """A name that this machine knows, mostly its own, and that is not told to be loopback's by its spelling."""
    for name in (socket.gethostname(), "ip6-localhost", "ip6-loopback", "localhost.localdomain"):
        with suppress(OSError):
            if not any(ip_address(each[4][0]).is_global for each in socket.getaddrinfo(name, None)):
                return name
    pytest.skip("this machine has no name for a private address")


async def test_a_name_that_resolves_to_a_private_address_is_refused_before_the_model_is_asked(
    organization: Organization, executor: HttpExecutor
) -> None:
    await organization.server.ok("PATCH", "/settings", {"allowLoopbackExecutors": False})
    port = executor.url.split(":")[2].split("/")[0]
    name = name_of_a_private_address()
    for kind in ("http", "mcp"):
        batch = await run(organization, [with_tools(f"https://{name}:{port}/x", type=kind)])
        (line,) = await errors(organization, batch)
        assert line["error"]["code"] == "invalid_tool_config"
        assert batch["usage"]["input_tokens"] == 0
    assert executor.received == []


@pytest.mark.parametrize("loopback", [False, True])
async def test_plain_http_to_a_name_that_does_not_resolve_is_refused_before_the_model_is_asked(
    organization: Organization, loopback: bool
) -> None:
    await organization.server.ok("PATCH", "/settings", {"allowLoopbackExecutors": loopback})
    batch = await run(organization, [with_tools("http://tools.invalid/x")])
    (line,) = await errors(organization, batch)
    assert line["error"]["code"] == "invalid_tool_config"
    assert batch["usage"]["input_tokens"] == 0


@pytest.mark.parametrize("host", ["tools.invalid", "tools..test"])
async def test_a_name_that_resolves_to_nothing_fails_once_it_is_called(organization: Organization, host: str) -> None:
    response, error = await failure(organization, with_tools(f"https://{host}/x", timeout_ms=120_000))
    assert (response, error["code"]) == (None, "tool_executor_error")


def legacy_mcp(body: Any) -> Any:
    """A server that knows the handshake and calls, and nothing newer."""
    if "id" not in body:
        return web.Response(status=202)
    known = {
        "initialize": {
            "protocolVersion": "2025-03-26",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        },
        "tools/call": {"content": [{"type": "text", "text": "all"}, {"type": "text", "text": "done"}]},
        "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
    }
    if body["method"] in known:
        return {"jsonrpc": "2.0", "id": body["id"], "result": known[body["method"]]}
    return {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "Method not found"}}


async def test_loopback_may_have_a_certificate_of_its_own_making(organization: Organization, tmp_path: Path) -> None:
    async with HttpExecutor(tls=server_context(tmp_path, "127.0.0.1")) as executor:
        body, _ = await answered(organization, with_tools(executor.url))
    assert body["relay"] == {"tool_rounds": 1}


async def test_a_round_that_cannot_be_paid_fails_its_record_and_the_one_before_it_is_paid(
    organization: Organization, executor: HttpExecutor
) -> None:
    def respond(body: Any) -> Any:
        long = "done " + "w " * 150_000
        return {"results": [{"tool_call_id": call["id"], "content": long} for call in body["tool_calls"]]}

    executor.respond = respond
    batch = await create(organization, [with_tools(executor.url)])
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 0})
    await organization.server.advance(3600)
    batch = await batch_of(organization, batch["id"])
    assert batch["request_counts"] == {"total": 1, "completed": 0, "failed": 1}
    (line,) = await errors(organization, batch)
    assert line["response"]["status_code"] == 402
    assert line["response"]["body"]["error"]["code"] == "insufficient_balance"
    assert batch["usage"] == {"input_tokens": 2, "output_tokens": 2, "cost_nano_usd": 200}
    assert len(executor.received) == 1

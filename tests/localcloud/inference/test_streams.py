"""Streams as server-sent events, byte by byte; those that are cut, and what they cost (section 7, "Streaming")."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from relay_localcloud.inference import frames
from relay_localcloud.inference.charges import NOTHING, Usage
from relay_localcloud.inference.frames import Bill, Frame, Part
from relay_localcloud.inference.invoke import DIALECTS
from relay_localcloud.kernel.disk import Unwritable
from relay_wire.inference import Family
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, events, message, refusal

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

pytestmark = pytest.mark.usefixtures("no_faults_left")

A_CENT_OF_WORDS = "w " * 100_000


async def fault(organization: Organization, path: str, effect: dict[str, Any]) -> None:
    body = {"operation": f"POST {path}", "organizationId": organization.id, "effect": effect}
    await organization.server.ok("POST", "/faults", body)


async def test_a_chat_streams_a_chunk_a_word_and_ends_with_done(organization: Organization) -> None:
    answer = await call(organization, "POST", CHAT, chat("hello big world", stream=True))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    first = json.loads(answer.raw.split(b"\n")[0].removeprefix(b"data: "))
    head = (
        f'data: {{"id":"{first["id"]}","object":"chat.completion.chunk","created":{first["created"]},"model":"echo",'
        '"choices":[{"index":0,"delta":'
    )
    tail = ',"logprobs":null,"finish_reason":null}]}\n\n'
    assert answer.raw.decode() == (
        f'{head}{{"role":"assistant","content":"","refusal":null}}{tail}'
        f'{head}{{"content":"hello"}}{tail}'
        f'{head}{{"content":" big"}}{tail}'
        f'{head}{{"content":" world"}}{tail}'
        f'{head}{{}},"logprobs":null,"finish_reason":"stop"}}]}}\n\n'
        "data: [DONE]\n\n"
    )


async def test_a_chat_streams_its_usage_where_it_is_asked_for(organization: Organization) -> None:
    body = chat("a b", stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = [data for _, data in events((await call(organization, "POST", CHAT, body)).raw)]
    assert done == "[DONE]"
    assert [chunk["usage"] for chunk in chunks] == [None] * 4
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


async def test_a_stream_is_cut_at_the_limit(organization: Organization) -> None:
    answer = await call(organization, "POST", CHAT, chat("a b c", stream=True, max_tokens=2))
    *_, last, done = [data for _, data in events(answer.raw)]
    assert last["choices"][0]["finish_reason"] == "length"
    assert done == "[DONE]"
    assert b" c" not in answer.raw


async def test_the_call_of_a_tool_streams_its_arguments(organization: Organization) -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    answer = await call(organization, "POST", CHAT, chat("x", "tools", stream=True, tools=[tool]))
    chunks = [data["choices"][0] for _, data in events(answer.raw)[:-1]]
    calls = [part for chunk in chunks for part in chunk["delta"].get("tool_calls", ())]
    assert calls[0]["id"]
    assert calls[0]["function"] == {"name": "look", "arguments": ""}
    assert json.loads("".join(part["function"]["arguments"] for part in calls)) == {"round": 1}
    assert chunks[-1]["finish_reason"] == "tool_calls"


async def test_messages_stream_the_events_of_their_family(organization: Organization) -> None:
    answer = await call(organization, "POST", MESSAGES, message("hello world", stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    identifier = events(answer.raw)[0][1]["message"]["id"]
    begun = (
        f'{{"id":"{identifier}","type":"message","role":"assistant","model":"echo","content":[],"stop_reason":null,'
        '"stop_sequence":null,"usage":{"input_tokens":2,"output_tokens":0}}'
    )
    delta = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
    assert answer.raw.decode() == (
        f'event: message_start\ndata: {{"type":"message_start","message":{begun}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        'event: ping\ndata: {"type":"ping"}\n\n'
        f'{delta}"text":"hello"}}}}\n\n'
        f'{delta}"text":" world"}}}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        '"usage":{"output_tokens":2}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )


@pytest.mark.parametrize("text", ["", " ", "  \n", "one", " lead", "trail \n ", "日本語 🦜\tx"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_the_pieces_of_a_stream_are_the_text(organization: Organization, path: str, text: str) -> None:
    body = (chat if path == CHAT else message)(text, stream=True)
    pieces = []
    for _, data in events((await call(organization, "POST", path, body)).raw):
        if path == CHAT and data != "[DONE]":
            pieces.append(data["choices"][0]["delta"].get("content", ""))
        elif path == MESSAGES and data["type"] == "content_block_delta":
            pieces.append(data["delta"]["text"])
    assert "".join(pieces) == text


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_chat_that_is_cut_ends_with_an_error_frame_and_done(organization: Organization, after: int) -> None:
    await fault(organization, CHAT, {"cutStreamAfter": after})
    answer = await call(organization, "POST", CHAT, chat("a b c", stream=True))
    assert answer.status == 200
    *chunks, error, done = [data for _, data in events(answer.raw)]
    assert done == "[DONE]"
    assert sorted(error) == ["error"]
    assert (error["error"]["type"], error["error"]["code"]) == ("api_error", "upstream_error")
    assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["", "a", " b", " c"][: after + 1]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)


async def test_a_model_that_has_said_all_before_it_would_break_ends_well(organization: Organization) -> None:
    await fault(organization, CHAT, {"cutStreamAfter": 4})
    body = chat("a b c", stream=True, stream_options={"include_usage": True})
    *_, usage, done = [data for _, data in events((await call(organization, "POST", CHAT, body)).raw)]
    assert (usage["usage"]["total_tokens"], done) == (6, "[DONE]")


async def test_a_message_that_is_cut_ends_with_an_error_event_and_done(organization: Organization) -> None:
    await fault(organization, MESSAGES, {"cutStreamAfter": 1})
    answer = await call(organization, "POST", MESSAGES, message("a b c", stream=True))
    *before, (name, error), (_, done) = events(answer.raw)
    assert [event for event, _ in before] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
    ]
    assert (name, error["type"], error["error"]["type"]) == ("error", "error", "api_error")
    assert error["error"]["code"] == "upstream_error"
    assert done == "[DONE]"


@pytest.mark.parametrize("family", Family)
async def test_a_stream_whose_charge_cannot_be_written_ends_with_an_error_frame_and_done(family: Family) -> None:
    def cannot_write(_: Usage) -> None:
        raise Unwritable(OSError("the disk is full"))

    source = frames.told(iter([Frame(Part.CONTENT, {"type": "said"})]), Usage.of(1, 1))
    bill = Bill(lambda _: NOTHING, cannot_write)
    raw = b"".join([piece async for piece in frames.events(source, DIALECTS[family], bill)])
    (_, said), (name, error), (_, done) = events(raw)
    assert (said, name, done) == ({"type": "said"}, "error" if family is Family.MESSAGES else None, "[DONE]")
    assert (error["error"]["type"], error["error"]["code"]) == ("api_error", "upstream_unavailable")


@pytest.mark.parametrize("effect", [{"cutStreamAfter": 1}, {"truncateBytes": 400}, {"drop": "after"}])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_an_interrupted_stream_is_not_billed(
    organization: Organization, path: str, effect: dict[str, Any]
) -> None:
    await fault(organization, path, effect)
    body = (chat if path == CHAT else message)(A_CENT_OF_WORDS, stream=True)
    body["max_tokens"] = 2
    try:
        await call(organization, "POST", path, body)
    except aiohttp.ClientError:
        assert "cutStreamAfter" not in effect
    await organization.server.ok("DELETE", "/faults")
    assert (await balance(organization))["balanceCents"] == 100_000
    await call(organization, "POST", path, body)
    assert (await balance(organization))["balanceCents"] == 99_999


async def test_what_is_not_streamed_is_not_cut(organization: Organization) -> None:
    await fault(organization, CHAT, {"cutStreamAfter": 0})
    assert (await call(organization, "POST", CHAT, chat("a b"))).status == 200


@pytest.mark.parametrize(
    ("model", "refused"),
    [
        ("refuse", (422, "invalid_request_error", None)),
        ("busy", (429, "rate_limit_error", "rate_limit_error")),
        ("down", (502, "api_error", "upstream_error")),
        ("full", (503, "api_error", "upstream_unavailable")),
        ("none", (404, "not_found_error", "model_not_found")),
    ],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_what_is_known_before_the_first_word_is_a_status(
    organization: Organization, path: str, model: str, refused: tuple[int, str, str | None]
) -> None:
    answer = await call(organization, "POST", path, (chat if path == CHAT else message)("x", model, stream=True))
    assert refusal(answer, path) == refused


@pytest.mark.parametrize(
    ("operation", "effect"),
    [
        ("POST /v1/chat/completions", {"cutStreamAfter": -1}),
        ("POST /v1/chat/completions", {"cutStreamAfter": "1"}),
        ("POST /v1/chat/completions", {"cutStreamAfter": True}),
        ("POST /v1/pods", {"cutStreamAfter": 1}),
        ("GET /v1/models", {"cutStreamAfter": 1}),
    ],
)
async def test_only_streams_can_be_cut(server: Server, operation: str, effect: dict[str, Any]) -> None:
    answer = await server.control("POST", "/faults", {"operation": operation, "effect": effect})
    assert answer.refusal == (400, "invalid_request")

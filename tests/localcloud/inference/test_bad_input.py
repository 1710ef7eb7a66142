"""Nothing that a caller sends to the inference port ends in a 500: it is 400 with a sentence that names the field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.inference import CHAT, MESSAGES, call, chat, message, refusal

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

GOOD = b'{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'

BAD_BYTES = {
    "empty": b"",
    "blank": b"  ",
    "not JSON": b"model=echo",
    "cut off": GOOD[:-1],
    "two documents": GOOD + GOOD,
    "trailing comma": GOOD[:-1] + b",}",
    "an array": b"[]",
    "a string": b'"echo"',
    "a number": b"1",
    "null": b"null",
    "deep nesting": b"[" * 100_000 + b"]" * 100_000,
    "deep nesting in an unread field": GOOD[:-1] + b',"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "deep nesting of parts": GOOD.replace(b'"x"', b'[{"type":"a","content":' * 5_000 + b'"x"' + b"}]" * 5_000),
    "invalid UTF-8": GOOD.replace(b'"x"', b'"\xff\xfe"'),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a NUL byte": GOOD.replace(b'"x"', b'"a\x00b"'),
    "a lone surrogate": GOOD.replace(b'"x"', b'"\\ud800"'),
    "a number of 10,000 digits": GOOD[:-1] + b',"x":' + b"9" * 10_000 + b"}",
    "NaN": GOOD[:-1] + b',"temperature":NaN}',
    "Infinity in an unread field": GOOD[:-1] + b',"x":-Infinity}',
    "a number beyond doubles": GOOD[:-1] + b',"temperature":1e999}',
}

BAD_FIELDS: dict[str, Any] = {
    "model": [None, "", 1, True, ["echo"], {"id": "echo"}],
    "messages": [
        None,
        [],
        {},
        "hello",
        ["hello"],
        [None],
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": {"type": "text", "text": "x"}}],
        [{"role": "user", "content": ["x"]}],
        [{"role": "user", "content": [{"text": "x"}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        [{"role": "nobody", "content": "x"}],
        [{"role": None, "content": "x"}],
    ],
    "max_tokens": [0, -1, "5", 1.5, True, [1], 10**30],
    "stream": ["true", 1, []],
    "temperature": [-0.1, 2.1, "1", True, []],
    "top_p": [-1, 2, "x"],
}

BAD_CHAT_FIELDS: dict[str, Any] = {
    "messages": [
        [{"role": "user", "content": "x"}] * 10_001,
        [{"role": "user", "content": [{"type": "text", "text": "x"}] * 10_001}],
        [{"role": "tool", "content": "x"}],
        [{"role": "tool", "tool_call_id": "a"}],
        [{"role": "assistant", "tool_calls": {}}],
        [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}],
    ],
    "max_completion_tokens": [0, "1"],
    "n": [0, 129, "2", 1.0],
    "stop": [1, [1], {}, ["x"] * 5],
    "stream_options": [1, {"include_usage": "yes"}],
    "tools": [{}, [1], [{"type": "function"}], [{"type": "function", "function": {}}], [{"function": {"name": "f"}}]],
    "tool_choice": [
        *(1, [], {}, "", "any", "required", {"type": "function"}, {"type": "auto"}),
        *({"type": "function", "function": {"name": name}} for name in ("f", "", None)),
        {"function": {"name": "f"}},
    ],
    "logprobs": ["true", 1, []],
    "top_logprobs": [-1, 21, "1", 1.0, True],
    "response_format": [
        "json_object",
        {},
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": "x"},
        {"type": "json_schema", "json_schema": {"schema": {}}},
        {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": []}},
    ],
    "seed": ["1", 1.5],
    "frequency_penalty": [3],
}

BAD_MESSAGES_FIELDS: dict[str, Any] = {
    "messages": [
        [{"role": "tool", "content": "x"}],
        [{"role": "assistant", "content": None}],
        [{"role": "user", "content": "x"}] * 10_001,
    ],
    "system": [1, {}, [1], [{"type": "text"}]],
    "stop_sequences": ["x", [1], ["x"] * 17],
    "top_k": [-1, 0.5],
    "tools": [{}, [1]],
    "tool_choice": [
        *("auto", [], {}, {"type": "any"}, {"type": "required"}, {"type": "tool"}),
        *({"type": "tool", "name": name} for name in ("f", "", None)),
    ],
}


def _cases(path: str, fields: dict[str, Any]) -> list[Any]:
    named = [(path, field, value) for field, values in fields.items() for value in values]
    return [pytest.param(*case, id=f"{case[0]} {case[1]}={json.dumps(case[2])[:60]}") for case in named]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("raw", BAD_BYTES.values(), ids=BAD_BYTES.keys())
async def test_bad_bytes_are_400(organization: Organization, path: str, raw: bytes) -> None:
    answer = await call(organization, "POST", path, raw=raw)
    assert refusal(answer, path) == (400, "invalid_request_error", None)
    assert len(answer.body["error"]["message"]) < 500
    assert "Traceback" not in organization.server.log


@pytest.mark.parametrize(("path", "status"), [("/v1/models", 405), ("/v1/\x7f", 404)])
async def test_bad_bytes_are_not_read_where_no_body_is_taken(
    organization: Organization, path: str, status: int
) -> None:
    assert {(await call(organization, "POST", path, raw=raw)).status for raw in BAD_BYTES.values()} == {status}
    assert "Traceback" not in organization.server.log


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        *_cases(CHAT, BAD_FIELDS),
        *_cases(MESSAGES, BAD_FIELDS),
        *_cases(CHAT, BAD_CHAT_FIELDS),
        *_cases(MESSAGES, BAD_MESSAGES_FIELDS),
    ],
)
async def test_a_bad_field_is_400_and_named(organization: Organization, path: str, field: str, value: object) -> None:
    body = {**(chat if path == CHAT else message)("x"), field: value}
    answer = await call(organization, "POST", path, body)
    assert refusal(answer, path) == (400, "invalid_request_error", None)
    assert answer.body["error"]["message"].startswith(field)


async def test_a_tool_that_is_not_offered_cannot_be_chosen(organization: Organization) -> None:
    chosen = {"type": "function", "function": {"name": "f"}}
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "g"}}, {"type": "custom"}]
    asked = [(CHAT, chat("x", tools=tools, tool_choice=chosen))]
    asked += [(CHAT, chat("x", tools=tools[:0], tool_choice="required"))]
    asked += [(MESSAGES, message("x", tools=[{"name": "g"}, {}], tool_choice={"type": "tool", "name": "f"}))]
    for path, body in asked:
        answer = await call(organization, "POST", path, body)
        assert refusal(answer, path) == (400, "invalid_request_error", None)
        assert answer.body["error"]["message"].startswith("tool_choice")


TOOLS = [{"type": "function", "function": {"name": "f"}}]
CHOICES: list[tuple[str, dict[str, Any]]] = [
    *((CHAT, {"tool_choice": choice}) for choice in ("none", "auto")),
    *((CHAT, {"tools": TOOLS, "tool_choice": choice}) for choice in ("required", "auto", TOOLS[0], None)),
    *((MESSAGES, {"tool_choice": {"type": kind}}) for kind in ("auto", "none")),
    *((MESSAGES, {"tools": [{"name": "f"}], "tool_choice": {"type": kind, "name": "f"}}) for kind in ("any", "tool")),
    (MESSAGES, {"tool_choice": None}),
    *((CHAT, {"logprobs": bool(most), "top_logprobs": most}) for most in (0, 20)),
    (CHAT, {"logprobs": None, "top_logprobs": None}),
]


@pytest.mark.parametrize(("path", "more"), CHOICES)
async def test_what_may_be_chosen_is_taken(organization: Organization, path: str, more: dict[str, Any]) -> None:
    assert (await call(organization, "POST", path, (chat if path == CHAT else message)("x", **more))).status == 200


@pytest.mark.parametrize("less", [1, 0])
@pytest.mark.parametrize(
    ("path", "field", "most"),
    [
        (CHAT, "n", 128),
        (CHAT, "stop", 4),
        (MESSAGES, "stop_sequences", 16),
        (CHAT, "messages", 10_000),
        (MESSAGES, "messages", 10_000),
    ],
)
async def test_as_many_as_there_may_be_are_taken(
    organization: Organization, path: str, field: str, most: int, less: int
) -> None:
    body: dict[str, Any] = (chat if path == CHAT else message)("x")
    value = most - less if field == "n" else (body.get(field) or ["stop"]) * (most - less)
    assert (await call(organization, "POST", path, {**body, field: value})).status == 200


async def test_the_sentence_never_repeats_what_was_sent(organization: Organization) -> None:
    body = chat([{"type": "text", "text": {"secret": "hunter2"}}])
    answer = await call(organization, "POST", CHAT, body)
    assert answer.body["error"]["message"] == "messages.0.content.parts.0.text: Input should be a valid string."
    assert b"hunter2" not in answer.raw


async def test_the_sentence_is_about_what_was_sent_and_not_about_its_alternative(organization: Organization) -> None:
    sentences = [
        (await call(organization, "POST", CHAT, chat("x", stop=stop))).body["error"]["message"]
        for stop in (["x"] * 5, ["x", 1], 1)
    ]
    assert sentences == [
        "stop.parts: List should have at most 4 items.",
        "stop.parts.1: Input should be a valid string.",
        "stop.text: Input should be a valid string.",
    ]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_the_content_type_does_not_matter_where_the_body_parses(
    organization: Organization, content_type: str
) -> None:
    headers = {"Content-Type": content_type, "x-api-key": organization.api_key}
    assert (await call(organization, "POST", CHAT, raw=GOOD, headers=headers)).status == 200


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_body_without_a_user_message_is_answered_with_its_last(organization: Organization, path: str) -> None:
    body = {"model": "echo", "max_tokens": 9, "messages": [{"role": "assistant", "content": "alone"}]}
    answer = await call(organization, "POST", path, body)
    assert answer.status == 200
    assert "alone" in answer.raw.decode()


@pytest.mark.parametrize("content", ["", " ", [], "w " * 200_000])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_contents_of_any_size_are_answered(organization: Organization, path: str, content: object) -> None:
    body = (chat if path == CHAT else message)(content)
    answer = await call(organization, "POST", path, body)
    assert answer.status == 200

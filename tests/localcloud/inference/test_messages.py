"""`POST /v1/messages` as Anthropic's client knows it, answered by the built-in models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.inference import MESSAGES, call, message, ok, refusal

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization


async def test_a_message_has_every_field(organization: Organization) -> None:
    answer = await ok(organization, "POST", MESSAGES, message("one two three"))
    assert answer.pop("id").startswith("msg")
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": "echo",
        "content": [{"type": "text", "text": "one two three"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 3},
    }


@pytest.mark.parametrize("system", ["be brief", [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]])
async def test_system_prompts_are_counted(organization: Organization, system: object) -> None:
    answer = await ok(organization, "POST", MESSAGES, message("hello", system=system))
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": 1}


async def test_the_answer_is_cut_at_max_tokens(organization: Organization) -> None:
    answer = await ok(organization, "POST", MESSAGES, message("a b c", max_tokens=1))
    assert (answer["content"][0]["text"], answer["stop_reason"]) == ("a", "max_tokens")
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": 1}


async def test_a_stop_sequence_is_named(organization: Organization) -> None:
    answer = await ok(organization, "POST", MESSAGES, message("a b END c", stop_sequences=["END"]))
    assert (answer["content"][0]["text"], answer["stop_reason"]) == ("a b ", "stop_sequence")
    assert answer["stop_sequence"] == "END"


async def test_tool_use_blocks_are_accepted(organization: Organization) -> None:
    body = message("ask", "messages-only", tools=[{"name": "look", "input_schema": {"type": "object"}}])
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "tu_1", "name": "look", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "tu_1", "content": [{"type": "text", "text": "found it"}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                {"type": "text", "text": "go on"},
            ],
        },
    ]
    answer = await ok(organization, "POST", MESSAGES, body)
    assert answer["content"] == [{"type": "text", "text": "found it\ngo on"}]
    assert answer["usage"] == {"input_tokens": 5, "output_tokens": 4}


@pytest.mark.parametrize("max_tokens", [None, 0, -1, "5", 1.5, True, [1]])
async def test_max_tokens_is_required_and_a_count(organization: Organization, max_tokens: object) -> None:
    answer = await call(organization, "POST", MESSAGES, message("x", max_tokens=max_tokens))
    assert refusal(answer, MESSAGES) == (400, "invalid_request_error", None)
    assert answer.body["error"]["message"].startswith("max_tokens: ")
    body = message("x")
    del body["max_tokens"]
    answer = await call(organization, "POST", MESSAGES, body)
    assert refusal(answer, MESSAGES) == (400, "invalid_request_error", None)
    assert answer.body["error"]["message"] == "max_tokens: Field required."


async def test_headers_of_the_client_do_not_matter(organization: Organization) -> None:
    headers = {"x-api-key": organization.api_key, "anthropic-version": "2023-06-01", "anthropic-beta": "x"}
    answer = await call(organization, "POST", MESSAGES, message("x"), headers=headers)
    assert answer.status == 200

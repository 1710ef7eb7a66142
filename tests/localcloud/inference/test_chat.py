"""`POST /v1/chat/completions` as OpenAI's clients know it, answered by the built-in models (interfaces.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.inference import CHAT, call, chat, ok

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


async def test_a_completion_has_every_field(organization: Organization) -> None:
    answer = await ok(organization, "POST", CHAT, chat("one two three"))
    identifier, created = answer.pop("id"), answer.pop("created")
    assert identifier.startswith("chatcmpl-")
    assert isinstance(created, int)
    assert answer == {
        "object": "chat.completion",
        "model": "echo",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "one two three", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
    }


async def test_the_time_of_a_completion_is_the_clouds(organization: Organization) -> None:
    first = await ok(organization, "POST", CHAT, chat("x"))
    await organization.server.advance(3600)
    second = await ok(organization, "POST", CHAT, chat("x"))
    assert second["created"] - first["created"] == 3600
    assert second["id"] != first["id"]


async def test_the_last_user_message_is_answered_and_all_words_are_counted(organization: Organization) -> None:
    body = {
        "model": "echo",
        "messages": [
            {"role": "system", "content": "be  brief"},
            {"role": "developer", "content": "and kind"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "second"}, {"type": "text", "text": "part"}]},
            {"role": "assistant", "content": None},
        ],
    }
    answer = await ok(organization, "POST", CHAT, body)
    assert answer["choices"][0]["message"]["content"] == "second\npart"
    assert answer["usage"] == {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}


async def test_space_and_any_script_come_back_as_they_were(organization: Organization) -> None:
    text = "  a\tb \n\n 日本語 🦜 é\u200b  "
    answer = await ok(organization, "POST", CHAT, chat(text))
    assert answer["choices"][0]["message"]["content"] == text


async def test_parts_that_are_no_text_are_accepted(organization: Organization) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, {"type": "text", "text": "see"}]
    answer = await ok(organization, "POST", CHAT, chat(parts))
    assert answer["choices"][0]["message"]["content"] == "see"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_the_answer_is_cut_at_the_limit(organization: Organization, field: str) -> None:
    answer = await ok(organization, "POST", CHAT, chat("a b c", **{field: 2}))
    assert answer["choices"][0]["message"]["content"] == "a b"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


async def test_an_answer_that_just_fits_is_not_cut(organization: Organization) -> None:
    answer = await ok(organization, "POST", CHAT, chat("a b c ", max_tokens=3))
    assert answer["choices"][0]["message"]["content"] == "a b c "
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stop", ["c", ["x", "d", "c"]])
async def test_a_stop_sequence_ends_the_answer_before_it(organization: Organization, stop: object) -> None:
    answer = await ok(organization, "POST", CHAT, chat("a b c d", stop=stop))
    assert answer["choices"][0]["message"]["content"] == "a b "
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 2


async def test_several_choices_are_answered_and_counted(organization: Organization) -> None:
    answer = await ok(organization, "POST", CHAT, chat("a b", n=3))
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8}


async def test_tools_are_called_round_by_round_until_a_result_says_done(organization: Organization) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "find it"}]
    for number in (1, 2):
        turn = (await ok(organization, "POST", CHAT, {"model": "tools", "messages": messages, "tools": [TOOL]}))[
            "choices"
        ][0]
        assert turn["finish_reason"] == "tool_calls"
        assert turn["message"]["content"] is None
        (made,) = turn["message"]["tool_calls"]
        assert (made["type"], made["function"]["name"]) == ("function", "look")
        assert json.loads(made["function"]["arguments"]) == {"round": number}
        result = {"role": "tool", "tool_call_id": made["id"], "content": "not yet" if number == 1 else "it is done"}
        messages += [turn["message"], result]
    last = await ok(organization, "POST", CHAT, {"model": "tools", "messages": messages, "tools": [TOOL]})
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["choices"][0]["message"]["content"] == "it is done"


async def test_the_call_of_a_tool_is_cut_at_the_limit(organization: Organization) -> None:
    body = chat("x", "tools", tools=[TOOL], n=2)
    answer = await ok(organization, "POST", CHAT, {**body, "max_tokens": 1})
    ends = [
        (choice["finish_reason"], choice["message"]["tool_calls"][0]["function"]["arguments"])
        for choice in answer["choices"]
    ]
    assert ends == [("length", '{"round":')] * 2
    assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    whole = await ok(organization, "POST", CHAT, {**body, "max_tokens": 2})
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["tool_calls"] * 2


async def test_every_call_has_an_id_of_its_own(organization: Organization) -> None:
    body = chat("x", "tools", tools=[TOOL], n=2)
    choices = (await ok(organization, "POST", CHAT, body))["choices"]
    choices += (await ok(organization, "POST", CHAT, body))["choices"]
    assert len({choice["message"]["tool_calls"][0]["id"] for choice in choices}) == 4


@pytest.mark.parametrize(
    ("choice", "called"),
    [("auto", "look"), ("required", "look"), ({"type": "function", "function": {"name": "find"}}, "find")],
)
async def test_the_tool_that_is_chosen_is_called(organization: Organization, choice: object, called: str) -> None:
    tools = [TOOL, {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
    answer = await ok(organization, "POST", CHAT, chat("x", "tools", tools=tools, tool_choice=choice))
    (made,) = answer["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == called


@pytest.mark.parametrize("more", [{}, {"tools": []}, {"tools": [TOOL], "tool_choice": "none"}, {"tools": None}])
async def test_without_a_tool_to_call_the_tools_model_echoes(organization: Organization, more: dict[str, Any]) -> None:
    answer = await ok(organization, "POST", CHAT, chat("plain", "tools", **more))
    assert answer["choices"][0]["message"]["content"] == "plain"


async def test_fields_that_nobody_reads_are_accepted_and_flagged(organization: Organization) -> None:
    body = chat("x", temperature=0.5, seed=7, response_format={"type": "text"}, max_token=4, metadata={"a": "b"})
    await ok(organization, "POST", CHAT, body)
    logged = await organization.server.ok("GET", f"/requests?after=0&organizationId={organization.id}")
    assert logged["items"][-1]["unreadFields"] == ["max_token"]
    assert logged["items"][-1]["operation"] == "POST /v1/chat/completions"


async def test_null_in_an_optional_field_is_absence(organization: Organization) -> None:
    fields = ("max_tokens", "n", "stop", "stream", "stream_options", "tools", "tool_choice", "temperature", "user")
    answer = await ok(organization, "POST", CHAT, chat("x", **dict.fromkeys(fields)))
    assert answer["choices"][0]["message"]["content"] == "x"


async def test_a_key_may_be_sent_as_x_api_key_or_as_bearer_token(organization: Organization) -> None:
    for headers in (
        {"x-api-key": organization.api_key},
        {"X-API-Key": organization.api_key},
        {"Authorization": f"Bearer {organization.api_key}"},
        {"authorization": f"bearer  {organization.api_key}"},
        {"Authorization": "Basic eDp5", "x-api-key": organization.api_key},
        {"Authorization": f"Bearer {organization.api_key}", "x-api-key": "or_wrong"},
        {"Authorization": "Bearer unused", "x-api-key": organization.api_key},
    ):
        assert (await call(organization, "POST", CHAT, chat("x"), headers=headers)).status == 200, headers


async def test_a_legacy_key_works_here_too(organization: Organization) -> None:
    made = await organization.server.ok("POST", f"/orgs/{organization.id}/legacy-key")
    assert made["apiKey"].startswith("vl_")
    assert (await call(organization, "POST", CHAT, chat("x"), key=made["apiKey"])).status == 200

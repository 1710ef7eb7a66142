"""The `openai` client from PyPI, unchanged, against the local cloud: chats, streams, tools, models, errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.localcloud import Control, Organization

HELLO: Any = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello big world"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"round": {"type": "integer"}}}},
}
CHAT = "POST /v1/chat/completions"


@pytest_asyncio.fixture
async def client(organization: Organization, inference_url: str) -> AsyncIterator[AsyncOpenAI]:
    """The client with the organization's key, which asks once."""
    async with AsyncOpenAI(base_url=inference_url + "/v1", api_key=organization.api_key, max_retries=0) as made:
        yield made


@pytest_asyncio.fixture(autouse=True)
async def _no_faults_left(control: Control) -> AsyncIterator[None]:
    yield
    await control.clear_faults()


async def test_a_chat_is_completed(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="echo", messages=HELLO, temperature=0, seed=1)
    assert answer.choices[0].message.content == "hello big world"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "echo"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 3, 8)


def test_the_synchronous_client_completes_a_chat(organization: Organization, inference_url: str) -> None:
    with OpenAI(base_url=inference_url + "/v1", api_key=organization.api_key) as client:
        answer = client.chat.completions.create(model="chat-only", messages=HELLO, max_completion_tokens=2)
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("hello big", "length")
        pieces = client.chat.completions.create(model="echo", messages=HELLO, stream=True)
        assert [chunk.choices[0].delta.content for chunk in pieces] == ["", "hello", " big", " world", None]


async def test_a_chat_is_streamed_with_its_usage(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="echo", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == "hello big world"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 8
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


async def test_the_stream_helper_puts_an_answer_together(client: AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="tools", messages=HELLO, tools=[TOOL]) as stream:
        seen = [event.type async for event in stream]
        whole = await stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in seen
    assert whole.choices[0].message.tool_calls
    (call,) = whole.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"round": 1})


async def test_tools_go_round_until_one_says_done(client: AsyncOpenAI) -> None:
    messages = list(HELLO)
    for number in range(1, 4):
        turn = await client.chat.completions.create(model="tools", messages=messages, tools=[TOOL])
        assert turn.choices[0].finish_reason == "tool_calls"
        assert turn.choices[0].message.tool_calls
        (call,) = turn.choices[0].message.tool_calls
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"round": number}
        result = "done" if number == 3 else "more"
        messages.append(turn.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    last = await client.chat.completions.create(model="tools", messages=messages, tools=[TOOL])
    assert (last.choices[0].message.content, last.choices[0].finish_reason) == ("done", "stop")


async def test_models_are_listed_with_what_they_support(client: AsyncOpenAI) -> None:
    models = {model.id: model async for model in client.models.list()}
    assert models["echo"].owned_by == "relay"
    assert (models["messages-only"].model_extra or {})["supported_apis"] == ["messages"]
    assert (await client.models.retrieve("tools")).id == "tools"
    with pytest.raises(openai.NotFoundError) as refused:
        await client.models.retrieve("nothing")
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("model", "error", "code"),
    [
        ("messages-only", openai.BadRequestError, "unsupported_api"),
        ("nothing", openai.NotFoundError, "model_not_found"),
        ("refuse", openai.UnprocessableEntityError, None),
        ("busy", openai.RateLimitError, "rate_limit_error"),
        ("down", openai.InternalServerError, "upstream_error"),
        ("full", openai.InternalServerError, "upstream_unavailable"),
        ("", openai.BadRequestError, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_become_its_exceptions(
    client: AsyncOpenAI, model: str, error: type[openai.APIStatusError], code: str | None, *, stream: bool
) -> None:
    with pytest.raises(error) as refused:
        await client.chat.completions.create(model=model, messages=HELLO, stream=stream)
    assert refused.value.code == code
    assert refused.value.type


async def test_a_wrong_key_and_a_missing_scope_become_its_exceptions(client: AsyncOpenAI, control: Control) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        await client.with_options(api_key="or_wrong").models.list()
    assert (refused.value.type, refused.value.code) == ("authentication_error", "invalid_api_key")
    narrow = await control.create_organization("narrow", scopes=["vms:read"])
    with pytest.raises(openai.PermissionDeniedError) as denied:
        await client.with_options(api_key=narrow.api_key).models.list()
    assert denied.value.code == "insufficient_scope"


async def test_an_account_without_funds_or_standing_becomes_its_exceptions(
    client: AsyncOpenAI, control: Control, organization: Organization
) -> None:
    await control.change_organization(organization.id, balanceCents=-1)
    with pytest.raises(openai.APIStatusError) as poor:
        await client.chat.completions.create(model="echo", messages=HELLO)
    assert (poor.value.status_code, poor.value.type, poor.value.code) == (
        402,
        "insufficient_quota",
        "insufficient_balance",
    )
    await control.change_organization(organization.id, balanceCents=1, suspended="review")
    with pytest.raises(openai.PermissionDeniedError) as denied:
        await client.chat.completions.create(model="echo", messages=HELLO)
    assert denied.value.code == "account_unavailable"


async def test_a_body_that_is_too_large_becomes_its_exception(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        await client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "x" * 11 * 1024 * 1024}]
        )
    assert (refused.value.status_code, refused.value.code) == (413, "payload_too_large")


async def test_a_stream_that_is_cut_raises_in_the_middle(client: AsyncOpenAI, control: Control) -> None:
    await control.fault(CHAT, {"cutStreamAfter": 2}, count=1)
    stream = await client.chat.completions.create(model="echo", messages=HELLO, stream=True)
    for expected in ("", "hello", " big"):
        assert (await anext(stream)).choices[0].delta.content == expected
    with pytest.raises(openai.APIError) as cut:
        await anext(stream)
    assert cut.value.code == "upstream_error"


async def test_it_retries_what_is_transient(client: AsyncOpenAI, control: Control) -> None:
    await control.fault(CHAT, {"status": 503, "headers": {"retry-after-ms": "1"}}, count=2)
    answer = await client.with_options(max_retries=2).chat.completions.create(model="echo", messages=HELLO)
    assert answer.choices[0].message.content == "hello big world"

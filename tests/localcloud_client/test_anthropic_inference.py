"""The `anthropic` client from PyPI, unchanged, against the local cloud: messages, streams, tools, models, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.localcloud import Control, Organization

HELLO: Any = [{"role": "user", "content": "hello big world"}]
TOOL: Any = {"name": "look", "input_schema": {"type": "object"}}
MESSAGES = "POST /v1/messages"


@pytest_asyncio.fixture
async def client(organization: Organization, inference_url: str) -> AsyncIterator[AsyncAnthropic]:
    """The client with the organization's key, which asks once."""
    async with AsyncAnthropic(base_url=inference_url, api_key=organization.api_key, max_retries=0) as made:
        yield made


@pytest_asyncio.fixture(autouse=True)
async def _no_faults_left(control: Control) -> AsyncIterator[None]:
    yield
    await control.clear_faults()


async def test_a_message_is_answered(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(model="echo", max_tokens=100, messages=HELLO, system="be brief")
    (block,) = answer.content
    assert block.type == "text"
    assert block.text == "hello big world"
    assert (answer.stop_reason, answer.role, answer.model) == ("end_turn", "assistant", "echo")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (5, 3)


def test_the_synchronous_client_is_answered(organization: Organization, inference_url: str) -> None:
    with Anthropic(base_url=inference_url, api_key=organization.api_key) as client:
        answer = client.messages.create(model="messages-only", max_tokens=1, messages=HELLO)
        assert answer.stop_reason == "max_tokens"
        with client.messages.stream(model="echo", max_tokens=9, messages=HELLO) as stream:
            assert list(stream.text_stream) == ["hello", " big", " world"]


async def test_a_bearer_token_does_as_well(organization: Organization, inference_url: str) -> None:
    async with AsyncAnthropic(base_url=inference_url, auth_token=organization.api_key) as client:
        assert (await client.messages.create(model="echo", max_tokens=1, messages=HELLO)).id


async def test_a_message_is_streamed_event_by_event(client: AsyncAnthropic) -> None:
    stream = await client.messages.create(model="echo", max_tokens=2, messages=HELLO, stream=True)
    types = [event.type async for event in stream]
    assert types == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_the_stream_helper_puts_a_message_together(client: AsyncAnthropic) -> None:
    async with client.messages.stream(model="echo", max_tokens=9, messages=HELLO, stop_sequences=[" world"]) as stream:
        whole = await stream.get_final_message()
    (block,) = whole.content
    assert block.type == "text"
    assert block.text == "hello big"
    assert (whole.stop_reason, whole.stop_sequence) == ("stop_sequence", " world")
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (3, 2)


async def test_tool_use_and_results_are_accepted(client: AsyncAnthropic) -> None:
    messages: Any = [
        *HELLO,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "tu_1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tu_1", "content": "it is there"}]},
    ]
    answer = await client.messages.create(model="echo", max_tokens=9, messages=messages, tools=[TOOL])
    (block,) = answer.content
    assert block.type == "text"
    assert block.text == "it is there"


async def test_models_are_listed(client: AsyncAnthropic) -> None:
    models = {model.id: model async for model in client.models.list()}
    assert models["messages-only"].type == "model"
    assert models["messages-only"].created_at.year == 2026
    assert (models["tools"].model_extra or {})["supported_apis"] == ["chat_completions"]
    assert (await client.models.retrieve("echo")).display_name == "echo"


@pytest.mark.parametrize(
    ("model", "error", "kind", "code"),
    [
        ("chat-only", anthropic.BadRequestError, "invalid_request_error", "unsupported_api"),
        ("nothing", anthropic.NotFoundError, "not_found_error", "model_not_found"),
        ("refuse", anthropic.UnprocessableEntityError, "invalid_request_error", None),
        ("busy", anthropic.RateLimitError, "rate_limit_error", "rate_limit_error"),
        ("down", anthropic.InternalServerError, "api_error", "upstream_error"),
        ("full", anthropic.InternalServerError, "api_error", "upstream_unavailable"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_become_its_exceptions(
    client: AsyncAnthropic,
    model: str,
    error: type[anthropic.APIStatusError],
    kind: str,
    code: str | None,
    *,
    stream: bool,
) -> None:
    with pytest.raises(error) as refused:
        await client.messages.create(model=model, max_tokens=9, messages=HELLO, stream=stream)
    assert refused.value.type == kind
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["error"]["code"] == code


async def test_keys_scopes_funds_and_standing_become_its_exceptions(
    client: AsyncAnthropic, control: Control, organization: Organization
) -> None:
    async def ask(key: str) -> object:
        return await client.with_options(api_key=key).messages.create(model="echo", max_tokens=1, messages=HELLO)

    with pytest.raises(anthropic.AuthenticationError, match="invalid_api_key"):
        await ask("or_wrong")
    narrow = await control.create_organization("narrow", scopes=["vms:read"])
    with pytest.raises(anthropic.PermissionDeniedError, match="insufficient_scope"):
        await ask(narrow.api_key)
    await control.change_organization(organization.id, balanceCents=-1)
    with pytest.raises(anthropic.APIStatusError, match="insufficient_balance") as poor:
        await ask(organization.api_key)
    assert poor.value.status_code == 402
    await control.change_organization(organization.id, balanceCents=1, suspended=True)
    with pytest.raises(anthropic.PermissionDeniedError, match="account_suspended"):
        await ask(organization.api_key)


async def test_a_body_that_is_too_large_becomes_its_exception(client: AsyncAnthropic) -> None:
    large: Any = [{"role": "user", "content": "x" * 11 * 1024 * 1024}]
    with pytest.raises(anthropic.APIStatusError, match="payload_too_large") as refused:
        await client.messages.create(model="echo", max_tokens=1, messages=large)
    assert refused.value.status_code == 413


async def test_a_stream_that_is_cut_raises_in_the_middle(client: AsyncAnthropic, control: Control) -> None:
    await control.fault(MESSAGES, {"cutStreamAfter": 1}, count=1)
    stream = await client.messages.create(model="echo", max_tokens=9, messages=HELLO, stream=True)
    for expected in ("message_start", "content_block_start", "content_block_delta"):
        assert (await anext(stream)).type == expected
    with pytest.raises(anthropic.APIStatusError, match="upstream_error"):
        await anext(stream)


async def test_system_messages_may_stand_among_the_others(client: AsyncAnthropic) -> None:
    messages: Any = [*HELLO, {"role": "system", "content": "be brief"}]
    answer = await client.messages.create(model="echo", max_tokens=9, messages=messages)
    assert answer.usage.input_tokens == 5


async def test_it_retries_what_is_transient(client: AsyncAnthropic, control: Control) -> None:
    await control.fault(MESSAGES, {"status": 429, "headers": {"retry-after-ms": "1"}}, count=2)
    answer = await client.with_options(max_retries=2).messages.create(model="echo", max_tokens=9, messages=HELLO)
    assert answer.stop_reason == "end_turn"

"""Whose models answer whom: an organization's own answer it alone, an administrator's answer everybody."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.localcloud.support.batches import record, run
from tests.localcloud.support.deployments import BACKENDS, answered_by, own_model, running, upstream
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, message, ok, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.modelserver import ModelServer
    from tests.localcloud.support.server import Organization

IMAGE = {"engineImage": "engine:1", "backendWeight": 1, "nativeFamilies": ["chat_completions", "messages"]}
WHO = {"x-relay-deployment", "x-relay-replica"}


@asynccontextmanager
async def engine(organization: Organization, **more: Any) -> AsyncIterator[ModelServer]:
    """What runs in an organization's replicas behind `echo`."""
    async with upstream(organization, "engine:1", **more) as behind:
        await running(organization, **IMAGE)
        yield behind


@pytest_asyncio.fixture
async def administrator(organization: Organization) -> AsyncIterator[Organization]:
    """The platform's organization."""
    path = f"/orgs/{organization.id}"
    shown = await organization.server.ok("PATCH", path, {"administrator": True})
    assert shown["administrator"] is True
    yield organization
    await organization.server.ok("PATCH", path, {"administrator": False})


async def test_a_deployment_of_a_built_in_model_reads_and_answers_nobody_elses_requests(
    organization: Organization, other: Organization
) -> None:
    async with engine(organization) as theirs:
        answer = await ok(other, "POST", CHAT, chat("a secret"))
        assert answer["choices"][0]["message"]["content"] == "a secret"
        answer = await ok(other, "POST", MESSAGES, message("a secret"))
        assert answer["content"][0]["text"] == "a secret"
        assert (await call(other, "POST", CHAT, chat("a secret", stream=True))).status == 200
        batch = await run(other, [record("one", "a secret")])
        assert batch["request_counts"]["completed"] == 1
        assert theirs.received == []
        answer = await ok(organization, "POST", CHAT, chat("mine"))
        assert answer["choices"][0]["message"]["content"] == "from afar"


async def test_a_deployment_of_a_built_in_model_gives_it_no_family_for_others(
    organization: Organization, other: Organization
) -> None:
    model = {"publicModelId": "chat-only", "servedModelId": "chat-only"}
    await running(organization, **model, nativeFamilies=["messages"], backendWeight=1)
    assert (await ok(other, "GET", "/v1/models/chat-only"))["supported_apis"] == ["chat_completions"]
    answer = await call(other, "POST", MESSAGES, message("x", "chat-only"))
    assert refusal(answer, MESSAGES) == (400, "invalid_request_error", "unsupported_api")


async def test_an_administrators_deployment_answers_everybody_who_has_none_and_says_not_which_it_is(
    administrator: Organization, other: Organization
) -> None:
    async with engine(administrator) as platforms:
        answer = await call(administrator, "POST", CHAT, chat("hello"))
        assert answer.headers.keys() >= WHO
        for stream in (False, True):
            answer = await call(other, "POST", CHAT, chat("hello", stream=stream))
            assert not answer.headers.keys() & WHO
        assert len(platforms.received) == 3
        assert (await administrator.ok("GET", "/v1/orgs/{org}/billing/usage"))["burnPerHourCents"] == 249
        assert (await other.ok("GET", "/v1/orgs/{org}/billing/usage"))["burnPerHourCents"] == 0
        own = await running(other, backendWeight=1)
        assert await answered_by(other) == own
        assert len(platforms.received) == 3


async def test_an_administrators_server_makes_a_model_for_everybody_who_has_no_such_model(
    administrator: Organization, other: Organization
) -> None:
    async with upstream(administrator, "unused") as platforms:
        body = {
            "provider": "openai_compatible",
            "ref": "ours",
            "endpoint": platforms.url,
            "nativeFamilies": ["chat_completions"],
        }
        await administrator.ok("POST", BACKENDS.format(model="ours"), body)
        assert (await ok(other, "GET", "/v1/models"))["last_id"] == "ours"
        assert (await call(other, "POST", CHAT, chat("x", "ours"))).status == 200
        assert (await other.call("GET", BACKENDS.format(model="ours"))).refusal == (404, "not_found")
        await own_model(other, "ours")
        assert (await call(other, "POST", CHAT, chat("x", "ours"))).status == 502
        assert len(platforms.received) == 1


async def test_who_is_no_administrator_any_more_answers_nobody_else(
    administrator: Organization, other: Organization
) -> None:
    async with engine(administrator) as platforms:
        await administrator.server.ok("PATCH", f"/orgs/{administrator.id}", {"administrator": False})
        assert (await call(other, "POST", CHAT, chat("x"))).status == 200
        assert platforms.received == []


@pytest.mark.parametrize("role", ["owner", "admin"])
async def test_nobody_makes_an_administrator_but_control(organization: Organization, role: str) -> None:
    session = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": role})
    for key in (session["userSessionToken"], organization.api_key):
        await organization.call("PATCH", "/v1/orgs/{org}", {"administrator": True}, key=key)
    assert (await organization.server.ok("PATCH", f"/orgs/{organization.id}", {}))["administrator"] is False


async def test_what_a_platforms_server_says_that_it_took_costs_no_more_than_it_can_have(
    administrator: Organization, other: Organization
) -> None:
    body = b'{"choices": [], "usage": {"prompt_tokens": 687194767360, "completion_tokens": 687194767360}}'
    async with engine(administrator, body=body):
        await ok(other, "POST", CHAT, chat("three small words"))
    assert (await balance(other))["balanceCents"] == 100_000

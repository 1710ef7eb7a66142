"""What an organization can still pay bounds what its models are asked: the most that an answer can cost is reserved."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, message, ok, refusal
from tests.localcloud.support.modelserver import ModelServer, completion
from tests.localcloud.support.workloads import set_organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Organization

A_CENT = 100_000
LONGEST_ANSWER = 131_072
"""Tokens of a choice that are paid at most."""

NO_FUNDS = (402, "insufficient_quota", "insufficient_balance")


def costs(tokens: int, path: str = CHAT, **more: Any) -> dict[str, Any]:
    """A request to a built-in model that costs so many tokens."""
    return (chat if path == CHAT else message)("w " * (tokens - 1), max_tokens=1, **more)


@asynccontextmanager
async def behind(organization: Organization, **more: Any) -> AsyncIterator[ModelServer]:
    """A server behind the model `mine`."""
    async with ModelServer(**more) as server:
        families = ["chat_completions", "messages"]
        body = {"provider": "openai_compatible", "ref": "mine", "endpoint": server.url, "nativeFamilies": families}
        await organization.ok("POST", BACKENDS.format(model="mine"), body)
        yield server


async def asked_bytes(organization: Organization, body: dict[str, Any]) -> int:
    """How large this is as its server gets it."""
    async with behind(organization) as server:
        await ok(organization, "POST", CHAT, body)
        return int(server.received[0][0]["content-length"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize(("tokens", "paid"), [(A_CENT - 2, True), (A_CENT - 1, True), (A_CENT, False)])
async def test_a_built_in_model_answers_what_can_be_paid(
    organization: Organization, path: str, tokens: int, *, stream: bool, paid: bool
) -> None:
    """At the floor the rest of a cent that is not debited yet is all there is."""
    await set_organization(organization, balanceCents=0)
    answer = await call(organization, "POST", path, costs(tokens, path, stream=stream))
    assert answer.status == 200 if paid else refusal(answer, path) == NO_FUNDS
    assert (await balance(organization))["balanceCents"] == 0


async def test_what_is_carried_counts(organization: Organization) -> None:
    await set_organization(organization, balanceCents=2)
    await ok(organization, "POST", CHAT, costs(A_CENT // 2))
    assert refusal(await call(organization, "POST", CHAT, costs(5 * A_CENT // 2))) == NO_FUNDS
    await ok(organization, "POST", CHAT, costs(5 * A_CENT // 2 - 1))
    assert (await balance(organization))["balanceCents"] == 0
    assert refusal(await call(organization, "POST", CHAT, costs(2))) == NO_FUNDS


@pytest.mark.parametrize("floor", ["organization", "setting"])
async def test_the_floor_may_be_a_debt(organization: Organization, floor: str) -> None:
    server = organization.server
    await set_organization(organization, balanceCents=0)
    if floor == "setting":
        await server.ok("PATCH", "/settings", {"inferenceFloorCents": -2})
    else:
        await set_organization(organization, autoStopFloorCents=-2)
    try:
        assert refusal(await call(organization, "POST", CHAT, costs(3 * A_CENT))) == NO_FUNDS
        await ok(organization, "POST", CHAT, costs(3 * A_CENT - 1))
    finally:
        await server.ok("PATCH", "/settings", {"inferenceFloorCents": None})
    assert (await balance(organization))["balanceCents"] == -2


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"max_tokens": 70_000}, 70_000),
        ({"max_tokens": 30_000, "n": 2}, 60_000),
        ({}, LONGEST_ANSWER),
        ({"max_tokens": LONGEST_ANSWER}, LONGEST_ANSWER),
        ({"max_tokens": 10**9}, LONGEST_ANSWER),
    ],
)
async def test_a_server_is_asked_if_its_longest_answer_can_be_paid(
    organization: Organization, limits: dict[str, int], most: int
) -> None:
    body = chat("hello", "mine", **limits)
    most += await asked_bytes(organization, body)
    fresh = await organization.server.organization(balanceCents=1)
    async with behind(fresh) as server:
        await ok(fresh, "POST", CHAT, costs(2 * A_CENT - most))
        assert refusal(await call(fresh, "POST", CHAT, body)) == NO_FUNDS
        assert server.received == []
    fresh = await organization.server.organization(balanceCents=1)
    async with behind(fresh) as server:
        await ok(fresh, "POST", CHAT, costs(2 * A_CENT - most - 1))
        await ok(fresh, "POST", CHAT, body)
        assert len(server.received) == 1


async def test_no_choice_of_an_answer_is_charged_for_more_than_the_longest(organization: Organization) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": LONGEST_ANSWER + 1}
    long = completion(usage=usage)
    long["choices"][0]["message"]["content"] = "w " * LONGEST_ANSWER
    async with behind(organization, body=json.dumps(long).encode()):
        await ok(organization, "POST", CHAT, chat("hello", "mine"))
    used = await organization.ok("GET", "/v1/orgs/{org}/ai/proxy-usage?days=1")
    assert used["totals"]["outputTokens"] == LONGEST_ANSWER


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_being_answered_is_reserved_until_it_is_charged(
    organization: Organization, *, stream: bool
) -> None:
    await set_organization(organization, balanceCents=1)
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "slow"}, "finish_reason": null}]}\n\n'
    body = chat("hello", "mine", max_tokens=120_000, stream=stream)
    async with behind(organization, body=chunk if stream else None, hang=asyncio.Event()) as server:
        first = asyncio.create_task(call(organization, "POST", CHAT, body))
        await server.arrived.wait()
        assert refusal(await call(organization, "POST", CHAT, body)) == NO_FUNDS
        assert refusal(await call(organization, "POST", CHAT, costs(80_000))) == NO_FUNDS
        await ok(organization, "POST", CHAT, costs(10))
        assert server.hang is not None
        server.hang.set()
        assert (await first).status == 200
        server.body = None

        async def again() -> int:
            return (await call(organization, "POST", CHAT, chat("hello", "mine", max_tokens=120_000))).status

        await eventually(again, lambda status: status == 200, what="the end of the reservation")


@pytest.mark.parametrize("stream", [False, True])
async def test_who_leaves_sets_free_what_was_reserved(organization: Organization, *, stream: bool) -> None:
    await set_organization(organization, balanceCents=1)
    body = chat("hello", "mine", max_tokens=120_000, stream=stream)
    async with behind(organization, body=b"data: {}\n\n" if stream else None, hang=asyncio.Event()) as server:
        leaving = asyncio.create_task(call(organization, "POST", CHAT, body))
        await server.arrived.wait()
        leaving.cancel()
        server.body, server.hang = None, None

        async def again() -> int:
            return (await call(organization, "POST", CHAT, {**body, "stream": False})).status

        await eventually(again, lambda status: status == 200, what="the reservation of the client that went away")


async def test_a_server_that_fails_sets_free_what_was_reserved(organization: Organization) -> None:
    await set_organization(organization, balanceCents=1)
    body = chat("hello", "mine", max_tokens=120_000)
    async with behind(organization, status=500) as server:
        assert (await call(organization, "POST", CHAT, body)).status == 502
        server.status = 200
        await ok(organization, "POST", CHAT, body)


async def test_one_organization_reserves_nothing_of_another(organization: Organization) -> None:
    other = await organization.server.organization(balanceCents=1)
    await set_organization(organization, balanceCents=1)
    async with behind(organization, hang=asyncio.Event()) as server:
        asking = asyncio.create_task(call(organization, "POST", CHAT, chat("hello", "mine", max_tokens=120_000)))
        await server.arrived.wait()
        await ok(other, "POST", CHAT, costs(2 * A_CENT - 1))
        asking.cancel()


async def test_funds_that_went_while_it_was_answered_are_charged_all_the_same(organization: Organization) -> None:
    async with behind(organization, hang=asyncio.Event()) as server:
        asking = asyncio.create_task(call(organization, "POST", CHAT, chat("hello", "mine")))
        await server.arrived.wait()
        await set_organization(organization, balanceCents=-5)
        assert server.hang is not None
        server.hang.set()
        assert (await asking).status == 200
    used = await organization.ok("GET", "/v1/orgs/{org}/ai/proxy-usage?days=1")
    assert used["totals"]["requests"] == 1

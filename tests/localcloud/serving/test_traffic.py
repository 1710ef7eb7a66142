"""Requests are really routed by deployments: weights, standby, prompt sizes, isolation, caps, drains."""

from __future__ import annotations

import pytest

from tests.localcloud.support.deployments import (
    BACKENDS,
    answered_by,
    change,
    delete,
    get,
    own_model,
    running,
)
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, events, message, ok, refusal
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import happens

BOTH = ["chat_completions", "messages"]
JOIN = {"acknowledgeLaneJoin": True}


async def test_a_deployment_with_weight_takes_the_models_requests(organization: Organization) -> None:
    assert await answered_by(organization) is None
    deployment = await running(organization, backendWeight=1)
    answer = await call(organization, "POST", CHAT, chat("hello big world"))
    assert answer.body["choices"][0]["message"]["content"] == "hello big world"
    assert answer.headers["x-relay-deployment"] == deployment
    (replica,) = (await get(organization, deployment))["replicas"]
    assert answer.headers["x-relay-replica"] == replica["id"]


async def test_a_deployment_of_a_model_of_ones_own_serves_its_organization_alone(
    organization: Organization, other: Organization
) -> None:
    backend = await own_model(organization)
    deployment = await running(organization, publicModelId="own", servedModelId="own", backendWeight=1)
    await organization.call("DELETE", backend)
    assert await answered_by(organization, model="own") == deployment
    answer = await call(other, "POST", CHAT, chat("x", "own"))
    assert refusal(answer) == (404, "not_found_error", "model_not_found")


async def test_it_takes_nothing_before_a_replica_is_healthy(organization: Organization) -> None:
    deployment = await running(organization, backendWeight=1)
    await happens(organization, deployment, "unhealthy")
    assert await answered_by(organization) is None
    await happens(organization, deployment, "healthy")
    assert await answered_by(organization) == deployment


async def test_streams_say_who_answered_too(organization: Organization) -> None:
    deployment = await running(organization, backendWeight=1, nativeFamilies=BOTH)
    for path, body in ((CHAT, chat("a b", stream=True)), (MESSAGES, message("a b", stream=True))):
        answer = await call(organization, "POST", path, body)
        assert answer.headers["x-relay-deployment"] == deployment
        assert "error" not in str(events(answer.raw))


async def test_requests_are_charged_as_ever(organization: Organization) -> None:
    await running(organization, backendWeight=1)
    before = (await balance(organization))["balanceCents"]
    await ok(organization, "POST", CHAT, chat("w " * 100_000, max_tokens=1))
    assert (await balance(organization))["balanceCents"] == before - 1


async def test_only_its_families_reach_a_deployment(organization: Organization) -> None:
    deployment = await running(organization, backendWeight=1, nativeFamilies=["messages"])
    answer = await call(organization, "POST", MESSAGES, message("x"))
    assert answer.headers["x-relay-deployment"] == deployment
    assert await answered_by(organization) is None


async def test_weights_share_the_requests_between_deployments(organization: Organization) -> None:
    heavy = await running(organization, backendWeight=3, gpuModelId="rtx4090")
    light = await running(organization, backendWeight=1, gpuModelId="rtx4090", **JOIN)
    answered = [await answered_by(organization) for _ in range(120)]
    assert set(answered) == {heavy, light}
    assert answered.count(heavy) > answered.count(light)


async def test_a_change_of_weight_counts_from_the_next_request(organization: Organization) -> None:
    one = await running(organization, backendWeight=1)
    two = await running(organization, **JOIN)
    assert {await answered_by(organization) for _ in range(10)} == {one}
    await change(organization, two, backendWeight=5)
    await change(organization, one, backendWeight=0)
    assert {await answered_by(organization) for _ in range(10)} == {two}
    await change(organization, two, backendWeight=0)
    assert await answered_by(organization) is None


async def test_standby_takes_nothing_while_there_is_something_else(organization: Organization) -> None:
    await running(organization)
    assert await answered_by(organization) is None


async def test_standby_takes_what_has_nothing_else(organization: Organization) -> None:
    backend = await own_model(organization)
    standby = await running(organization, publicModelId="own", servedModelId="own")
    await organization.call("DELETE", backend)
    assert await answered_by(organization, model="own") == standby


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_bounds_are_of_the_bytes_of_the_prompt_floor_in_ceiling_out(
    organization: Organization, path: str
) -> None:
    bounds = {"minPromptBytes": 10, "maxPromptBytes": 20}
    deployment = await running(organization, backendWeight=1, nativeFamilies=BOTH, **bounds)
    for content, taken in (("é" * 4 + "x", False), ("é" * 5, True), ("x" * 19, True), ("é" * 10, False)):
        body = chat(content) if path == CHAT else message(content)
        answer = await call(organization, "POST", path, body)
        assert answer.headers.get("x-relay-deployment") == (deployment if taken else None), content


async def test_every_message_and_the_system_prompt_count_and_nothing_else_does(organization: Organization) -> None:
    bounds = {"minPromptBytes": 9, "maxPromptBytes": 10}
    deployment = await running(organization, backendWeight=1, nativeFamilies=BOTH, **bounds)
    said = [{"role": "system", "content": "123"}, {"role": "user", "content": [{"type": "text", "text": "456789"}]}]
    tool = {"type": "function", "function": {"name": "a-name-that-does-not-count"}}
    answer = await call(organization, "POST", CHAT, {"model": "echo", "messages": said, "tools": [tool]})
    assert answer.headers["x-relay-deployment"] == deployment
    answer = await call(organization, "POST", MESSAGES, message("456789", system="123"))
    assert answer.headers["x-relay-deployment"] == deployment
    lines = [{"type": "text", "text": "1234"}, {"type": "text", "text": "6789"}]
    answer = await call(organization, "POST", CHAT, chat(lines))
    assert answer.headers["x-relay-deployment"] == deployment


async def test_ranges_part_the_requests(organization: Organization) -> None:
    short = await running(organization, backendWeight=1, maxPromptBytes=100)
    long = await running(organization, backendWeight=1, minPromptBytes=100)
    assert [await answered_by(organization, "x" * size) for size in (1, 99, 100, 5000)] == [short, short, long, long]


async def test_an_isolated_deployment_is_never_reached_and_never_published(organization: Organization) -> None:
    isolated = await running(organization, isolated=True)
    published = await running(organization)
    assert await answered_by(organization) is None
    items = (await organization.ok("GET", BACKENDS.format(model="echo")))["items"]
    assert [item["id"] for item in items] == ["bke_echo", published]
    answer = await organization.call("GET", f"{BACKENDS.format(model='echo')}/{isolated}")
    assert answer.refusal == (404, "not_found")


async def test_a_published_deployment_is_a_backend_of_its_model(organization: Organization) -> None:
    made = await running(organization, backendWeight=2, replicasDesired=2, maxConcurrencyPerReplica=3)
    path = f"{BACKENDS.format(model='echo')}/{made}"
    shown = await organization.ok("GET", path)
    assert shown.pop("createdAt")
    assert shown == {
        "id": made,
        "modelId": "echo",
        "provider": "openai_compatible",
        "ref": "echo",
        "endpoint": f"local://{made}",
        "nativeFamilies": ["chat_completions"],
        "auth": "none",
        "transport": "direct",
        "weight": 2,
        "maxConcurrency": 6,
    }
    assert (await organization.call("DELETE", path)).refusal == (409, "conflict")
    await delete(organization, made)
    assert (await organization.call("GET", path)).refusal == (404, "not_found")


async def test_a_model_serves_the_families_of_its_deployments(organization: Organization) -> None:
    model = {"publicModelId": "chat-only", "servedModelId": "chat-only"}
    assert (await ok(organization, "GET", "/v1/models/chat-only"))["supported_apis"] == ["chat_completions"]
    await running(organization, **model, nativeFamilies=["messages"], backendWeight=1)
    assert (await ok(organization, "GET", "/v1/models/chat-only"))["supported_apis"] == BOTH
    assert (await call(organization, "POST", MESSAGES, message("x", "chat-only"))).status == 200

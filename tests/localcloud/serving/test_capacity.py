"""What a replica answers with, how many requests it takes at once, and where the others go."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.localcloud.support.deployments import (
    BACKENDS,
    answered_by,
    delete,
    own_model,
    running,
    upstream,
)
from tests.localcloud.support.inference import CHAT, call, chat, ok, refusal
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import Organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BOTH = ["chat_completions", "messages"]
JOIN = {"acknowledgeLaneJoin": True}


async def test_the_upstream_of_the_engine_image_answers_for_the_served_model(organization: Organization) -> None:
    body = {"provider": "vertex", "ref": "echo-8b", "endpoint": "https://m.example/v1", "nativeFamilies": BOTH}
    await organization.ok("POST", BACKENDS.format(model="echo"), body)
    async with upstream(organization, "engine:1") as behind:
        more = {"servedModelId": "echo-8b", "engineImage": "engine:1", "backendWeight": 1}
        deployment = await running(organization, **more)
        answer = await call(organization, "POST", CHAT, chat("x", top_k=4))
        assert answer.body["choices"][0]["message"]["content"] == "from afar"
        assert (answer.body["model"], answer.headers["x-relay-deployment"]) == ("echo", deployment)
        ((headers, sent),) = behind.received
        assert (sent["model"], sent["top_k"]) == ("echo-8b", 4)
        assert "authorization" not in headers
    assert (await ok(organization, "POST", CHAT, chat("near")))["choices"][0]["message"]["content"] == "near"


async def test_replicas_take_turns_up_to_their_caps_then_standby_then_the_engine(organization: Organization) -> None:
    cap = {"maxConcurrencyPerReplica": 1, "engineImage": "slow:1"}
    async with upstream(organization, "slow:1", hang=asyncio.Event()) as behind:
        main = await running(organization, backendWeight=1, replicasDesired=2, **cap)
        standby = await running(organization, **cap, **JOIN)
        async with AsyncExitStack() as stack:
            assert behind.hang is not None
            stack.callback(behind.hang.set)
            waiting = []
            for number in range(3):
                waiting.append(asyncio.create_task(call(organization, "POST", CHAT, chat("x"))))
                await eventually(_received(behind), _more_than(number), what="the request")
            assert await answered_by(organization) is None
        answers = await asyncio.gather(*waiting)
        assert [answer.headers["x-relay-deployment"] for answer in answers] == [main, main, standby]
        assert len({answer.headers["x-relay-replica"] for answer in answers}) == 3


async def test_all_capacity_of_a_model_in_use_is_503(organization: Organization) -> None:
    backend = await own_model(organization)
    async with upstream(organization, "slow:2", hang=asyncio.Event()) as behind:
        model = {"publicModelId": "own", "servedModelId": "own", "engineImage": "slow:2"}
        await running(organization, backendWeight=1, maxConcurrencyPerReplica=1, **model)
        await organization.call("DELETE", backend)
        first = asyncio.create_task(call(organization, "POST", CHAT, chat("x", "own")))
        await behind.arrived.wait()
        for stream in (False, True):
            answer = await call(organization, "POST", CHAT, chat("x", "own", stream=stream))
            assert refusal(answer) == (503, "api_error", "upstream_unavailable")
        assert behind.hang is not None
        behind.hang.set()
        assert (await first).status == 200
        assert (await call(organization, "POST", CHAT, chat("x", "own"))).status == 200


async def test_a_prompt_outside_every_range_is_503_where_nothing_else_serves(organization: Organization) -> None:
    backend = await own_model(organization)
    await running(organization, publicModelId="own", servedModelId="own", backendWeight=1, maxPromptBytes=3)
    await organization.call("DELETE", backend)
    assert (await call(organization, "POST", CHAT, chat("xx", "own"))).status == 200
    answer = await call(organization, "POST", CHAT, chat("xxx", "own"))
    assert refusal(answer) == (503, "api_error", "upstream_unavailable")


async def test_a_draining_deployment_gets_no_new_requests_and_ends_what_is_under_way(
    organization: Organization,
) -> None:
    async with upstream(organization, "slow:3", hang=asyncio.Event()) as behind:
        deployment = await running(organization, backendWeight=1, engineImage="slow:3")
        first = asyncio.create_task(call(organization, "POST", CHAT, chat("x")))
        await behind.arrived.wait()
        await delete(organization, deployment)
        assert await answered_by(organization) is None
        await organization.server.advance(1)
        assert behind.hang is not None
        behind.hang.set()
        answer = await first
        assert (answer.status, answer.headers["x-relay-deployment"]) == (200, deployment)


async def test_a_replica_that_fails_is_502(organization: Organization) -> None:
    async with upstream(organization, "broken:1", status=500):
        await running(organization, backendWeight=1, engineImage="broken:1")
        answer = await call(organization, "POST", CHAT, chat("x"))
        assert refusal(answer) == (502, "api_error", "upstream_error")


def _received(behind: ModelServer) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return len(behind.received)

    return count


def _more_than(number: int) -> Callable[[int], bool]:
    def holds(count: int) -> bool:
        return count > number

    return holds


async def test_records_of_batches_are_routed_too(organization: Organization) -> None:
    async with upstream(organization, "engine:2") as behind:
        await running(organization, backendWeight=1, engineImage="engine:2")
        body = {"model": "echo", "messages": [{"role": "user", "content": "x"}]}
        record = {"custom_id": "1", "method": "POST", "url": CHAT, "body": body}
        asked = {"endpoint": CHAT, "completion_window": "24h", "requests": [record]}
        batch = await ok(organization, "POST", "/v1/batches", asked)
        await organization.server.advance(5)
        done = await ok(organization, "GET", f"/v1/batches/{batch['id']}")
        assert (done["status"], done["request_counts"]["completed"]) == ("completed", 1)
        assert len(behind.received) == 1

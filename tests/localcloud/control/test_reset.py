"""`POST /_localcloud/reset`: everything is as freshly seeded, and what was under way ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.localcloud.support.batches import create as create_batch
from tests.localcloud.support.batches import record as batch_record
from tests.localcloud.support.clusters import running as running_cluster
from tests.localcloud.support.events import create_pod, create_webhook, make_event
from tests.localcloud.support.gateway import Upstream, behind, connection, opening, running, set_upstream
from tests.localcloud.support.inference import CHAT, chat
from tests.localcloud.support.inference import call as ask
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import Answer, request
from tests.localcloud.support.workloads import free_gpus, status
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

FROZEN = ("--ephemeral", "--clock", "frozen")


async def rows(server: Server) -> dict[str, int]:
    """How many rows each table has."""
    return {name: len(kept) for name, kept in (await server.ok("GET", "/export"))["tables"].items()}


async def use_everything(organization: Organization, receiver: Receiver) -> None:
    """Leave something behind in every room of the cloud."""
    server = organization.server
    await create_webhook(organization, receiver)
    await running(organization)
    await make_event(organization)
    await running_cluster(organization)
    await create_batch(organization, [batch_record("a")])
    await set_upstream(server, "app:1", receiver.url)
    await server.ok("POST", "/faults", {"operation": "GET /v1/whoami", "effect": {"status": 503}})
    await server.ok("PATCH", "/settings", {"capacityStatus": 429, "rateLimitPerSecond": 1})
    await server.ok("POST", "/payments", {"mode": "decline"})
    for node in (await server.ok("GET", "/nodes"))["items"]:
        await server.ok("PATCH", f"/nodes/{node['id']}", {"removed": True})
    await server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": -5, "suspended": "review"})
    await server.ok("POST", "/clock", {"mode": "scaled", "rate": 1000, "advanceSeconds": 30 * 86_400})


async def test_everything_is_as_freshly_seeded(start_server: StartServer, receiver: Receiver) -> None:
    server = start_server(*FROZEN)
    seeded = server.seeded()
    fresh, settings, gpus = await rows(server), await server.ok("PATCH", "/settings", {}), await free_gpus(seeded)
    stranger = await server.organization()
    await use_everything(seeded, receiver)
    assert (await seeded.call("GET", "/v1/whoami")).status == 503

    assert (await server.control("POST", "/reset")).status == 204
    assert await rows(server) == fresh
    assert await server.ok("GET", "/requests") == {"items": []}
    assert await server.ok("PATCH", "/settings", {}) == settings
    assert (await server.ok("GET", "/clock"))["mode"] == "frozen"
    assert await free_gpus(seeded) == gpus
    assert (await seeded.ok("GET", "/v1/whoami"))["organizationId"] == seeded.id
    session = seeded.user_session_token
    assert (await seeded.ok("GET", "/v1/orgs/{org}", key=session))["id"] == seeded.id
    assert (await seeded.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"] == 100_000
    assert (await stranger.call("GET", "/v1/whoami")).status == 401
    assert next(item["seq"] for item in (await server.ok("GET", "/requests"))["items"]) == 1


async def test_what_was_announced_works_again_though_it_was_revoked(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    seeded = server.seeded()
    await server.advance(30 * 86_400)
    for key in await seeded.ok("GET", "/v1/orgs/{org}/api-keys"):
        await seeded.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key['id']}")
    assert (await seeded.call("GET", "/v1/whoami")).status == 401
    for _ in range(2):
        await server.ok("POST", "/reset")
        assert (await seeded.ok("GET", "/v1/whoami"))["organizationId"] == seeded.id
        assert (await seeded.call("GET", "/v1/me", key=seeded.user_session_token)).status == 200


async def test_a_state_that_is_kept_starts_again_from_what_was_announced(
    start_server: StartServer, tmp_path: Path
) -> None:
    arguments = ("--state", str(tmp_path), "--clock", "frozen")
    first = start_server(*arguments)
    made = await first.organization()
    assert first.stop() == 0
    second = start_server(*arguments)
    assert second.seeded().id == first.seeded().id
    await second.ok("POST", "/reset")
    assert (await request("GET", second.url + "/v1/whoami", key=made.api_key)).status == 401
    second.kill()
    third = start_server(*arguments)
    assert third.seeded().id == second.seeded().id
    assert third.seeded().api_key == second.seeded().api_key
    assert (await third.seeded().ok("GET", "/v1/whoami"))["organizationId"] == first.seeded().id


async def test_a_seed_is_sown_again(start_server: StartServer, tmp_path: Path) -> None:
    source = start_server(*FROZEN)
    made = await source.organization()
    exported = (await request("GET", source.ready["controlUrl"] + "/export")).raw
    path = tmp_path / "seed.json"
    path.write_bytes(exported)
    server = start_server(*FROZEN, "--seed", str(path))
    fresh = await rows(server)
    later = await server.organization()
    await server.ok("POST", "/reset")
    assert await rows(server) == fresh
    assert (await server.seeded().ok("GET", "/v1/me", key=server.ready["userSessionToken"]))["user"]
    assert (await request("GET", server.url + "/v1/whoami", key=made.api_key)).status == 200
    assert (await request("GET", server.url + "/v1/whoami", key=later.api_key)).status == 401


async def under_way(answering: Coroutine[Any, Any, Answer], begun: asyncio.Event) -> asyncio.Task[Answer]:
    """A request that has got as far as the event says."""
    task = asyncio.create_task(answering)
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    return task


async def test_requests_under_way_end_with_503_on_every_port(start_server: StartServer, receiver: Receiver) -> None:
    server = start_server(*FROZEN)
    organization = await server.organization()
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    for operation in ("GET /v1/orgs/{orgId}", f"POST {CHAT}"):
        await server.ok("POST", "/faults", {"operation": operation, "effect": {"delaySeconds": 3600}})
    came, never = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> Any:
        came.set()
        await never.wait()

    receiver.hang = never
    async with Upstream(hang) as upstream:
        workload = await behind(organization, upstream)
        await create_webhook(organization, receiver)
        await make_event(organization)
        waiting = [
            await under_way(workload.call("GET", "/"), came),
            asyncio.create_task(organization.call("GET", "/v1/orgs/{org}")),
            asyncio.create_task(ask(organization, "POST", CHAT, chat("hello"))),
            asyncio.create_task(server.control("POST", "/clock", {"advanceSeconds": 60})),
        ]

        async def met() -> int:
            faults: list[dict[str, int]] = (await server.ok("GET", "/faults"))["items"]
            return sum(fault["applied"] for fault in faults) + len(receiver.received)

        await eventually(met, lambda count: count == 3)
        await server.ok("POST", "/reset")
        answers = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_SECONDS)
        await asyncio.wait_for(upstream.abandoned.wait(), PATIENCE_SECONDS)
    assert [answer.status for answer in answers] == [503] * 4
    assert [answers[i].refusal for i in (0, 1, 3)] == [(503, "unavailable")] * 3
    assert answers[2].body["error"]["type"] == "api_error"
    assert (await server.ok("GET", "/deliveries")) == {"items": []}
    assert (await server.seeded().call("GET", "/v1/whoami")).status == 200


async def test_answers_that_have_begun_are_cut_and_streams_say_so(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = await server.organization()
    workload = await running(organization, public=True)
    silent = ModelServer(body=b"data: " + b'{"choices":[]}' + b"\n\n", content_type="text/event-stream")
    silent.hang = asyncio.Event()
    async with silent, aiohttp.ClientSession() as session, connection(workload) as (reader, writer):
        backend = {"provider": "openai_compatible", "ref": "far", "endpoint": silent.url, "weight": 1}
        backend |= {"nativeFamilies": ["chat_completions"], "transport": "direct", "auth": "none"}
        await organization.ok("POST", "/v1/inference/models/far/backends", backend)
        handshake = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        writer.write(opening(workload, "GET", "/", *handshake, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        headers = {"Authorization": f"Bearer {organization.api_key}"}
        body = chat("hello", "far", stream=True)
        async with session.post(server.ready["inferenceUrl"] + CHAT, json=body, headers=headers) as streamed:
            assert streamed.status == 200
            await server.ok("POST", "/reset")
            told = await asyncio.wait_for(streamed.read(), PATIENCE_SECONDS)
            assert told.endswith(b"}\n\ndata: [DONE]\n\n")
            assert b"replaced while this was under way" in told
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), PATIENCE_SECONDS)


async def test_nothing_that_was_due_in_a_replaced_state_happens_in_the_other(
    start_server: StartServer, receiver: Receiver
) -> None:
    server = start_server(*FROZEN)
    seeded = server.seeded()
    # A second of the clock below costs hundreds of dollars.
    await server.ok("PATCH", f"/orgs/{seeded.id}", {"balanceCents": 10**9})
    deploying = await create_pod(seeded)
    document = await server.ok("GET", "/export")
    await server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 40, "orgId": seeded.id})
    for turn in range(40):
        await server.ok("PATCH", "/settings", {"placementSeconds": turn * 2000})
        await seeded.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    receiver.hang = asyncio.Event()
    await create_webhook(seeded, receiver)
    busy = await server.ok("GET", "/export")
    for _ in range(8):
        receiver.received.clear()
        await server.ok("POST", "/import", busy)
        # From here on a placement falls due every ten milliseconds, while the other state is put in place too.
        await server.ok("POST", "/clock", {"mode": "scaled", "rate": 200_000})
        await make_event(seeded)
        await eventually(lambda: asyncio.sleep(0, len(receiver.received)), every=0.01)
        await server.ok("POST", "/import", document)
        assert await server.ok("GET", "/export") == document
        assert (await server.ok("GET", "/clock"))["mode"] == "frozen"
    assert await status(seeded, deploying) == "deploying"
    assert server.stop() == 0
    assert "Traceback" not in server.log

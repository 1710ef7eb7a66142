"""Batches beside everything else: models over the network, many at once, and the order of the cloud's clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.batches import batch_of, create, errors, lines, record, run
from tests.localcloud.support.inference import ok
from tests.localcloud.support.modelserver import ModelServer
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization


@pytest.fixture
async def far(organization: Organization) -> AsyncIterator[ModelServer]:
    """A server behind the model `mine`."""
    async with ModelServer() as behind:
        body = {
            "provider": "openai_compatible",
            "ref": "far",
            "endpoint": behind.url,
            "nativeFamilies": ["chat_completions"],
        }
        await organization.ok("POST", "/v1/inference/models/mine/backends", body)
        yield behind


async def test_records_go_to_the_server_behind_their_model(organization: Organization, far: ModelServer) -> None:
    records = [record(str(number), f"prompt {number}", "mine", relay={"anything": 1}) for number in range(5)]
    batch = await run(organization, records)
    assert batch["request_counts"] == {"total": 5, "completed": 5, "failed": 0}
    assert [body["messages"][0]["content"] for _, body in far.received] == [f"prompt {number}" for number in range(5)]
    assert all("relay" not in body for _, body in far.received)
    assert [
        line["response"]["body"]["choices"][0]["message"]["content"] for line in await lines(organization, batch)
    ] == ["from afar"] * 5
    assert batch["usage"] == {"input_tokens": 5, "output_tokens": 5, "cost_nano_usd": 500}


async def test_what_that_server_refuses_fails_the_record_at_once(organization: Organization, far: ModelServer) -> None:
    far.status = 500
    batch = await run(organization, [record("a", model="mine"), record("b", model="mine")])
    assert batch["request_counts"] == {"total": 2, "completed": 0, "failed": 2}
    assert [line["response"]["status_code"] for line in await errors(organization, batch)] == [502, 502]
    assert len(far.received) == 2


async def test_nothing_happens_on_the_clock_before_a_record_that_is_under_way(
    organization: Organization, far: ModelServer
) -> None:
    server = organization.server
    far.hang = asyncio.Event()
    await server.ok("PATCH", "/settings", {"placementSeconds": 5, "startSeconds": 0})
    pod = await organization.ok("POST", "/v1/pods", {"image": "nginx", "gpuModelId": "rtx4090"})
    await create(organization, [record("a", model="mine")])
    moving = asyncio.create_task(server.advance(60))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await far.arrived.wait()
    assert (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["status"] == "deploying"
    far.hang.set()
    await moving
    assert (await organization.ok("GET", f"/v1/vms/{pod['id']}"))["status"] == "running"
    await server.ok("PATCH", "/settings", {"placementSeconds": 1, "startSeconds": 1})


async def test_eighty_batches_at_once_hold_up_no_request(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0})
    records = [record(str(number)) for number in range(50)]
    body = {"requests": records, "endpoint": "/v1/chat/completions"}

    async def counts() -> tuple[list[int], set[tuple[str, int]]]:
        """The records that are done at each answer meanwhile, if this is asked in time, and how the batches end."""
        organization, done = await server.organization(), list[int]()
        batches = [await ok(organization, "POST", "/v1/batches", body) for _ in range(80)]
        moving = asyncio.create_task(server.advance(3))
        while not moving.done():
            shown = (await ok(organization, "GET", "/v1/batches?limit=200"))["data"]
            done.append(sum(batch["request_counts"]["completed"] for batch in shown))
        await moving
        ends = [await batch_of(organization, batch["id"]) for batch in batches]
        return done, {(shown["status"], shown["request_counts"]["completed"]) for shown in ends}

    _, ends = await eventually(counts, lambda seen: any(0 < count < 80 * 50 for count in seen[0]))
    assert ends == {("completed", 50)}


async def test_in_real_time_a_batch_needs_nobody_to_move_the_clock(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "real")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0.01})
    batch = await create(server.seeded(), [record(str(number)) for number in range(20)])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await batch_of(server.seeded(), batch["id"]))["status"] != "completed":
            pass
    shown = await batch_of(server.seeded(), batch["id"])
    assert shown["completed_at"] - shown["created_at"] >= 2


async def test_batches_whose_server_hangs_hold_up_no_other_organization(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    async with ModelServer(hang=asyncio.Event()) as behind:
        body = {"provider": "openai_compatible", "ref": "far", "endpoint": behind.url}
        slow = await server.organization()
        families = {"nativeFamilies": ["chat_completions"]}
        await slow.ok("POST", "/v1/inference/models/mine/backends", {**body, **families})
        for _ in range(100):
            inline = {"requests": [record("a", model="mine")], "endpoint": "/v1/chat/completions"}
            await ok(slow, "POST", "/v1/batches", inline)

        async def hanging() -> int:
            return len(behind.received)

        await eventually(hanging, lambda seen: seen >= 64, every=0.05)
        other = await server.organization()
        batch = (await create(other, [record("a")]))["id"]

        async def status() -> str:
            return str((await batch_of(other, batch))["status"])

        await eventually(status, lambda seen: seen == "completed", every=0.05)
        assert len(behind.received) == 64

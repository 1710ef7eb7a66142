"""Where a file comes from: it is read no faster than it is sent, and may fall silent, fail or be cancelled."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from relay_client import CallPolicy, CloudUnavailable, Outcome, SourceStalled
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.scripted import Early, Hang, ScriptedServer
from tests.unit.client.uploads import IMPATIENT, MIB, STORED, Source, chunks, failed_upload, inference


async def test_the_source_is_not_read_while_the_server_does_not(server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=Hang()))
    source = Source(200)
    async with inference(server, IMPATIENT) as cloud:
        error = await failed_upload(cloud, source)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.UNKNOWN)
    assert error.message == "nothing could be sent for 0.3 s"
    assert source.taken < 30  # what the kernel's buffers hold


async def test_an_upload_has_no_bound_as_long_as_it_goes_on(server: ScriptedServer) -> None:
    server.will(STORED)
    policy = CallPolicy(idle_seconds=60, total_seconds=60)

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(8):  # a quarter of each bound, twice the bounds in all, and none of it real time
            await asyncio.sleep(policy.idle_seconds / 4)
            yield b"x"

    async with inference(server, policy) as cloud:
        assert (await cloud.upload("a.jsonl", slow())).id == "file_1"


async def test_a_source_that_goes_silent_ends_the_upload(server: ScriptedServer) -> None:
    server.will(STORED)

    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with inference(server, replace(IMPATIENT, outage_failures=1)) as cloud:
        with pytest.raises(SourceStalled, match="nothing to send came"):
            await cloud.upload("a.jsonl", silent())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.ended.wait()
        assert server.seen == [], "the server got a whole request"
        stored = await cloud.upload("a.jsonl", chunks(b"x"))
    assert stored.id == "file_1", "the cloud counted as out of order"


async def test_what_the_source_raises_comes_out_and_nothing_is_stored(server: ScriptedServer) -> None:
    server.will(STORED)

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * MIB
        raise TimeoutError("the bucket is gone")

    async with inference(server) as cloud:
        with pytest.raises(TimeoutError, match="the bucket is gone"):
            await cloud.upload("a.jsonl", broken())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.ended.wait()
    assert server.seen == [], "the server got a whole request"


async def test_a_cancelled_upload_closes_its_connection(server: ScriptedServer) -> None:
    server.will(STORED)
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with inference(server) as cloud, asyncio.timeout(PATIENCE_SECONDS):
        upload = asyncio.ensure_future(cloud.upload("a.jsonl", endless()))
        await reached.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        assert cancelled.is_set()
        await server.ended.wait()
    assert server.seen == []

"""What a cloud does not answer is not sent for a while, so that nobody waits for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from relay_client import CallPolicy, Cloud, CloudError, CloudUnavailable, HeldBack, Outcome, RateLimiter, Withheld
from relay_client.operations import CREATE_POD, GET_VM, TERMINATE_VM
from relay_wire.pods import PodCreate
from tests.unit.client.conftest import KEY, QUICK, Timeline
from tests.unit.client.scripted import Drop, Hang, Reply, ScriptedServer

ONE_ATTEMPT = replace(QUICK, max_attempts=1)
POD = PodCreate(image="busybox")
CREATED = Reply(201, b'{"id":"pod_1","name":"p","status":"deploying"}')


async def failed_create(cloud: Cloud) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await cloud.call(CREATE_POD, POD)
    return caught.value


@contextlib.asynccontextmanager
async def impatient(
    server: ScriptedServer, timeline: Timeline, *, policy: CallPolicy = ONE_ATTEMPT, limiter: RateLimiter | None = None
) -> AsyncIterator[Cloud]:
    """Holds an operation back after two failures."""
    runtime = timeline.runtime()
    async with Cloud(
        server.url,
        KEY,
        inference_url=server.url,
        organization_id="org_1",
        policy=replace(policy, outage_failures=2, outage_seconds=5),
        runtime=runtime,
        limiter=limiter,
    ) as cloud:
        yield cloud


async def test_what_may_not_be_sent_says_nothing_of_the_cloud(server: ScriptedServer, timeline: Timeline) -> None:
    down = Reply(503, b'{"error":"down"}')
    server.will(down, CREATED, down, down, CREATED)
    async with impatient(server, timeline) as cloud:
        withheld = cloud.guarded(lambda: False)
        await failed_create(cloud)
        for _ in range(5):
            assert isinstance(await failed_create(withheld), Withheld)
        assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
        for _ in range(2):
            assert not isinstance(await failed_create(cloud), HeldBack)
        timeline.now += 6
        assert isinstance(await failed_create(withheld), Withheld)
        assert (await cloud.call(CREATE_POD, POD)).id == "pod_1", "the probe did not go, so that another may"


async def test_what_may_not_be_sent_is_not_tried_again_in_place(server: ScriptedServer, timeline: Timeline) -> None:
    asked: list[int] = []

    def refused() -> bool:
        asked.append(1)
        return False

    async with impatient(server, timeline, policy=QUICK) as cloud:
        with pytest.raises(Withheld):
            await cloud.guarded(refused).call(TERMINATE_VM, id="pod_1")
    assert len(asked) == 1


OUTAGES = {
    "5xx": Reply(503, b'{"error":"down"}'),
    "hanging": Hang(),
    "hanging in the body": Reply(200, b'{"id":', announced=100, linger=True),
    "cut off": Drop(),
}


@pytest.mark.parametrize("failure", OUTAGES.values(), ids=OUTAGES)
async def test_what_the_cloud_does_not_answer_is_held_back_until_a_probe_is_answered(
    failure: Reply | Hang | Drop, server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(failure, failure, failure, CREATED)
    async with impatient(server, timeline) as cloud:
        failed = await failed_create(cloud)
        await failed_create(cloud)
        held = await failed_create(cloud)
        told = failed.message if failed.status is None else f"the cloud answers create_pod with {failed.status}"
        assert (type(held), held.outcome, held.message) == (HeldBack, Outcome.NOT_SENT, told)
        assert isinstance(held, CloudUnavailable)
        assert held.retry_after == pytest.approx(5)
        assert server.targets.count("POST /v1/pods") == 2
        timeline.now += 5
        assert type(await failed_create(cloud)) is not HeldBack  # the probe
        assert type(await failed_create(cloud)) is HeldBack
        timeline.now += 5
        assert [(await cloud.call(CREATE_POD, POD)).id for _ in range(2)] == ["pod_1", "pod_1"]


async def test_an_answer_of_any_kind_is_no_outage(server: ScriptedServer, timeline: Timeline) -> None:
    down, refused = Reply(503, b'{"error":"down"}'), Reply(409, b'{"error":"clash"}')
    server.will(down, refused, down, refused, down, refused)
    async with impatient(server, timeline) as cloud:
        assert HeldBack not in [type(await failed_create(cloud)) for _ in range(6)]


async def test_what_stops_billing_is_never_held_back(server: ScriptedServer, timeline: Timeline) -> None:
    server.will(Reply(503, b'{"error":"down"}'))
    async with impatient(server, timeline) as cloud:
        for _ in range(5):
            with pytest.raises(CloudUnavailable) as caught:
                await cloud.call(TERMINATE_VM, id="pod_1")
            assert type(caught.value) is CloudUnavailable
    assert len(server.seen) == 5


async def test_what_is_held_back_is_not_waited_for_in_place(server: ScriptedServer, timeline: Timeline) -> None:
    server.will(Reply(503, b'{"error":"down"}'))
    async with impatient(server, timeline, policy=CallPolicy()) as cloud:
        with pytest.raises(HeldBack):
            await cloud.call(GET_VM, id="pod_1")
    assert (len(server.seen), len(timeline.slept)) == (2, 2)


async def test_files_are_held_back_as_well(server: ScriptedServer, timeline: Timeline) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"{}"

    async def uploaded() -> type[CloudError]:
        with pytest.raises(CloudError) as caught:
            await cloud.upload("input.jsonl", chunks())
        return type(caught.value)

    async def downloaded() -> type[CloudError]:
        with pytest.raises(CloudError) as caught:
            async with cloud.download("file-1"):
                pass
        return type(caught.value)

    server.will(Reply(503, b'{"error":"down"}'))
    async with impatient(server, timeline) as cloud:
        assert [await uploaded() for _ in range(3)] == [CloudUnavailable, CloudUnavailable, HeldBack]
        assert [await downloaded() for _ in range(3)] == [CloudUnavailable, CloudUnavailable, HeldBack]


async def test_a_download_that_fails_while_an_upload_reads_it_does_not_hold_back_uploads(
    server: ScriptedServer, timeline: Timeline
) -> None:
    async def chunks(cloud: Cloud) -> AsyncIterator[bytes]:
        async with cloud.download("file-1") as pieces:
            async for piece in pieces:
                yield piece

    down, stored = Reply(503, b'{"error":"down"}'), Reply(200, b'{"id":"file_2","object":"file"}')
    server.will(down, down, Reply(200, b"{}"), stored, down)
    async with impatient(server, timeline) as cloud:
        for failure in (CloudUnavailable, CloudUnavailable, HeldBack):
            with pytest.raises(failure, match="download_file"):
                await cloud.upload("input.jsonl", chunks(cloud))
        timeline.now += 6
        assert (await cloud.upload("input.jsonl", chunks(cloud))).id == "file_2"


async def test_an_outage_that_is_found_while_calls_wait_for_the_limiter_stops_them(
    server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(Reply(503, b'{"error":"down"}'))
    failed = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await failed.wait()
        await timeline.sleep(seconds)

    limiter = RateLimiter(16, burst=2, reserved_share=0, clock=timeline.clock, sleep=sleep)
    async with impatient(server, timeline, limiter=limiter) as cloud:
        calls = [asyncio.ensure_future(failed_create(cloud)) for _ in range(4)]
        await asyncio.wait(calls[:2])
        failed.set()
        assert [type(error) for error in await asyncio.gather(*calls)] == [CloudUnavailable] * 2 + [HeldBack] * 2

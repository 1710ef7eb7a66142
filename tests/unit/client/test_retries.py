"""Repeating in place: only what is repeatable, only where it may help, briefly, and as the cloud asks."""

import asyncio

import pytest

from relay_client import (
    CallPolicy,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    NotFound,
    Outcome,
    RateLimited,
    RateLimiter,
    Runtime,
)
from relay_client.operations import GET_VM, RESTART_VM, SCALE_CLUSTER, TERMINATE_VM
from relay_wire.clusters import ClusterScale
from tests.unit.client.conftest import KEY, QUICK, Timeline
from tests.unit.client.scripted import Drop, Hang, Raw, Reply, ScriptedServer, Step

FOUND = Reply(200, b'{"id":"pod_1","status":"running"}')
DOWN = Reply(503, b'{"error":"down"}')


@pytest.mark.parametrize(
    "step",
    [
        Reply(429, b'{"error":"slow down"}'),
        Reply(500),
        Reply(502, b"<html>", content_type="text/html"),
        DOWN,
        Drop(),
        Drop(unread=True),
        Raw(b"HTTP/1.1 20"),
        Reply(200, b'{"id":"po', announced=99),
    ],
    ids=repr,
)
async def test_a_read_is_repeated_after_trouble_that_may_pass(
    step: Step, cloud: Cloud, server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(step, step, FOUND)
    assert (await cloud.call(GET_VM, id="pod_1")).status == "running"
    assert timeline.slept == pytest.approx([0.125, 0.25])


@pytest.mark.parametrize("status", [200, 302, 400, 401, 402, 403, 404, 408, 409, 410, 422])
async def test_a_read_is_not_repeated_after_an_answer_that_will_not_change(
    status: int, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(Reply(status, b'{"error":"no"}'))
    with pytest.raises(CloudError):
        await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 1


async def test_a_call_that_is_not_repeatable_is_sent_once(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(DOWN)
    with pytest.raises(CloudUnavailable):
        await cloud.call(RESTART_VM, id="pod_1")
    assert len(server.seen) == 1


async def test_retries_end_after_four_attempts(cloud: Cloud, server: ScriptedServer, timeline: Timeline) -> None:
    server.will(DOWN)
    with pytest.raises(CloudUnavailable):
        await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 4
    assert timeline.slept == pytest.approx([0.125, 0.25, 0.5])


async def test_retries_end_with_the_total_time(server: ScriptedServer) -> None:
    server.will(Hang())
    runtime = Runtime(clock=asyncio.get_running_loop().time)
    async with Cloud(server.url, KEY, policy=QUICK, runtime=runtime) as cloud:
        with pytest.raises(CloudUnavailable, match="no complete answer"):
            await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) <= 2
    assert runtime.clock() <= QUICK.total_seconds + 0.001


async def test_retry_after_in_seconds_is_waited_for(cloud: Cloud, server: ScriptedServer, timeline: Timeline) -> None:
    server.will(Reply(429, headers={"Retry-After": "3"}), FOUND)
    await cloud.call(GET_VM, id="pod_1")
    assert timeline.slept == pytest.approx([3.125])


async def test_retry_after_as_a_date_is_waited_for(cloud: Cloud, server: ScriptedServer, timeline: Timeline) -> None:
    timeline.now = 1_800_000_000.0
    server.will(Reply(503, headers={"Retry-After": "Fri, 15 Jan 2027 08:00:04 GMT"}), FOUND)
    await cloud.call(GET_VM, id="pod_1")
    assert timeline.slept == pytest.approx([4.125])


@pytest.mark.parametrize(("asked", "told"), [("6", 6.0), ("60", 60.0), ("99999999999999999999999", 3600.0)])
async def test_a_long_retry_after_is_left_to_the_caller(
    asked: str, told: float, cloud: Cloud, server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(Reply(429, headers={"Retry-After": asked}))
    with pytest.raises(RateLimited) as caught:
        await cloud.call(GET_VM, id="pod_1")
    assert caught.value.retry_after == told
    assert timeline.slept == []


async def test_every_attempt_takes_from_the_rate_limit(server: ScriptedServer, timeline: Timeline) -> None:
    server.will(DOWN)
    limiter = RateLimiter(0.01, burst=2, reserved_share=0, clock=timeline.clock, sleep=timeline.sleep)
    async with Cloud(server.url, KEY, limiter=limiter, runtime=timeline.runtime()) as cloud:
        with pytest.raises(RateLimited) as caught:
            await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 2
    assert caught.value.outcome is Outcome.UNKNOWN  # of the attempts before


@pytest.mark.parametrize(
    ("last", "error"), [(Reply(409, b'{"error":"clash"}'), Conflict), (Reply(404, b'{"error":"none"}'), NotFound)]
)
async def test_an_attempt_that_may_have_acted_is_not_forgotten_when_a_later_one_is_refused(
    last: Reply, error: type[CloudError], cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(Drop(), last)
    with pytest.raises(error) as caught:
        await cloud.call(SCALE_CLUSTER, ClusterScale(replica_count=2), id="cl_1")
    assert caught.value.outcome is Outcome.UNKNOWN


async def test_a_terminate_whose_reply_was_lost_is_sent_again(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Drop(), Reply(200))
    await cloud.call(TERMINATE_VM, id="pod_1")
    assert server.targets == ["POST /v1/vms/pod_1/terminate"] * 2


async def test_jitter_is_between_nothing_and_the_backoff(server: ScriptedServer, timeline: Timeline) -> None:
    server.will(DOWN)
    policy = CallPolicy(max_attempts=8, total_seconds=1000)
    chances = iter([0.0, 0.999999, 0.0, 0.5, 0.0, 0.999999, 0.5, 0.5])
    async with Cloud(server.url, KEY, policy=policy, runtime=timeline.runtime(lambda: next(chances))) as cloud:
        with pytest.raises(CloudUnavailable):
            await cloud.call(GET_VM, id="pod_1")
    assert timeline.slept == pytest.approx([0, 0.5, 0, 1, 0, 5, 2.5], abs=1e-4)

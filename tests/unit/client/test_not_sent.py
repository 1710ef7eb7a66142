"""Failures after which nothing can exist, since not a byte of the request left."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_client import (
    CallPolicy,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    ConnectionPool,
    Outcome,
    RateLimited,
    RateLimiter,
    Unauthorized,
)
from relay_client.answers import MAX_VALUES
from relay_client.operations import CREATE_CLUSTER, CREATE_POD, GET_VM
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from tests.support.certificates import write_serving_certificate
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.conftest import KEY, QUICK, Timeline
from tests.unit.client.scripted import Hang, Reply, ScriptedServer, scripted_server

POD = PodCreate(image="busybox")
CREATED = Reply(201, b'{"id":"pod_1","name":"p","status":"deploying"}')
REFUSED = Reply(401, b'{"error":"invalid API key"}')


async def failed_create(cloud: Cloud) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await cloud.call(CREATE_POD, POD)
    return caught.value


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """A port that takes no more connections, and refuses none: its queue is full."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = waiting.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_connection_that_is_refused_sent_nothing() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with Cloud(f"http://127.0.0.1:{unused.getsockname()[1]}", KEY, policy=QUICK) as cloud:
            error = await failed_create(cloud)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert "cannot connect" in error.message


@pytest.mark.parametrize("host", ["a..b", f"{'x' * 64}.example"])
async def test_a_name_that_no_host_can_have_sent_nothing(host: str) -> None:
    async with Cloud(f"http://{host}", KEY, policy=QUICK) as cloud:
        error = await failed_create(cloud)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert error.message == f"cannot connect: {host} cannot be the name of a host"


@pytest.mark.parametrize(
    ("connect_seconds", "message"),
    [(0.2, "cannot connect: timed out"), (30.0, "no complete answer within 0.6 s")],
    ids=["connect timeout", "total timeout"],
)
async def test_a_connection_that_is_never_made_sent_nothing(
    connect_seconds: float, message: str, deaf_url: str
) -> None:
    policy = CallPolicy(connect_seconds=connect_seconds, total_seconds=0.6123)
    async with Cloud(deaf_url, KEY, policy=policy) as cloud:
        error = await failed_create(cloud)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert error.message == message


async def test_a_server_without_tls_sent_nothing(server: ScriptedServer) -> None:
    server.will(CREATED)
    async with Cloud(server.url.replace("http:", "https:"), KEY, policy=QUICK) as cloud:
        error = await failed_create(cloud)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert server.seen == []


async def test_a_certificate_that_is_not_trusted_sent_nothing_and_a_trusted_one_does(tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    async with scripted_server(tls) as server:
        server.will(CREATED)
        async with Cloud(server.url, KEY) as cloud:
            error = await failed_create(cloud)
        assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
        assert server.seen == []
        trusting = ConnectionPool(ssl_context=ssl.create_default_context(cafile=tmp_path / "ca.crt"))
        async with contextlib.aclosing(trusting), Cloud(server.url, KEY, pool=trusting) as cloud:
            assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"


async def test_a_call_that_gets_no_connection_from_a_full_pool_sent_nothing(server: ScriptedServer) -> None:
    server.will(Hang(), CREATED)
    pool = ConnectionPool(max_connections=1)
    async with contextlib.aclosing(pool), Cloud(server.url, KEY, pool=pool) as slow:
        occupant = asyncio.ensure_future(slow.call(GET_VM, id="pod_0"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.asked.wait()
        error = await failed_create(Cloud(server.url, KEY, pool=pool, policy=QUICK))
        occupant.cancel()
        with pytest.raises(asyncio.CancelledError):
            await occupant
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert error.message == "no connection is free"
    assert server.targets == ["GET /v1/vms/pod_0"]


async def test_a_create_whose_organization_cannot_be_learned_sent_nothing(server: ScriptedServer) -> None:
    server.will(Reply(500, b'{"error":"out of order"}'))
    async with Cloud(server.url, KEY, policy=QUICK, runtime=Timeline().runtime()) as cloud:
        with pytest.raises(CloudUnavailable) as caught:
            await cloud.call(CREATE_CLUSTER, ClusterCreate(name="llm"))
    assert caught.value.outcome is Outcome.NOT_SENT
    assert str(caught.value) == "create_cluster: 500: the key's organization is not known: out of order"
    assert set(server.targets) == {"GET /v1/whoami"}


async def test_a_call_over_the_accounts_own_budget_sent_nothing(server: ScriptedServer, timeline: Timeline) -> None:
    server.will(CREATED)
    limiter = RateLimiter(
        0.1, burst=1, reserved_share=0, max_wait_seconds=3, clock=timeline.clock, sleep=timeline.sleep
    )
    async with Cloud(server.url, KEY, limiter=limiter, runtime=timeline.runtime()) as cloud:
        await cloud.call(CREATE_POD, POD)
        error = await failed_create(cloud)
    assert (type(error), error.outcome) == (RateLimited, Outcome.NOT_SENT)
    assert error.retry_after == pytest.approx(10)
    assert len(server.seen) == 1


async def test_a_refused_key_is_not_used_again_until_the_recheck(
    cloud: Cloud, server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(REFUSED, REFUSED, CREATED)
    assert type(await failed_create(cloud)) is Unauthorized
    error = await failed_create(cloud)
    assert (type(error), error.outcome) == (CircuitOpen, Outcome.NOT_SENT)
    assert error.retry_after == pytest.approx(300)
    assert isinstance(error, Unauthorized)
    assert len(server.seen) == 1
    timeline.now += 300
    assert type(await failed_create(cloud)) is Unauthorized  # the probe
    assert type(await failed_create(cloud)) is CircuitOpen
    timeline.now += 300
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"


@pytest.mark.parametrize(
    ("answer", "closes"),
    [
        (Reply(403, b'{"error":"scope"}'), True),
        (Reply(409, b'{"error":"clash"}'), True),
        (Reply(200, b'{"more":[%s0]}' % (b"0," * MAX_VALUES)), True),
        (Reply(200, b"<html>", content_type="text/html"), False),
        (Reply(503, b'{"error":"down"}'), False),
        (Reply(429, b'{"error":"slow"}'), False),
    ],
)
async def test_only_an_answer_that_proves_the_key_closes_the_circuit(
    answer: Reply, closes: bool, cloud: Cloud, server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(REFUSED, answer)
    await failed_create(cloud)
    timeline.now += 300
    assert not isinstance(await failed_create(cloud), CircuitOpen)
    assert isinstance(await failed_create(cloud), CircuitOpen) is not closes


async def test_a_key_refused_while_calls_wait_for_the_limiter_stops_them(
    server: ScriptedServer, timeline: Timeline
) -> None:
    server.will(REFUSED)
    answered = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await answered.wait()
        await timeline.sleep(seconds)

    limiter = RateLimiter(1, burst=1, reserved_share=0, clock=timeline.clock, sleep=sleep)
    async with Cloud(server.url, KEY, limiter=limiter, runtime=timeline.runtime()) as cloud:
        first, *waiting = [asyncio.ensure_future(failed_create(cloud)) for _ in range(4)]
        assert type(await first) is Unauthorized
        answered.set()
        assert [type(error) for error in await asyncio.gather(*waiting)] == [CircuitOpen] * 3
    assert len(server.seen) == 1

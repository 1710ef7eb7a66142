"""What becomes of connections: which are used again, which are given up, and what never comes from the environment."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from relay_client import CallPolicy, Cloud, CloudError, CloudUnavailable, ConnectionPool, Outcome, Unreadable
from relay_client.operations import CREATE_POD, GET_VM, TERMINATE_VM
from relay_client.transport import Found
from relay_wire.pods import PodCreate
from tests.support.certificates import write_serving_certificate
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.unit.client.conftest import KEY, QUICK
from tests.unit.client.scripted import Drop, Hang, Raw, Reply, ScriptedServer, Step, scripted_server

POD = PodCreate(image="busybox")
BODY = b'{"id":"pod_1","status":"running"}'
FOUND = Reply(200, BODY)
CREATED = Reply(201, b'{"id":"pod_1"}')
UNASKED = b'HTTP/1.1 201 Created\r\nContent-Length: 18\r\n\r\n{"id":"pod_other"}'
ONCE = CallPolicy(connect_seconds=PATIENCE_SECONDS, attempt_seconds=PATIENCE_SECONDS, max_attempts=1)


@pytest.mark.parametrize("unasked", [b"", UNASKED], ids=["the end", "an answer"])
async def test_a_create_is_not_sent_where_something_came_unasked(
    unasked: bytes, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(FOUND, CREATED)
    await cloud.call(GET_VM, id="pod_1")
    server.push(unasked)
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert server.connections == 2
    assert server.targets == ["GET /v1/vms/pod_1", "POST /v1/pods"]


async def test_an_answer_that_came_unasked_and_was_read_is_not_the_answer_to_a_create(
    cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(FOUND, FOUND, CREATED)
    await cloud.call(GET_VM, id="pod_1")
    server.push(UNASKED)
    async with Cloud(server.url, KEY) as bystander:
        await bystander.call(GET_VM, id="pod_1")
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert server.connections == 3


@pytest.mark.parametrize("warm", [True, False], ids=["on a connection that is there", "on a new one"])
@pytest.mark.parametrize("of_pool", [True, False], ids=["no request", "none of these"])
async def test_what_may_not_be_written_any_more_is_not_sent_and_reads_are(
    warm: bool, of_pool: bool, server: ScriptedServer
) -> None:
    """Asked with the connection in hand: the place in the pool is given back, and so is the connection."""
    may = [True]
    pool = ConnectionPool(max_connections=1, may_write=lambda: may[0] or not of_pool)
    async with contextlib.aclosing(pool):
        cloud = Cloud(server.url, KEY, pool=pool, policy=ONCE).guarded(lambda: may[0] or of_pool)
        server.will(*[FOUND] * warm, FOUND, CREATED)
        if warm:
            await cloud.call(GET_VM, id="pod_1")
        may[0] = False
        for _ in range(2):
            with pytest.raises(CloudUnavailable, match="not sent") as refused:
                await cloud.call(CREATE_POD, POD)
            assert refused.value.outcome is Outcome.NOT_SENT
        assert (await cloud.call(GET_VM, id="pod_1")).id == "pod_1"
        may[0] = True
        assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert server.targets == [*["GET /v1/vms/pod_1"] * (1 + warm), "POST /v1/pods"]


async def test_what_follows_an_answer_is_not_the_next_one(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, BODY + UNASKED, announced=len(BODY), linger=True), CREATED)
    await cloud.call(GET_VM, id="pod_1")
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert server.connections == 2


@pytest.mark.parametrize("first", [FOUND, Reply(503), Reply(204, content_type=None)], ids=lambda step: str(step.status))
async def test_a_connection_is_used_again(first: Reply, server: ScriptedServer) -> None:
    server.will(first, CREATED)
    async with Cloud(server.url, KEY, policy=ONCE) as cloud:
        with contextlib.suppress(CloudUnavailable):
            await cloud.call(TERMINATE_VM, id="pod_1")
        await cloud.call(CREATE_POD, POD)
    assert server.connections == 1


async def test_a_connection_under_tls_is_used_again(tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    pool = ConnectionPool(ssl_context=ssl.create_default_context(cafile=tmp_path / "ca.crt"))
    async with scripted_server(tls) as server, contextlib.aclosing(pool):
        server.will(CREATED)
        cloud = Cloud(server.url, KEY, pool=pool)
        await cloud.call(CREATE_POD, POD)
        await cloud.call(CREATE_POD, POD)
        assert server.connections == 1
        server.push(b"")
        await cloud.call(CREATE_POD, POD)
        assert server.connections == 2


async def test_a_connection_that_was_idle_for_too_long_is_not_used_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_client.pool._KEEPALIVE_SECONDS", 1e-9)
    server.will(CREATED)
    async with Cloud(server.url, KEY) as cloud:
        await cloud.call(CREATE_POD, POD)
        await cloud.call(CREATE_POD, POD)
    assert server.connections == 2


async def test_a_read_is_sent_once_by_one_attempt(server: ScriptedServer) -> None:
    server.will(FOUND, Drop(), FOUND)
    async with Cloud(server.url, KEY, policy=ONCE) as cloud:
        await cloud.call(GET_VM, id="pod_1")
        with pytest.raises(CloudUnavailable, match="the server closed the connection without an answer"):
            await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    "step",
    [
        FOUND,
        Drop(),
        Drop(unread=True),
        Hang(),
        Raw(b"SSH-2.0-OpenSSH_9.9\r\n"),
        Reply(200, BODY, announced=99),
        Reply(200, BODY, announced=99, linger=True),
        Reply(200, BODY.ljust(2000)),
        Reply(302, BODY, headers={"Location": "/elsewhere"}),
    ],
    ids=repr,
)
async def test_a_place_in_the_pool_is_given_back_whatever_happened(step: Step, server: ScriptedServer) -> None:
    server.will(step, step, FOUND)
    pool = ConnectionPool(max_connections=1)
    policy = CallPolicy(attempt_seconds=0.2, pool_seconds=0.1, max_attempts=1, max_response_bytes=1000)
    async with contextlib.aclosing(pool), Cloud(server.url, KEY, pool=pool, policy=policy) as cloud:
        for _ in range(2):
            with contextlib.suppress(CloudError):
                await cloud.call(GET_VM, id="pod_1")
        assert (await cloud.call(GET_VM, id="pod_1")).status == "running"


async def test_a_place_in_the_pool_is_given_back_where_no_connection_was_made(server: ScriptedServer) -> None:
    server.will(FOUND)
    pool = ConnectionPool(max_connections=1)
    async with contextlib.aclosing(pool):
        with pytest.raises(CloudUnavailable, match=r"cannot connect: localhost\.invalid:443: "):
            await Cloud("https://localhost.invalid", KEY, pool=pool, policy=ONCE).call(GET_VM, id="pod_1")
        await Cloud(server.url, KEY, pool=pool, policy=QUICK).call(GET_VM, id="pod_1")


async def test_no_more_connections_are_made_than_allowed(server: ScriptedServer) -> None:
    server.will(FOUND)
    pool = ConnectionPool(max_connections=2)
    async with contextlib.aclosing(pool), Cloud(server.url, KEY, pool=pool) as cloud:
        await asyncio.gather(*(cloud.call(GET_VM, id="pod_1") for _ in range(20)))
    assert len(server.seen) == 20
    assert server.connections == 2


async def test_a_call_under_way_fails_when_the_pool_is_closed_and_a_later_one_is_not_sent(
    server: ScriptedServer,
) -> None:
    server.will(Hang())
    pool = ConnectionPool()
    cloud = Cloud(server.url, KEY, pool=pool)
    create = asyncio.ensure_future(cloud.call(CREATE_POD, POD))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.asked.wait()
        await pool.aclose()
        with pytest.raises(CloudUnavailable) as under_way:
            await create
        with pytest.raises(CloudUnavailable) as later:
            await cloud.call(CREATE_POD, POD)
    assert under_way.value.outcome is Outcome.UNKNOWN
    assert later.value.outcome is Outcome.NOT_SENT
    assert len(server.seen) == 1


class Names:
    """Every name leads to this machine, but one below `hangs.test` only once `answers` is set."""

    def __init__(self) -> None:
        self.answers = Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, family: int, kind: int, protocol: int, flags: int, /) -> Found:
        """Look one name up."""
        self.asked.append(host)
        if host.endswith("hangs.test"):
            self.answers.wait(PATIENCE_SECONDS)
        return socket.getaddrinfo("127.0.0.1", port, family, kind, protocol, flags)


@pytest.fixture
def names() -> Iterator[Names]:
    """The hanging lookups end with the test."""
    made = Names()
    yield made
    made.answers.set()


async def test_names_whose_servers_do_not_answer_hold_back_no_other_cloud(names: Names, server: ScriptedServer) -> None:
    server.will(FOUND)
    async with contextlib.aclosing(ConnectionPool(look_up=names)) as pool:

        def call(host: str) -> asyncio.Task[object]:
            cloud = Cloud(server.url.replace("127.0.0.1", host), KEY, pool=pool, policy=ONCE)
            return asyncio.create_task(cloud.call(GET_VM, id="pod_1"))

        hanging = [call(f"a{number}.hangs.test") for number in range(24)]
        await call("fine.test")
        assert not any(task.done() for task in hanging)
        names.answers.set()
        await asyncio.gather(*hanging)


async def test_requests_that_are_given_up_leave_one_lookup_of_a_name_for_the_next(
    names: Names, server: ScriptedServer
) -> None:
    server.will(FOUND)
    async with contextlib.aclosing(ConnectionPool(look_up=names)) as pool:
        cloud = Cloud(server.url.replace("127.0.0.1", "hangs.test"), KEY, pool=pool, policy=ONCE)
        for _ in range(100):
            given_up = asyncio.create_task(cloud.call(GET_VM, id="pod_1"))
            await eventually(lambda: asyncio.sleep(0, names.asked), every=0.01)
            given_up.cancel()
            await asyncio.wait([given_up])
        names.answers.set()
        await cloud.call(GET_VM, id="pod_1")
    assert names.asked == ["hangs.test"]


async def test_a_name_waits_while_as_many_as_may_are_looked_up(names: Names, server: ScriptedServer) -> None:
    async with contextlib.aclosing(ConnectionPool(look_up=names)) as pool:

        def call(host: str) -> asyncio.Task[object]:
            cloud = Cloud(server.url.replace("127.0.0.1", host), KEY, pool=pool, policy=ONCE)
            return asyncio.create_task(cloud.call(GET_VM, id="pod_1"))

        hanging = [call(f"a{number}.hangs.test") for number in range(32)]
        await eventually(lambda: asyncio.sleep(0, len(names.asked)), lambda asked: asked == 32, every=0.01)
        server.will(*[FOUND] * 33)
        last = call("last.test")
        for task in hanging[:16]:
            task.cancel()
        await asyncio.wait(hanging[:16])
        assert "last.test" not in names.asked
        names.answers.set()
        await asyncio.gather(last, *hanging[16:])
    assert names.asked[-1] == "last.test"


HANGS = """
import asyncio
import threading

from relay_client import CallPolicy, Cloud, CloudUnavailable, ConnectionPool
from relay_client.operations import WHOAMI

async def main():
    pool = ConnectionPool(look_up=lambda *_: threading.Event().wait())
    policy = CallPolicy(connect_seconds=0.1, attempt_seconds=0.1, max_attempts=1)
    try:
        await Cloud("http://hangs.test", "key", pool=pool, policy=policy).call(WHOAMI)
    except CloudUnavailable:
        print("unavailable")
    await pool.aclose()

asyncio.run(main())
"""


def test_a_lookup_that_hangs_holds_no_process_back_that_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("unavailable\n", "", 0)


async def test_a_body_that_grows_when_unpacked_is_not_unpacked(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, gzip.compress(BODY), headers={"Content-Encoding": "gzip"}))
    with pytest.raises(Unreadable):
        await cloud.call(GET_VM, id="pod_1")


async def test_an_answer_with_a_long_header_is_read(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(201, b'{"id":"pod_1"}', headers={"Content-Security-Policy": "x" * 8_000}))
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that does not exist, and other credentials for the server."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("environment")
async def test_proxies_and_credentials_of_the_environment_are_not_used(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(CREATED)
    await cloud.call(CREATE_POD, POD)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_proxy_is_given_its_credentials_and_the_whole_address(server: ScriptedServer) -> None:
    server.will(CREATED)
    pool = ConnectionPool(proxy=server.url.replace("//", "//user:pass@"))
    async with contextlib.aclosing(pool):
        await Cloud("http://cloud.invalid", KEY, pool=pool).call(CREATE_POD, POD)
    assert server.targets == ["POST http://cloud.invalid/v1/pods"]
    assert server.seen[0].headers["proxy-authorization"] == f"Basic {b64encode(b'user:pass').decode()}"
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_tunnel_that_the_proxy_refuses_sent_nothing_and_does_not_show_the_key(server: ScriptedServer) -> None:
    server.will(Reply(407))
    pool = ConnectionPool(proxy=server.url)
    async with contextlib.aclosing(pool):
        with pytest.raises(CloudUnavailable, match="the proxy answered 407") as caught:
            await Cloud("https://cloud.invalid", KEY, pool=pool).call(CREATE_POD, POD)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert server.targets == ["CONNECT cloud.invalid:443"]
    assert "authorization" not in server.seen[0].headers


def test_a_proxy_that_is_not_spoken_to_by_http_is_refused() -> None:
    with pytest.raises(ValueError, match="the proxy must begin with http:// or https://"):
        ConnectionPool(proxy="socks5://127.0.0.1:1080")

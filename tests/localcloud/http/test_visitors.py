"""Beyond loopback, an address has a bounded number of open connections, over all ports; others have theirs."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from relay_localcloud.http.visitors import visitor_at
from tests.localcloud.support.server import COMMAND, Server
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer

PORTS = ("managementUrl", "inferenceUrl", "gatewayUrl")
BEYOND = ("--ephemeral", "--clock", "frozen", "--host", "0.0.0.0")
MOST = 4
ONE, OTHER = "127.0.0.2", "127.0.0.3"


class Connections:
    """Connections that stay open, from addresses of this machine."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.open: list[asyncio.StreamWriter] = []

    async def answers(self, port: str, address: str) -> bool:
        """Whether another one is answered."""
        number = urlsplit(self.server.ready[port]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", number, local_addr=(address, 0))
        self.open.append(writer)
        try:
            writer.write(b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.readline() == b"HTTP/1.1 404 Not Found\r\n"
        except ConnectionError:
            return False


@pytest.fixture
async def connections(start_server: StartServer) -> AsyncIterator[Connections]:
    """Those to a cloud beyond loopback that takes few."""
    made = Connections(start_server(*BEYOND))
    await made.server.ok("PATCH", "/settings", {"connectionsPerAddress": MOST})
    yield made
    for each in made.open:
        each.close()


@pytest.mark.parametrize("port", PORTS)
async def test_an_address_has_so_many_connections_and_no_more(connections: Connections, port: str) -> None:
    for number in range(MOST):
        assert await connections.answers(PORTS[number % 3], ONE), number
    assert not await connections.answers(port, ONE)
    assert await connections.answers(port, OTHER)
    connections.open[0].close()
    await eventually(lambda: connections.answers(port, ONE), bool, what="the place of the connection that was closed")
    assert not await connections.answers(port, ONE)
    assert "Traceback" not in connections.server.log


async def test_what_is_refused_takes_no_place(connections: Connections) -> None:
    for number in range(3 * MOST):
        assert await connections.answers(PORTS[number % 3], ONE) is (number < MOST)
    for each in connections.open:
        each.close()
    await eventually(lambda: connections.answers(PORTS[0], ONE), bool, what="a place")


async def test_zero_is_no_limit(connections: Connections) -> None:
    await connections.server.ok("PATCH", "/settings", {"connectionsPerAddress": 0})
    assert all([await connections.answers(PORTS[number % 3], ONE) for number in range(2 * MOST)])


async def test_on_loopback_there_is_no_limit(start_server: StartServer) -> None:
    connections = Connections(start_server("--ephemeral", "--clock", "frozen"))
    await connections.server.ok("PATCH", "/settings", {"connectionsPerAddress": 1})
    assert all([await connections.answers(PORTS[number % 3], ONE) for number in range(2 * MOST)])
    for each in connections.open:
        each.close()


def test_a_cloud_takes_more_descriptors_than_an_address_may_use_up() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = Server(("--ephemeral",), (str(COMMAND),))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        server.start()
        taken, _ = resource.prlimit(server.child.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.kill()
    assert taken > 1_000


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8:0:1::1", "2001:db8::1", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (visitor_at(one) == visitor_at(other)) is same

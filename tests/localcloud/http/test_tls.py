"""With `--tls`, a connection counts and has its deadline from the start, not only once TLS is agreed."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.localcloud.support.server import connections
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server

PORTS = ("managementUrl", "inferenceUrl", "gatewayUrl")
BEYOND = ("--ephemeral", "--clock", "frozen", "--host", "0.0.0.0", "--tls")
MOST = 4
ONE, OTHER = "127.0.0.2", "127.0.0.3"
REQUEST = b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n"


def anybody() -> ssl.SSLContext:
    """What trusts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Strangers:
    """Connections that stay open, from addresses of this machine."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.open: list[asyncio.StreamWriter] = []

    async def silent(self, port: str, address: str) -> asyncio.StreamReader:
        """One that says nothing, not even that it speaks TLS."""
        number = urlsplit(self.server.ready[port]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", number, local_addr=(address, 0))
        self.open.append(writer)
        return reader

    async def answers(self, port: str, address: str) -> bool:
        """Whether one that speaks TLS is answered."""
        number = urlsplit(self.server.ready[port]).port
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", number, local_addr=(address, 0), ssl=anybody()
                )
                self.open.append(writer)
                writer.write(REQUEST)
                return await reader.readline() == b"HTTP/1.1 404 Not Found\r\n"
        except ConnectionError:
            return False

    async def limit(self, most: int) -> None:
        """So many connections of an address, and no more."""
        url, body = self.server.ready["controlUrl"] + "/settings", {"connectionsPerAddress": most}
        async with connections() as session, session.patch(url, json=body, ssl=anybody()) as reply:
            assert reply.status == 200


@pytest.fixture
async def strangers(start_server: StartServer) -> AsyncIterator[Strangers]:
    """Those at a cloud beyond loopback that speaks TLS, and takes few of each address."""
    made = Strangers(start_server(*BEYOND))
    await made.limit(MOST)
    yield made
    for each in made.open:
        with suppress(ConnectionError):
            each.close()


async def test_silent_connections_count_as_those_that_speak(strangers: Strangers) -> None:
    for number in range(MOST):
        await strangers.silent(PORTS[number % 3], ONE)
    for port in PORTS:
        await eventually(partial(strangers.answers, port, ONE), lambda answers: not answers)
        assert await strangers.answers(port, OTHER)
    strangers.open[0].close()
    await eventually(lambda: strangers.answers(PORTS[0], ONE), bool, what="the place of the connection that was closed")
    assert "Traceback" not in strangers.server.log


async def test_agreeing_on_tls_takes_no_second_place(strangers: Strangers) -> None:
    for number in range(MOST):
        assert await strangers.answers(PORTS[number % 3], ONE), number
    for port in PORTS:
        assert not await strangers.answers(port, ONE)


async def test_a_silent_connection_and_one_that_speaks_no_tls_end(strangers: Strangers) -> None:
    await strangers.limit(0)
    ends = [(await strangers.silent(port, ONE)).read() for port in PORTS]
    for port in PORTS:
        ends.append((await strangers.silent(port, ONE)).read())
        strangers.open[-1].write(REQUEST)
    async with asyncio.timeout(PATIENCE_SECONDS):
        ended = await asyncio.gather(*ends, return_exceptions=True)
    assert {type(end) for end in ended} <= {bytes, ConnectionResetError}, ended
    assert "Traceback" not in strangers.server.log


@pytest.mark.parametrize("port", PORTS)
async def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(strangers: Strangers, port: str) -> None:
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = anybody().wrap_bio(came, goes)
    reader = await strangers.silent(port, ONE)

    async def take() -> None:
        more = await reader.read(65536)
        assert more, "the connection ended"
        came.write(more)

    while True:
        with suppress(ssl.SSLWantReadError):
            talk.do_handshake()
            break
        strangers.open[-1].write(goes.read())
        await take()
    talk.write(REQUEST)
    strangers.open[-1].write(goes.read())
    answer = b""
    while not answer:
        await take()
        with suppress(ssl.SSLWantReadError):
            answer = talk.read()
    assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n")

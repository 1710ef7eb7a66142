"""What the egress guard lets out: the addresses that were checked, for those who were let in."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import threading
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from relay_operator.objectstores import egress
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.credentials import Credentials, S3Credentials, WebCredentials
from relay_operator.objectstores.egress import EgressGuard, EgressRefused, Limits, Passage, system_resolver
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores
from tests.objectstores.bucket import chunks, content, fails_for
from tests.objectstores.webserver import WebServer, web_server
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from relay_operator.objectstores.addresses import Address
    from tests.objectstores.bucket import Bucket

# 127.0.0.1 and the addresses next to it; not 127.0.0.8. Some systems call ::1 localhost, too.
ALLOWED = (ip_network("127.0.0.0/30"), ip_network("::1/128"))


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[WebServer]:
    async with web_server(tmp_path) as serving:
        serving.objects["/in"] = b"x"
        yield serving


def trusting(server: WebServer) -> Credentials:
    return WebCredentials(ca=server.ca)


class Names:
    """A resolver that knows these names, with the addresses that successive questions get."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = {name.replace("_", "."): list(addresses) for name, addresses in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("no such name")
        addresses = self.answers[host]
        found = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return [ip_address(each) for each in found.split()]


ADDRESSES = ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0", "[::]"]
NAMES = ["localhost", "127.1", "2130706433"]


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        *((host, StoreReason.NOT_ALLOWED) for host in ADDRESSES),
        *((host, StoreReason.UNREACHABLE) for host in NAMES),  # see the test of inner names below
    ],
)
async def test_loopback_is_refused_however_it_is_written(server: WebServer, host: str, reason: StoreReason) -> None:
    port = server.url.rpartition(":")[2]
    location = Location.parse(f"https://{host}:{port}/in")
    async with ObjectStores(StorePolicy()) as stores:
        for refused in (
            content(stores, location, trusting(server)),
            stores.exists(location, trusting(server)),
            stores.write(location, trusting(server), chunks(b"y")),
            stores.check_writable(location, trusting(server)),
        ):
            said = await fails_for(reason, refused)
            assert "RELAY_ALLOWED_PRIVATE_NETWORKS" in said
    assert server.requests == []


async def test_a_bucket_at_a_private_address_is_refused_at_once(bucket: Bucket) -> None:
    async with ObjectStores(StorePolicy()) as stores:
        for refused in (
            content(stores, bucket.location("object"), bucket.credentials()),
            stores.check_writable(bucket.location("object"), bucket.credentials()),
        ):
            said = await fails_for(StoreReason.NOT_ALLOWED, refused)
            assert "RELAY_ALLOWED_PRIVATE_NETWORKS" in said


async def test_a_name_that_leads_to_a_private_address_is_refused(server: WebServer) -> None:
    names = Names(files_example_com=["127.0.0.8"], mixed_example_com=["127.0.0.1 127.0.0.8"])
    port = server.url.rpartition(":")[2]
    async with ObjectStores(StorePolicy((), ALLOWED), resolve=names) as stores:
        for host in ("files.example.com", "mixed.example.com"):
            location = Location.parse(f"https://{host}:{port}/in")
            said = await fails_for(StoreReason.UNREACHABLE, content(stores, location, trusting(server)))
            assert "127.0.0.8" not in said
    assert server.requests == []


async def test_an_inner_name_is_answered_as_one_that_does_not_exist() -> None:
    names = Names(there_inside=["10.0.0.8"], half_inside=["93.184.215.14 10.0.0.8"])
    of_web: set[str] = set()
    of_bucket: set[str] = set()
    async with ObjectStores(StorePolicy(), resolve=names) as stores:
        for host in ("there.inside", "half.inside", "nowhere.inside"):
            for said, url, credentials in (
                (of_web, f"https://{host}/in", None),
                (of_bucket, "s3://bucket/in", S3Credentials("key", "secret", endpoint=f"https://{host}")),
            ):
                told = await fails_for(StoreReason.UNREACHABLE, content(stores, Location.parse(url), credentials))
                said.add(told.replace(host, "the name"))
    assert (len(of_web), len(of_bucket)) == (1, 1)


async def test_a_redirect_to_a_private_address_is_refused(server: WebServer) -> None:
    server.redirects["/in"] = "https://inside.example.com/metadata"
    names = Names(localhost=["127.0.0.1"], inside_example_com=["169.254.169.254"])
    async with ObjectStores(StorePolicy((), ALLOWED), resolve=names) as stores:
        location = Location.parse(f"{server.url}/in")
        await fails_for(StoreReason.UNREACHABLE, content(stores, location, trusting(server)))
    assert names.asked == ["localhost", "inside.example.com"]


async def test_a_name_that_changes_its_address_is_resolved_once_for_each_connection(server: WebServer) -> None:
    names = Names(localhost=["127.0.0.1", "127.0.0.8"])
    async with ObjectStores(StorePolicy((), ALLOWED), resolve=names) as stores:
        location = Location.parse(f"{server.url}/in")
        assert await content(stores, location, trusting(server)) == b"x"
        assert names.asked == ["localhost"]
        await fails_for(StoreReason.UNREACHABLE, content(stores, location, trusting(server)))


async def test_plain_http_is_refused_outside_of_networks_that_are_allowed() -> None:
    async with ObjectStores(StorePolicy(), resolve=Names(files_example_com=["93.184.215.14"])) as stores:
        location = Location.parse("http://files.example.com/in")
        said = await fails_for(StoreReason.NOT_ALLOWED, content(stores, location, None))
        assert "https" in said


async def test_a_name_that_nobody_knows_is_unreachable_and_said_so() -> None:
    async with ObjectStores(StorePolicy(), resolve=Names()) as stores:
        said = await fails_for(
            StoreReason.UNREACHABLE, content(stores, Location.parse("https://nowhere.example.com/in"), None)
        )
        assert "nowhere.example.com" in said


async def test_a_name_that_is_too_long_for_dns_is_no_such_name() -> None:
    async with ObjectStores(StorePolicy()) as stores:
        location = Location.parse(f"https://{'a' * 64}.example.com/in")
        said = await fails_for(StoreReason.UNREACHABLE, content(stores, location, None))
        assert "there is no such name" in said


async def test_names_whose_servers_do_not_answer_hold_back_no_lookup_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, system = threading.Event(), socket.getaddrinfo

    def slow(host: str | bytes, *rest: Any, **named: Any) -> Any:
        if host in ("slow.example.com", b"slow.example.com"):
            answers.wait()
            host = "127.0.0.1"
        return system(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    lookups = [asyncio.ensure_future(system_resolver("slow.example.com", 443)) for _ in range(64)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 443)
    finally:
        answers.set()
    assert await asyncio.gather(*lookups) == [[ip_address("127.0.0.1")]] * 64


@asynccontextmanager
async def _connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _said(port: int, request: bytes) -> bytes:
    """The first line of the proxy's answer."""
    async with _connection(port) as (reader, writer):
        writer.write(request)
        return (await reader.readline()).strip()


async def test_nobody_else_may_use_the_proxy(server: WebServer) -> None:
    target = server.url.removeprefix("https://")
    connect = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode()
    async with EgressGuard(ALLOWED) as guard:
        with guard.passage() as passage:
            admission = f"Proxy-Authorization: {passage.authorization}\r\n".encode()
            assert await _said(passage.port, connect + b"\r\n") == b"HTTP/1.1 407 Proxy authentication required"
            for guess in ("user:pass", f"{passage.user}:guess", f"{passage.user}:"):
                wrong = b"Proxy-Authorization: Basic " + base64.b64encode(guess.encode()) + b"\r\n"
                assert b" 407 " in await _said(passage.port, connect + wrong + b"\r\n")
            garbled = b"Proxy-Authorization: Basic \xe9\r\n"
            assert b" 407 " in await _said(passage.port, connect + garbled + b"\r\n")
            assert b" 407 " in await _said(passage.port, connect + admission + admission + b"\r\n")
            assert b" 200 " in await _said(passage.port, connect + admission + b"\r\n")
        assert b" 407 " in await _said(passage.port, connect + admission + b"\r\n")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://example.com/ HTTP/1.1\r\n\r\n",
        b"GET ftp://example.com/ HTTP/1.1\r\n\r\n",
        b"GET http://user:pass@example.com/ HTTP/1.1\r\n\r\n",
        b"CONNECT example.com HTTP/1.1\r\n\r\n",
        b"CONNECT example.com:99999 HTTP/1.1\r\n\r\n",
        b"CONNECT [::1%25eth0]:443 HTTP/1.1\r\n\r\n",
        b"CONNECT a@b:443 HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_what_the_proxy_does_not_understand_is_a_bad_request(head: bytes) -> None:
    async with EgressGuard(ALLOWED) as guard:
        with guard.passage() as passage:
            assert b" 400 " in await _said(passage.port, head)


async def test_a_header_that_is_too_large_is_refused() -> None:
    async with EgressGuard(ALLOWED, limits=Limits(header_bytes=1024)) as guard:
        with guard.passage() as passage:
            said = await _said(passage.port, b"GET http://a/ HTTP/1.1\r\nX: " + b"x" * 4096 + b"\r\n\r\n")
            assert b" 431 " in said


async def test_more_connections_than_the_limit_are_refused(server: WebServer) -> None:
    async with EgressGuard(ALLOWED, limits=Limits(connections=1)) as guard:
        with guard.passage() as passage:
            async with _connection(passage.port) as (reader, writer):
                target = server.url.removeprefix("https://")
                lines = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: {passage.authorization}\r\n\r\n"
                writer.write(lines.encode())
                assert b" 200 " in await reader.readline()
                assert b" 503 " in await _said(passage.port, b"GET http://a/ HTTP/1.1\r\n\r\n")


async def _ended(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await reader.read(1024):
            pass


@pytest.mark.parametrize("what", ["idle", "silent", "over"])
async def test_a_connection_ends_when_it_is_idle_or_its_passage_is_over(what: str) -> None:
    idle, header = (0.05 if what == short else 2 * PATIENCE_SECONDS for short in ("idle", "silent"))
    limits = Limits(idle_seconds=idle, header_seconds=header)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with EgressGuard(ALLOWED, limits=limits) as guard:
            with guard.passage() as passage:
                reader, writer = await asyncio.open_connection("127.0.0.1", passage.port)
                if what != "silent":
                    target = f"127.0.0.1:{mute.getsockname()[1]}"
                    lines = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: {passage.authorization}\r\n\r\n"
                    writer.write(lines.encode())
                    assert b" 200 " in await reader.readline()
                if what != "over":
                    await _ended(reader)
            await _ended(reader)
            writer.close()


async def test_the_secrets_of_a_passage_are_not_in_its_text() -> None:
    async with EgressGuard(ALLOWED) as guard:
        with guard.passage() as passage:
            assert passage.password not in repr(passage)


FOUND = (
    b'HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\nETag: "v"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n'
)
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9000000\r\n\r\n"


@asynccontextmanager
async def _answering(*answers: bytes) -> AsyncIterator[S3Credentials]:
    """An S3 service that gives each of its connections one of the answers, and then closes it; the last for ever."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as service:
        port = service.sockets[0].getsockname()[1]
        yield S3Credentials("key", "secret", endpoint=f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("before", [[], [FOUND + b"x" * 100_000]], ids=["at first", "for the rest"])
async def test_an_error_with_a_large_body_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, before: list[bytes]
) -> None:
    monkeypatch.setattr(egress, "_BEGUN_SECONDS", 0.1)
    monkeypatch.setattr("relay_operator.objectstores.reading._PAUSES", ())
    async with (
        _answering(*before, REFUSED + b"x" * 9_000_000) as credentials,
        ObjectStores(StorePolicy((), ALLOWED)) as stores,
    ):
        said = await fails_for(StoreReason.UNREACHABLE, content(stores, Location.parse("s3://bucket/key"), credentials))
    assert "too much" in said


async def test_content_that_comes_at_once_is_no_large_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "_BEGUN_SECONDS", PATIENCE_SECONDS)
    async with (
        _answering(FOUND + b"x" * 9_000_000) as credentials,
        ObjectStores(StorePolicy((), ALLOWED)) as stores,
    ):
        assert await content(stores, Location.parse("s3://bucket/key"), credentials) == b"x" * 9_000_000


async def _received(passage: Passage, pieces: int, sent: int) -> None:
    for _ in range(pieces):
        await passage.sent(sent)
        await passage.received(1)


async def test_an_answer_comes_in_a_bounded_number_of_pieces_and_each_part_of_an_upload_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(egress, "_BEGUN_SECONDS", 0.0)
    async with EgressGuard(ALLOWED) as guard:
        with guard.passage() as passage:
            await passage.first_of(_received(passage, 4_096, sent=0))
            await passage.first_of(_received(passage, 10_000, sent=65_536))
            await _received(passage, 10_000, sent=0)  # nobody waits for a result
            with pytest.raises(EgressRefused):
                await passage.first_of(_received(passage, 4_097, sent=0))

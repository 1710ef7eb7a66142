"""Reading from and writing to web servers, over real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import threading
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_operator.objectstores import web
from relay_operator.objectstores.credentials import Credentials, WebCredentials
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.own_thread import own_thread
from tests.objectstores.bucket import MEBIBYTE, chunks, content, fails_for, mebibytes
from tests.objectstores.webserver import WebServer, web_server
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.scripted import Raw, scripted_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator
    from pathlib import Path

    from relay_operator.objectstores.stores import ObjectStores

BODY = bytes(range(256)) * 4096 * 3


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[WebServer]:
    async with web_server(tmp_path) as serving:
        yield serving


@pytest.fixture
def trusting(server: WebServer) -> Credentials:
    return WebCredentials(ca=server.ca)


def at(server: WebServer, path: str) -> Location:
    return Location.parse(server.url + path)


async def test_what_was_written_over_tls_is_read_again(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    written = await stores.write(at(server, "/out.jsonl"), trusting, chunks(b"one\n", b"two\n"))
    async with stores.read(at(server, "/out.jsonl"), trusting) as reading:
        assert (reading.size, reading.version) == (8, written)
        assert b"".join([piece async for piece in reading]) == b"one\ntwo\n"


async def test_a_certificate_that_nobody_trusted_has_signed_is_refused(stores: ObjectStores, server: WebServer) -> None:
    server.objects["/in"] = b"x"
    said = await fails_for(StoreReason.UNREACHABLE, content(stores, at(server, "/in"), None))
    assert "ca.crt" in said


async def test_the_query_of_a_signed_url_is_sent_and_never_told(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    location = at(server, "/missing?X-Amz-Signature=deadbeef")
    said = await fails_for(StoreReason.NOT_FOUND, content(stores, location, trusting))
    assert server.requests[-1][1] == "/missing?X-Amz-Signature=deadbeef"
    assert "deadbeef" not in said + str(location) + repr(location)


async def test_authorization_is_sent_and_a_wrong_one_is_forbidden(stores: ObjectStores, server: WebServer) -> None:
    server.objects["/in"], server.authorization = b"x", "Bearer right"
    right, wrong = (WebCredentials(f"Bearer {token}", server.ca) for token in ("right", "wrong"))
    assert await content(stores, at(server, "/in"), right) == b"x"
    for refused in (content(stores, at(server, "/in"), wrong), stores.check_writable(at(server, "/out"), wrong)):
        said = await fails_for(StoreReason.FORBIDDEN, refused)
        assert "wrong" not in said
    await stores.check_writable(at(server, "/out"), right)
    assert "/out" not in server.objects


async def test_what_is_there_is_replaced_by_one_put(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    server.objects["/out"] = b"first"
    await stores.write(at(server, "/out"), trusting, mebibytes(12))
    assert len(server.objects["/out"]) == 12 * MEBIBYTE
    assert [method for method, _, _ in server.requests] == ["PUT"]


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_read_that_is_cut_goes_on_also_where_ranges_are_not_known(
    stores: ObjectStores, server: WebServer, trusting: Credentials, ranges: bool
) -> None:
    server.objects["/in"], server.ranges = BODY, ranges
    server.cuts = [MEBIBYTE, MEBIBYTE + MEBIBYTE // 2]
    assert await content(stores, at(server, "/in"), trusting) == BODY


async def test_a_read_that_is_cut_is_given_up_where_nothing_tells_versions_apart(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    server.objects["/in"], server.versions, server.cuts = BODY, False, [MEBIBYTE]
    await fails_for(StoreReason.UNREACHABLE, content(stores, at(server, "/in"), trusting))
    assert len(server.requests) == 1


ENDLESS = [
    b'HTTP/1.1 200 OK\r\nETag: "1"\r\n\r\none\n',
    b"HTTP/1.0 200 OK\r\n\r\none\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/*\r\nContent-Length: 4\r\n\r\none\n",
]


@pytest.mark.parametrize("answer", ENDLESS, ids=["until it closes", "of HTTP/1.0", "a range of something"])
async def test_what_may_be_a_part_is_not_taken_for_the_whole(stores: ObjectStores, answer: bytes) -> None:
    async with scripted_server() as plain:
        plain.will(Raw(answer))
        said = await fails_for(StoreReason.INVALID, content(stores, Location.parse(f"{plain.url}/in"), None))
    assert "does not say where it ends" in said


async def test_a_chunked_answer_is_whole_once_its_last_chunk_has_come(stores: ObjectStores) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    async with scripted_server() as plain:
        plain.will(Raw(head + b"0\r\n\r\n"), Raw(head))
        location = Location.parse(f"{plain.url}/in")
        assert await content(stores, location, None) == b"one\n"
        await fails_for(StoreReason.UNREACHABLE, content(stores, location, None))


@pytest.mark.parametrize("late", [False, True], ids=["while it is read", "before it is read on"])
async def test_a_malformed_chunk_ends_a_read(
    stores: ObjectStores, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """The HTTP client drops its own timeout then, and would wait for ever."""
    monkeypatch.setattr("relay_operator.objectstores.web._SILENCE_SECONDS", 0.5)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await begun.wait()
        writer.write(b"no number\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    async def read(location: Location) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), stores.read(location, None) as reading:
            async for _ in reading:
                begun.set()
                if late:
                    await ended.wait()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        await fails_for(StoreReason.UNREACHABLE, read(Location.parse(f"http://127.0.0.1:{port}/in")))


async def test_an_object_that_is_replaced_midway_has_changed(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    server.objects["/in"], server.cuts = BODY, [MEBIBYTE]
    async with stores.read(at(server, "/in"), trusting) as reading:
        server.objects["/in"] = BODY[::-1]
        await fails_for(StoreReason.CHANGED, _drained(reading))


async def test_authorization_does_not_follow_a_redirect_to_another_origin(
    stores: ObjectStores, server: WebServer, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with web_server(tmp_path / "other") as other:
        other.objects["/moved"] = b"x"
        server.redirects["/in"] = f"{other.url}/moved"
        credentials = WebCredentials("Bearer secret", server.ca + other.ca)
        assert await content(stores, at(server, "/in"), credentials) == b"x"
        assert "Authorization" in server.requests[0][2]
        assert "Authorization" not in other.requests[0][2]


async def test_a_redirect_away_from_tls_is_not_followed(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    async with web_server() as plain:
        plain.objects["/moved"] = b"x"
        server.redirects["/in"] = f"{plain.url}/moved"
        await fails_for(StoreReason.NOT_ALLOWED, content(stores, at(server, "/in"), trusting))
        assert plain.requests == []


async def test_redirects_in_a_circle_end(stores: ObjectStores, server: WebServer, trusting: Credentials) -> None:
    server.redirects["/in"] = "/in"
    await fails_for(StoreReason.INVALID, content(stores, at(server, "/in"), trusting))


async def test_nothing_is_published_where_the_bytes_cannot_be_made(
    stores: ObjectStores, server: WebServer, trusting: Credentials
) -> None:
    class Broken(Exception): ...

    async def breaking() -> AsyncIterator[bytes]:
        async for piece in mebibytes(12):
            yield piece
        raise Broken

    with pytest.raises(Broken):
        await stores.write(at(server, "/out"), trusting, breaking())
    await server.broken_off.wait()
    assert server.objects == {}


async def test_plain_http_works_inside_networks_that_are_allowed(stores: ObjectStores) -> None:
    async with web_server() as plain:
        await stores.write(at(plain, "/out"), WebCredentials("Bearer x"), chunks(b"x"))
        assert await content(stores, at(plain, "/out"), None) == b"x"
        assert not [headers for _, _, headers in plain.requests if "Proxy-Authorization" in headers]


class _Held:
    """Work of another thread that lasts until the test lets it go on."""

    def __init__(self) -> None:
        self._loop, self.begun, self.may_go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.may_go_on.wait(PATIENCE_SECONDS), "the event loop, or another read, waits, too"


async def test_a_handshake_that_lasts_holds_up_nobody_else(
    stores: ObjectStores, server: WebServer, trusting: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL decodes all certificates of a server in one go, and a hostile one makes each last."""
    server.objects["/in"] = b"x"
    held, handshake = _Held(), ssl.SSLObject.do_handshake

    def slow(self: ssl.SSLObject) -> None:
        if not self.server_side:
            held.wait()
        handshake(self)

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", slow)
    read = asyncio.create_task(content(stores, at(server, "/in"), trusting))
    await held.begun.wait()
    async with web_server() as another:
        another.objects["/in"] = b"y"
        assert await content(stores, at(another, "/in"), None) == b"y"
    held.may_go_on.set()
    assert await read == b"x"


async def test_certificates_of_a_secret_are_read_where_they_hold_up_nobody_else(
    stores: ObjectStores, server: WebServer, trusting: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python lets other threads run only while it loads them from a file."""
    server.objects["/in"] = b"x"
    held, load = _Held(), ssl.SSLContext.load_verify_locations

    def slow(self: ssl.SSLContext, cafile: str = "", *, cadata: str = "") -> None:
        held.wait()
        assert not cadata, "other threads wait, too"
        load(self, cafile)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", slow)
    read = asyncio.create_task(content(stores, at(server, "/in"), trusting))
    await held.begun.wait()
    held.may_go_on.set()
    assert await read == b"x"


@pytest.mark.parametrize(
    "ca", ["no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ä"]
)
async def test_what_is_no_certificate_is_said_to_be_none(stores: ObjectStores, server: WebServer, ca: str) -> None:
    said = await fails_for(StoreReason.INVALID, content(stores, at(server, "/in"), WebCredentials(ca=ca)))
    assert "is not a PEM certificate" in said


@pytest.mark.parametrize("direction", ["read", "write"])
async def test_a_cancelled_transfer_ends_its_connection(stores: ObjectStores, direction: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        while await reader.read(MEBIBYTE):
            pass
        ended.set()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as plain:
        location = Location.parse(f"http://127.0.0.1:{plain.sockets[0].getsockname()[1]}/it")
        work = content(stores, location, None) if direction == "read" else stores.write(location, None, mebibytes(12))
        transfer = asyncio.create_task(work)
        await begun.wait()
        transfer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await transfer
        await ended.wait()


async def test_no_connection_outlasts_its_store_with_what_it_has_still_to_send() -> None:
    """Without garbage collection, which may come late."""
    begun, may_read, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await may_read.wait()
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(MEBIBYTE):
                pass
        ended.set()
        writer.close()

    async def put(location: Location) -> None:
        async with own_thread(web._session(location, WebCredentials())) as http:
            await http.run(http.client.put(location.url, data=http.pulled(chunks(bytes(64 * MEBIBYTE)))))

    gc.disable()
    try:
        async with await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1024) as plain:
            location = Location.parse(f"http://127.0.0.1:{plain.sockets[0].getsockname()[1]}/out")
            transfer = asyncio.create_task(put(location))
            await begun.wait()
            transfer.cancel()
            with pytest.raises(asyncio.CancelledError):
                await transfer
            may_read.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await ended.wait()
    finally:
        gc.enable()


async def _drained(reading: AsyncIterable[bytes]) -> None:
    async for _ in reading:
        pass

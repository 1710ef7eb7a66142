"""What is not HTTP, and a head that is refused, are answered as every other error of the API whose port it came to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.http.connections import LARGEST_HEAD
from tests.localcloud.http.test_heads import opened
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server

HOST = b"Host: a\r\n"
MALFORMED = {
    "a letter that is not encoded": b"GET /v1/vms/\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a path without a slash": b"GET v1/whoami HTTP/1.1\r\n" + HOST + b"\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "two lengths": b"POST /v1/pods HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a chunk without its size": b"POST /v1/pods HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
}


async def answer_to(server: Server, port: str, raw: bytes) -> tuple[int, Any]:
    """The status and the JSON of the only answer, after which the connection ends."""
    reader, writer = await opened(server, port)
    writer.write(raw)
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        answered = await reader.read()
    writer.close()
    assert b"content-type: application/json\r\n" in head
    assert b"connection: close\r\n" in head
    return int(head.split()[1]), json.loads(answered)


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_not_http_is_400_in_the_shape_of_its_api(server: Server, raw: bytes) -> None:
    status, body = await answer_to(server, "managementUrl", raw)
    assert (status, sorted(body), body["code"]) == (400, ["code", "error"], "invalid_request")
    status, body = await answer_to(server, "inferenceUrl", raw)
    assert (status, sorted(body), sorted(body["error"])) == (400, ["error"], ["code", "message", "type"])
    assert (body["error"]["type"], body["error"]["code"]) == ("invalid_request_error", None)
    assert "Traceback" not in server.log


@pytest.mark.parametrize("port", ["managementUrl", "inferenceUrl", "gatewayUrl"])
@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", 0, 400), ("1.1", 1, 404), ("1.1", 2, 400), ("1.0", 0, 404), ("1.0", 2, 400)],
)
async def test_a_request_names_the_server_once(
    server: Server, port: str, version: str, hosts: int, status: int
) -> None:
    raw = f"GET /nothing HTTP/{version}\r\n".encode() + HOST * hosts + b"Connection: close\r\n\r\n"
    reader, writer = await opened(server, port)
    writer.write(raw)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert int((await reader.read()).split()[1]) == status
    writer.close()


@pytest.mark.parametrize("path", [b"/v1/models", b"/v1/messages"])
async def test_a_head_that_is_refused_has_the_shape_of_its_api(server: Server, path: bytes) -> None:
    raw = b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"X-Long: " + b"x" * 2 * LARGEST_HEAD
    status, body = await answer_to(server, "managementUrl", raw)
    assert (status, sorted(body)) == (431, ["code", "error"])
    status, body = await answer_to(server, "inferenceUrl", raw)
    assert (status, body["error"]["type"], body["error"]["code"]) == (431, "invalid_request_error", None)
    assert ("type" in body) is (path == b"/v1/messages")


@pytest.mark.parametrize("after", ["GET v1", "\0"])
async def test_what_is_not_http_is_no_answer_to_the_request_before_it(server: Server, after: str) -> None:
    delay = {"operation": "GET /v1/locations", "effect": {"delaySeconds": PATIENCE_SECONDS}, "count": 1}
    await server.ok("POST", "/faults", delay)
    reader, writer = await opened(server, "managementUrl")
    key = server.ready["apiKey"].encode()
    writer.write(b"GET /v1/locations HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + key + b"\r\n\r\n")
    await eventually(lambda: server.ok("GET", "/faults"), lambda kept: kept["items"][-1]["seen"], what="the request")
    writer.write(after.encode() + b" HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    assert (await request("GET", server.url + "/v1/locations", key=server.ready["apiKey"])).status == 200
    writer.close()

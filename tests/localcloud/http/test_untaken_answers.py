"""An answer that its client does not take is kept for it for a bounded time, on every port."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.localcloud.support.gateway import running
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

SIZE = 6_000_000
"""More than the system's own buffers hold."""


def _asked(method: str, host: str, path: str, key: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + body


def _chat() -> bytes:
    return json.dumps({"model": "echo", "messages": [{"role": "user", "content": "word " * (SIZE // 5)}]}).encode()


async def _opened(url: str) -> socket.socket:
    parts = urlsplit(url)
    opened = socket.socket()
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, (parts.hostname, parts.port))
    return opened


@pytest.mark.parametrize("port", ["inferenceUrl", "gatewayUrl"])
async def test_who_takes_nothing_is_cut_off_and_who_takes_it_gets_all_of_it(
    organization: Organization, port: str
) -> None:
    server, loop = organization.server, asyncio.get_running_loop()
    workload = await running(organization)
    asked = {
        "inferenceUrl": _asked("POST", "127.0.0.1", "/v1/chat/completions", organization.api_key, _chat()),
        "gatewayUrl": _asked("POST", workload.host, "/", organization.api_key, b"x" * SIZE),
    }[port]
    busy = await _opened(server.ready[port])
    await loop.sock_sendall(busy, asked)
    received = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(received) < SIZE:
            piece = await loop.sock_recv(busy, 65_536)
            assert piece, "it is cut off"
            received += piece
    assert received.startswith(b"HTTP/1.1 200")
    still = await _opened(server.ready[port])
    await loop.sock_sendall(still, asked[:-1])
    await server.ok("PATCH", "/settings", {"stalledBodySeconds": 3})
    try:
        await loop.sock_sendall(still, asked[-1:])

        async def is_answered() -> bool:
            try:
                return bool(still.recv(1, socket.MSG_PEEK))
            except BlockingIOError:
                return False

        async def is_open() -> bool:
            try:
                return bool(still.send(b"G"))
            except ConnectionError:
                return False

        await eventually(is_answered, what="the beginning of the answer")
        await eventually(is_open, lambda found: not found, within=30, what="the connection is cut off")
    finally:
        await server.ok("PATCH", "/settings", {"stalledBodySeconds": 30})

"""A minimal HTTP/1.1 client, so that the measuring process takes little of the cores that it shares.

It understands answers with a Content-Length and answers without a body.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

_HEAD_ENDS = b"\r\n\r\n"
_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    status: int
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - a document
        """Returns the parsed body; None if it is empty. Raises AssertionError if the status is not a success."""
        assert self.status < 300, (self.status, self.body)
        return json.loads(self.body) if self.body else None


def request(method: str, path: str, body: object = None, *, key: str = "") -> bytes:
    """Returns the bytes of a request."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    head += [f"Authorization: Bearer {key}"] if key else []
    sent = b"" if body is None else json.dumps(body).encode()
    head += ["Content-Type: application/json", f"Content-Length: {len(sent)}"] if sent else []
    return "\r\n".join([*head, "", ""]).encode() + sent


class Connection(asyncio.Protocol):
    """One persistent connection, for one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._reply: asyncio.Future[Reply] | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connects to the origin of a URL."""
        origin = urlsplit(url)
        where = origin.hostname or "127.0.0.1", origin.port or 80
        _, connection = await asyncio.get_running_loop().create_connection(cls, *where)
        return connection

    async def ask(self, sent: bytes) -> Reply:
        """Sends a request and returns the reply. Raises TimeoutError, or ConnectionError if the connection is lost."""
        assert self._transport is not None
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        async with asyncio.timeout(_WITHIN):
            return await self._reply

    async def timed(self, sent: bytes) -> float:
        """Returns the seconds that a request takes; raises AssertionError if the status is not 200."""
        started = time.perf_counter()
        reply = await self.ask(sent)
        took = time.perf_counter() - started
        assert reply.status == 200, reply
        return took

    def close(self) -> None:
        """Closes the connection."""
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        self._received += data
        head, ended, rest = bytes(self._received).partition(_HEAD_ENDS)
        if not ended or len(rest) < (length := _content_length(head)):
            return
        self._received.clear()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(Reply(int(head[9:12]), rest[:length]))

    def connection_lost(self, error: Exception | None) -> None:
        """As asyncio calls it."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or ConnectionError("the connection was closed"))


async def ask_all(url: str, requests: Sequence[bytes], connections: int) -> list[Reply]:
    """Sends all requests over so many connections; returns the replies in the order of the requests."""
    replies: list[Reply | None] = [None] * len(requests)
    waiting = iter(enumerate(requests))

    async def asker() -> None:
        connection = await Connection.open(url)
        for number, sent in waiting:
            replies[number] = await connection.ask(sent)
        connection.close()

    await asyncio.gather(*(asker() for _ in range(connections)))
    return [reply for reply in replies if reply is not None]


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0

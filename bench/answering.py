"""A minimal HTTP/1.1 server that answers every request at once and counts them.

`python -m bench.answering` prints its URL and serves until killed.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"ok": true}'
_HEAD_ENDS = b"\r\n\r\n"


@dataclass
class Answering:
    """The server's URL and the number of requests that it has answered."""

    url: str = ""
    answered: int = 0


class _Client(asyncio.Protocol):
    """The connection of a client that makes one request at a time."""

    def __init__(self, server: Answering) -> None:
        self._server = server
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, rest = bytes(self._received).partition(_HEAD_ENDS)
        if not ended or len(rest) < _content_length(head):
            return
        self._received.clear()
        self._server.answered += 1
        assert self._transport is not None
        self._transport.write(_ANSWER)


@asynccontextmanager
async def answering() -> AsyncIterator[Answering]:
    """Serves on a free local port until the block ends."""
    told = Answering()
    server = await asyncio.get_running_loop().create_server(lambda: _Client(told), "127.0.0.1", 0)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield told
    finally:
        server.close()


@asynccontextmanager
async def answering_apart() -> AsyncIterator[str]:
    """Serves in a separate process and yields its URL, so that clients do not share an event loop with the server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.answering", stdout=PIPE, cwd=Path(__file__).parents[1]
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def _serve() -> None:
    async with answering() as told:
        print(told.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())

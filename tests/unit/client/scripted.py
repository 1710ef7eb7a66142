"""A real HTTP/1.1 server on a real socket that does to each request what a test scripted."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import BaseModel, JsonValue


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """A whole answer; `announced` is a Content-Length that promises more than is sent, `drip` a pause between bytes."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str | None = "application/json"
    announced: int | None = None
    drip: float = 0.0
    linger: bool = False
    """Keep the connection open after an answer that promised more."""


@dataclass(frozen=True)
class Raw:
    """These bytes, then the end of the connection."""

    data: bytes


@dataclass(frozen=True)
class Drop:
    """Closes the connection: after the request was read, or as soon as its first bytes came."""

    unread: bool = False


@dataclass(frozen=True)
class Hang:
    """Never answers."""


@dataclass(frozen=True)
class Early:
    """Reads this much of the body, does `then`, and closes the connection with what it did not read."""

    after: int
    then: Reply | Raw | Drop | Hang


Step = Reply | Raw | Drop | Hang | Early


def page(*items: BaseModel | Mapping[str, JsonValue], cursor: str = "") -> Reply:
    """A page of a list, as the cloud answers it."""
    rows = [item.model_dump(by_alias=True) if isinstance(item, BaseModel) else item for item in items]
    return Reply(body=json.dumps({"items": rows, "nextCursor": cursor}).encode())


class ScriptedServer:
    """Answers request after request with the next step of its script; the last step goes on for ever."""

    def __init__(self) -> None:
        self.script: deque[Step] = deque()
        self.seen: list[Seen] = []
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()
        self.connections = 0
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()
        self._closing = asyncio.Event()

    def will(self, *steps: Step) -> None:
        """Sets the script."""
        self.script = deque(steps)

    @property
    def targets(self) -> list[str]:
        """Method and target of every request seen."""
        return [f"{seen.method} {seen.target}" for seen in self.seen]

    def push(self, data: bytes) -> None:
        """Sends unasked on every connection, before the event loop of either side can notice; nothing: hangs up."""
        for writer in self._open:
            with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as connection:
                if data:
                    connection.sendall(data)
                else:
                    connection.shutdown(socket.SHUT_WR)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        self._open.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not self._closing.is_set():
                step = self.script[0]
                if isinstance(step, Drop) and step.unread:
                    await reader.readexactly(1)
                    self._advance()
                    break
                self.seen.append(await _request(reader, step.after if isinstance(step, Early) else None))
                self.asked.set()
                if not await self._act(self._advance(), writer):
                    break
        self._open.discard(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.ended.set()

    def _advance(self) -> Step:
        return self.script.popleft() if len(self.script) > 1 else self.script[0]

    async def _act(self, step: Step, writer: asyncio.StreamWriter) -> bool:
        match step:
            case Hang():
                await self._closing.wait()
                return False
            case Drop():
                return False
            case Raw(data):
                writer.write(data)
                await writer.drain()
                return False
            case Reply():
                for piece in _pieces(step):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(step.drip)
                if step.linger:
                    await self._closing.wait()
                return step.announced is None
            case Early():
                await self._act(step.then, writer)
                return False

    def close(self) -> None:
        """Ends what still hangs."""
        self._closing.set()
        for writer in list(self._open):
            writer.close()


async def _request(reader: asyncio.StreamReader, part: int | None) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if part is not None:
        body = await reader.readexactly(part)
    elif headers.get("transfer-encoding") == "chunked":
        body = await _chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    chunks: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(chunks)


def _pieces(reply: Reply) -> Iterable[bytes]:
    length = len(reply.body) if reply.announced is None else reply.announced
    headers = {"Content-Length": str(length), **reply.headers}
    if reply.content_type is not None:
        headers["Content-Type"] = reply.content_type
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {reply.status} {_phrase(reply.status)}\r\n{lines}\r\n".encode("latin-1")
    if not reply.drip:
        return [head + reply.body]
    return [head, *(reply.body[at : at + 1] for at in range(len(reply.body)))]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Odd"


@contextlib.asynccontextmanager
async def scripted_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """A server on a free port of the loopback interface."""
    server = ScriptedServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listener.close()
        server.close()

"""Stands in for an API server and its kubelet: what is executed in a container runs on this machine, as it would there.

It speaks `v5.channel.k8s.io` as Kubernetes does: real processes, real terminals.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from relay_kube.execution import Execution, executed
from relay_kube.forwarding import Forwarded, forwarded
from relay_kube.kube import ApiAccess, Kube
from relay_localcloud.runtimes.kubernetes.names import CONTAINER, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_localcloud.runtimes.runtime import Way

PROTOCOL = "v5.channel.k8s.io"


@dataclass
class Kubelet:
    """The containers of this machine; a `Containers`."""

    kube: Kube | None = None
    asked: list[Any] = field(default_factory=list)
    """Path and query of what was executed."""
    path: str = ""
    """Where containers find programs; empty: where this process does."""
    files: dict[str, str] = field(default_factory=dict)
    """Where on this machine files of containers are."""
    status: int = 0
    """What a request is answered with instead; 0: it is served."""
    running: set[int] = field(default_factory=set)
    """The processes that run."""

    def __post_init__(self) -> None:
        self.moved: Callable[[str], None] = lambda _: None

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """There is none."""
        return None

    async def log(
        self, organization_id: str, workload_id: str, *, tail: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Empty: no test writes to it."""
        nothing: tuple[bytes, ...] = ()
        for line in nothing:
            yield line

    def execute(
        self, organization_id: str, workload_id: str, command: Sequence[str], *, terminal: bool
    ) -> AbstractAsyncContextManager[Execution]:
        """As the runtime of Kubernetes does it."""
        assert self.kube is not None
        place = namespace_of(organization_id), name_of(workload_id)
        return executed(self.kube, *place, CONTAINER, command, terminal=terminal)

    def forward(self, organization_id: str, workload_id: str, port: int) -> AbstractAsyncContextManager[Forwarded]:
        """As the runtime of Kubernetes does it."""
        assert self.kube is not None
        return forwarded(self.kube, namespace_of(organization_id), name_of(workload_id), port)

    async def serve_port(self, request: web.Request) -> web.StreamResponse:
        """A connection to a port of this machine, as kubelets have it."""
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        assert socket.ws_protocol == "v4.channel.k8s.io"
        port = int(request.query["ports"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await socket.send_bytes(b"\x01" + f"error forwarding port {port}: {error}".encode())
            await socket.close()
            return socket
        coming = asyncio.create_task(_passed(reader, socket, 0))
        going = asyncio.create_task(_taken(socket, writer))
        await asyncio.wait([coming, going], return_when=asyncio.FIRST_COMPLETED)
        for task in (coming, going):
            task.cancel()
        writer.close()
        await socket.close()
        return socket

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A request to the subresource."""
        self.asked.append((request.path, list(request.query.items())))
        if self.status:
            return web.json_response({"kind": "Status", "reason": "x", "message": "no"}, status=self.status)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        assert socket.ws_protocol == PROTOCOL
        terminal = request.query["tty"] == "true"
        command = [self._here(word) for word in request.query.getall("command")]
        try:
            status = await self._executed(socket, command, terminal=terminal)
        except FileNotFoundError as error:
            status = {"status": "Failure", "reason": "InternalError", "message": f"exec failed: {error.filename!r}"}
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    def _here(self, word: str) -> str:
        for there, here in self.files.items():
            word = word.replace(there, here)
        return word

    async def _executed(self, socket: web.WebSocketResponse, command: list[str], *, terminal: bool) -> dict[str, Any]:
        environment = {**os.environ, **({"PATH": self.path} if self.path else {})}
        if self.path:
            command = [str(Path(self.path) / command[0]), *command[1:]]
        process, ends = await (_with_terminal if terminal else _with_pipes)(command, environment)
        self.running.add(process.pid)
        outputs = [asyncio.create_task(_passed(reader, socket, channel)) for channel, reader in ends.outputs]
        inputs = asyncio.create_task(_fed(socket, ends))
        try:
            await asyncio.wait([inputs, asyncio.create_task(process.wait())], return_when=asyncio.FIRST_COMPLETED)
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)  # whoever executed it is gone
            code = await process.wait()
            await asyncio.gather(*outputs)
        finally:
            inputs.cancel()
            self.running.discard(process.pid)
        causes = [{"reason": "ExitCode", "message": str(code)}]
        failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
        return failed if code else {"status": "Success"}


@dataclass
class _Ends:
    outputs: list[tuple[int, asyncio.StreamReader]]
    input: asyncio.StreamWriter
    terminal: int | None = None


async def _with_pipes(command: list[str], environment: dict[str, str]) -> tuple[asyncio.subprocess.Process, _Ends]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process, _Ends([(1, process.stdout), (2, process.stderr)], process.stdin)


async def _with_terminal(command: list[str], environment: dict[str, str]) -> tuple[asyncio.subprocess.Process, _Ends]:
    loop = asyncio.get_running_loop()
    own, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    reader = _shown_on(os.dup(own))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(own, "wb", 0)
    )
    return process, _Ends([(1, reader)], asyncio.StreamWriter(transport, protocol, None, loop), own)


def _shown_on(terminal: int) -> asyncio.StreamReader:
    """What is shown on a terminal, to its end; asyncio's own pipes drop what came before the error that ends it."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()

    def read() -> None:
        try:
            data = os.read(terminal, 32 * 1024)
        except OSError:
            data = b""
        if data:
            reader.feed_data(data)
        else:
            loop.remove_reader(terminal)
            os.close(terminal)
            reader.feed_eof()

    loop.add_reader(terminal, read)
    return reader


async def _passed(reader: asyncio.StreamReader, socket: web.WebSocketResponse, channel: int) -> None:
    while data := await reader.read(32 * 1024):
        await socket.send_bytes(bytes([channel]) + data)


async def _taken(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    async for message in socket:
        assert message.data[0] == 0
        writer.write(message.data[1:])
        await writer.drain()


async def _fed(socket: web.WebSocketResponse, ends: _Ends) -> None:
    async for message in socket:
        channel, data = message.data[0], message.data[1:]
        if channel == 0:
            ends.input.write(data)
            with suppress(ConnectionError):
                await ends.input.drain()
        elif channel == 4 and ends.terminal is not None:
            size = json.loads(data)
            fcntl.ioctl(ends.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        elif channel == 255:
            assert data == b"\x00"
            ends.input.close()


@asynccontextmanager
async def kubelet() -> AsyncIterator[Kubelet]:
    """It listens as long as the context lasts."""
    own = Kubelet()
    application = web.Application()
    pod = "/api/v1/namespaces/{namespace}/pods/{pod}"
    application.router.add_get(f"{pod}/exec", own.serve)
    application.router.add_get(f"{pod}/portforward", own.serve_port)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        own.kube = Kube(ApiAccess(f"http://127.0.0.1:{port}", session))
        yield own
    await runner.cleanup()

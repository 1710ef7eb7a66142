"""The event loop of a cloud whose workloads are containers loses nothing that a cluster's API server has sent."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from socket import create_server
from typing import TYPE_CHECKING, Final

from relay_localcloud.runtimes.kubernetes.config import RuntimeConfig
from relay_localcloud.serve import loop_factory
from tests.support.certificates import write_serving_certificate

if TYPE_CHECKING:
    from socket import socket

SENT: Final = 300_000
"""Bytes; more than asyncio and uvloop read at once, less than what a socket's buffers hold."""
TURNS: Final = 20
"""Turns in which a loop has read all that the server sent, its end included."""
CONTAINERS: Final = RuntimeConfig.model_validate(
    {"gpuModels": [{"id": "A100", "nodeLabels": {"gpu": "A100"}, "pricePerHourCents": 100}]}
)


def test_what_a_server_sent_before_it_closed_the_connection_arrives_though_reading_was_paused(tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    with create_server(("127.0.0.1", 0)) as listener, asyncio.Runner(loop_factory=loop_factory(CONTAINERS)) as runner:
        closed = threading.Event()
        server = threading.Thread(target=send_and_close, args=(listener, tmp_path, closed))
        server.start()
        assert runner.run(received(listener.getsockname()[1], tmp_path / "ca.crt", closed)) == SENT
        server.join()


def send_and_close(listener: socket, certificates: Path, closed: threading.Event) -> None:
    """What Go's servers do: the data, `close_notify`, and the end of the connection at once."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    with listener.accept()[0] as plain, tls.wrap_socket(plain, server_side=True) as connection:
        connection.sendall(bytes(SENT))
    closed.set()


class Paused(asyncio.Protocol):
    """Pauses at the first data until the server has closed the connection."""

    def __init__(self, closed: threading.Event) -> None:
        self._closed = closed
        self.count = 0
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.count:
            self.transport.pause_reading()
            self.resuming = asyncio.get_running_loop().create_task(self.resume())
        self.count += len(data)

    async def resume(self) -> None:
        await asyncio.to_thread(self._closed.wait, 60)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


async def received(port: int, authority: Path, closed: threading.Event) -> int:
    """The number of bytes that arrive."""
    trust = ssl.create_default_context(cafile=str(authority))
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Paused(closed), "127.0.0.1", port, ssl=trust)
    async with asyncio.timeout(60):
        await protocol.lost
    return protocol.count

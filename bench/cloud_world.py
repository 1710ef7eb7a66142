"""The local cloud alone with many pods, and the floor for comparison."""

import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import wire
from bench.usage import usage
from bench.wire import Reply, ask_all
from tests.localcloud.support.server import Organization, Server

CONNECTIONS = 16
GPUS_A_NODE = 8
FUNDS = 10**12
"""The organization's initial balance, in cents."""
UNTIL_RUNNING = 2
"""Seconds of the cloud's clock from a create until the pod runs, with default settings."""


@dataclass(frozen=True, slots=True)
class Took:
    """A number of requests with the server's CPU seconds and the wall-clock seconds that they took."""

    count: int
    cpu: float
    wall: float

    @property
    def a_cpu_second(self) -> float:
        """Requests per CPU second."""
        return self.count / self.cpu


@dataclass(frozen=True, slots=True)
class Cloud:
    """A local cloud with its state in a folder, and one organization with ample funds."""

    server: Server
    organization: Organization

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self.server.child.pid

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """Returns the bytes of a request with the organization's key; `{org}` in the path becomes its id."""
        return wire.request(method, path.replace("{org}", self.organization.id), body, key=self.organization.api_key)

    async def all(self, requests: list[bytes]) -> list[Reply]:
        """Sends requests to the management port and returns their replies, in order."""
        return await ask_all(self.server.url, requests, CONNECTIONS)

    async def add_room(self, gpus: int, model: str = "h100") -> None:
        """Adds nodes of eight GPUs for at least so many GPUs."""
        body = {"gpuModelId": model, "gpuCount": GPUS_A_NODE}
        nodes = [wire.request("POST", "/_localcloud/nodes", body)] * -(-gpus // GPUS_A_NODE)
        assert all(reply.status == 200 for reply in await self.all(nodes))

    async def create_pods(self, count: int) -> tuple[list[str], Took]:
        """Creates pods with one GPU; returns their ids and what creating them took."""
        create = self.request("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
        replies, took = await taken(self.pid, self.server.url, [create] * count)
        return [reply.json()["id"] for reply in replies], took

    async def live_pods(self, count: int) -> list[str]:
        """Adds room, creates pods, and returns their ids once they run."""
        await self.add_room(count)
        ids, _ = await self.create_pods(count)
        await self.server.advance(UNTIL_RUNNING)
        return ids


async def taken(pid: int, url: str, requests: list[bytes]) -> tuple[list[Reply], Took]:
    """Sends requests to the server with this process id; returns the replies and what they took."""
    before, started = usage(pid).cpu, time.monotonic()
    replies = await ask_all(url, requests, CONNECTIONS)
    return replies, Took(len(requests), usage(pid).cpu - before, time.monotonic() - started)


@asynccontextmanager
async def cloud(clock: str = "frozen") -> AsyncIterator[Cloud]:
    """Starts a new cloud in a temporary folder and kills it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        server = Server(("--state", folder, "--clock", clock))
        server.start()
        try:
            yield Cloud(server, await server.organization(balanceCents=FUNDS))
        finally:
            server.kill()


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor's process id and URL."""

    pid: int
    url: str

    async def create_pods(self, count: int) -> tuple[list[str], Took]:
        """Creates pods as `Cloud.create_pods` does."""
        body = {"image": "app:1", "gpuModelId": "h100"}
        replies, took = await taken(self.pid, self.url, [wire.request("POST", "/v1/pods", body)] * count)
        return [reply.json()["id"] for reply in replies], took


@asynccontextmanager
async def floor() -> AsyncIterator[Floor]:
    """Starts a new floor in a temporary folder and kills it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        command = [sys.executable, "-m", "bench.cloud_floor", folder]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=DEVNULL, cwd=Path(__file__).parents[1]
        )
        assert process.stdout is not None
        try:
            url = await process.stdout.readline()
            yield Floor(process.pid, url.decode().strip())
        finally:
            process.kill()
            await process.wait()

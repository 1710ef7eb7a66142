"""The latency of one organization's requests while another floods a port, a queue or the disk of the local cloud."""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from bench import wire
from bench.answering import answering_apart
from bench.cloud_world import UNTIL_RUNNING, Cloud, cloud
from bench.flooding import flooding
from bench.progress import say
from bench.results import Row, p99
from bench.wire import Connection
from tests.localcloud.support.server import Organization

CONNECTIONS = 32
ROUNDS = 3
CALLS = 400
PER_SECOND = 50
HANGING = 9
"""Webhook subscriptions of the flooding organization whose receiver never answers."""
BATCHES = 64
_CHAT = {"model": "echo", "messages": [{"role": "user", "content": "word " * 200}]}
_RECORD = {"method": "POST", "url": "/v1/chat/completions", "body": _CHAT}


@dataclass(frozen=True, slots=True)
class _Ground:
    """A cloud, the organization that floods it, another organization, and a receiver that never answers."""

    servers: Cloud
    flooder: "_Party"
    other: "_Party"
    hanging: str

    def url(self, port: str) -> str:
        return str(self.servers.server.ready[port])


@dataclass(frozen=True, slots=True)
class _Party:
    """An organization with a running pod."""

    organization: Organization
    pod: str

    @property
    def key(self) -> str:
        return self.organization.api_key

    def request(self, method: str, path: str, body: object = None, key: str | None = None) -> bytes:
        """Returns the bytes of a request; `{pod}` and `{org}` in the path are its own, and so is the key by default."""
        named = path.replace("{pod}", self.pod).replace("{org}", self.organization.id)
        return wire.request(method, named, body, key=self.key if key is None else key)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request of the other organization and its port."""

    name: str
    port: str
    sent: Callable[[_Ground], bytes]


@dataclass(frozen=True, slots=True)
class _Flood:
    """What the flooding organization does, and the requests that the other makes meanwhile."""

    name: str
    begin: Callable[[_Ground], AbstractAsyncContextManager[None]]
    asked: tuple[_Asked, ...]


async def flood_rows() -> list[Row]:
    """Returns a row for each flood and each request of the other organization during it."""
    rows = []
    async with cloud("real") as servers, answering_apart() as upstream, _never_answering() as hanging:
        ground = await _ground(servers, upstream, hanging)
        for flood in FLOODS:
            for asked in flood.asked:
                say(f"{flood.name}: {asked.name}")
                rows.append(await _row(ground, flood, asked))
    return rows


async def _row(ground: _Ground, flood: _Flood, asked: _Asked) -> Row:
    await _waits(ground, asked)  # warm-up
    rounds = []
    for _ in range(ROUNDS):
        alone = await _waits(ground, asked)
        async with flood.begin(ground):
            rounds.append((alone, await _waits(ground, asked)))
    alone, beside = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(flooded / quiet for quiet, flooded in rounds)
    figure = f"{ratio:.1f} x ({beside * 1e3:.1f} ms, alone {alone * 1e3:.1f} ms)"
    return (f"{flood.name}: p99 of {asked.name}", figure, "2 x")


async def _waits(ground: _Ground, asked: _Asked) -> float:
    """Returns the p99 of requests at a steady rate, in seconds, each over an otherwise idle connection."""
    sent, took = asked.sent(ground), list[float]()
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await Connection.open(ground.url(asked.port)))

    async def one(connection: Connection) -> None:
        took.append(await connection.timed(sent))
        idle.put_nowait(connection)

    due = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CALLS):
            due = max(due + 1 / PER_SECOND, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            tasks.create_task(one(await idle.get()))
    while not idle.empty():
        idle.get_nowait().close()
    return p99(took)


async def _ground(servers: Cloud, upstream: str, hanging: str) -> _Ground:
    await servers.server.ok("POST", "/upstreams", {"image": "app:1", "url": upstream})
    await servers.server.ok("PATCH", "/settings", {"placementSeconds": 0, "startSeconds": 0})
    await servers.add_room(20_000)
    flooder, other = servers.organization, await servers.server.organization(balanceCents=10**12)
    body = {"image": "app:1", "gpuModelId": "h100"}
    one, another = [_Party(each, (await each.ok("POST", "/v1/pods", body))["id"]) for each in (flooder, other)]
    await asyncio.sleep(UNTIL_RUNNING)
    return _Ground(servers, one, another, hanging)


def _of_the_other(name: str, port: str, method: str, path: str, body: object = None) -> _Asked:
    return _Asked(name, port, lambda ground: ground.other.request(method, path, body))


def _requests(
    port: str, method: str, path: str, body: object = None, key: str | None = None
) -> Callable[[_Ground], AbstractAsyncContextManager[None]]:
    """Returns a flood of one request, with the flooder's key or with `key`."""

    def begin(ground: _Ground) -> AbstractAsyncContextManager[None]:
        return flooding(ground.url(port), ground.flooder.request(method, path, body, key), CONNECTIONS)

    return begin


def _uploads(ground: _Ground) -> AbstractAsyncContextManager[None]:
    """Floods with uploads of 1 MB; the cloud accepts four at a time and refuses the others."""
    line = json.dumps({"custom_id": "a", **_RECORD}) + "\n"
    content = line * (1_000_000 // len(line))
    part = 'form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"'
    body = f"--b\r\nContent-Disposition: {part}\r\n\r\n{content}\r\n--b--\r\n".encode()
    head = f"POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ground.flooder.key}\r\n"
    head += f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n\r\n"
    return flooding(ground.url("inferenceUrl"), head.encode() + body, CONNECTIONS)


@contextlib.asynccontextmanager
async def _hanging_webhooks(ground: _Ground) -> AsyncIterator[None]:
    """Floods with restarts of a pod, whose webhooks go to receivers that never answer."""
    made = []
    for number in range(HANGING):
        body = {"name": f"hook-{number}", "url": ground.hanging, "events": []}
        made.append((await ground.flooder.organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body))["id"])
    async with _requests("managementUrl", "POST", "/v1/vms/{pod}/restart")(ground):
        yield
    for webhook in made:
        await ground.flooder.organization.ok("DELETE", f"/v1/orgs/{{org}}/webhooks/{webhook}")


@contextlib.asynccontextmanager
async def _many_batches(ground: _Ground) -> AsyncIterator[None]:
    """Creates batches that are not done before the block ends, and then cancels them."""
    requests = [{"custom_id": str(number), **_RECORD} for number in range(400)]
    body = {"requests": requests, "endpoint": "/v1/chat/completions"}
    url, asked = ground.url("inferenceUrl"), [ground.flooder.request("POST", "/v1/batches", body)] * BATCHES
    made = [reply.json()["id"] for reply in await wire.ask_all(url, asked, 4)]
    yield
    ended = [ground.flooder.request("POST", f"/v1/batches/{each}/cancel") for each in made]
    await wire.ask_all(url, ended, 4)


@contextlib.asynccontextmanager
async def _never_answering() -> AsyncIterator[str]:
    server = await asyncio.start_server(lambda _, __: asyncio.sleep(0), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


_READ = _of_the_other("a read", "managementUrl", "GET", "/v1/vms/{pod}")
_CREATE = _of_the_other("a create", "managementUrl", "POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
_ASKS = _of_the_other("a chat", "inferenceUrl", "POST", "/v1/chat/completions", _CHAT)
_VISIT = _of_the_other("a request to a workload", "gatewayUrl", "GET", "/_w/{pod}/ready")

FLOODS = (
    _Flood("reads", _requests("managementUrl", "GET", "/v1/vms/{pod}"), (_READ, _CREATE)),
    _Flood("lists", _requests("managementUrl", "GET", "/v1/orgs/{org}/vms"), (_READ, _CREATE)),
    _Flood("restarts", _requests("managementUrl", "POST", "/v1/vms/{pod}/restart"), (_READ, _CREATE)),
    _Flood("requests with a wrong key", _requests("managementUrl", "GET", "/v1/vms/{pod}", key="no"), (_READ,)),
    _Flood("chats", _requests("inferenceUrl", "POST", "/v1/chat/completions", _CHAT), (_ASKS, _READ)),
    _Flood("requests to a workload", _requests("gatewayUrl", "GET", "/_w/{pod}/ready"), (_VISIT, _READ)),
    _Flood("uploads of a MB", _uploads, (_CREATE, _ASKS)),
    _Flood("webhooks that hang", _hanging_webhooks, (_CREATE,)),
    _Flood(f"{BATCHES} batches", _many_batches, (_ASKS, _CREATE)),
)

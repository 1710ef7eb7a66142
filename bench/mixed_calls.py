"""Calls about single resources at a steady rate, as users and an operator make them, each with a call to the floor.

A pod is stopped, restarted some seconds later and terminated some seconds after that, so that most calls that change
something cause a webhook.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench import wire
from bench.cloud_world import CONNECTIONS, UNTIL_RUNNING, Cloud, Floor
from bench.usage import usage
from bench.wire import Connection

PER_SECOND = 100
APART = 50
"""Turns between two actions on one pod: four seconds, so that the first action is complete."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Latencies by name of the call, latencies of the floor, total duration, and the cloud's CPU; all in seconds."""

    latencies: Mapping[str, list[float]]
    floors: list[float]
    seconds: float
    cpu: float

    @property
    def calls(self) -> int:
        """The number of calls to the cloud."""
        return len(self.floors)


async def mixed_calls(servers: Cloud, beside: Floor, seconds: int) -> Mixed:
    """Makes calls for so many seconds and measures them."""
    count = PER_SECOND * seconds
    turns = count // len(_TURN) + 1
    await servers.add_room(turns)
    await servers.add_room(turns, _POD["gpuModelId"])
    ids, _ = await servers.create_pods(turns)
    looked, _ = await beside.create_pods(1)
    least = wire.request("GET", f"/v1/pods/{looked[0]}")
    await servers.server.advance(UNTIL_RUNNING)
    latencies: defaultdict[str, list[float]] = defaultdict(list)
    floors: list[float] = []
    idle: asyncio.Queue[tuple[Connection, Connection]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait((await Connection.open(servers.server.url), await Connection.open(beside.url)))

    async def one(name: str, sent: bytes, near: Connection, far: Connection) -> None:
        latencies[name].append(await near.timed(sent))
        floors.append(await far.timed(least))
        idle.put_nowait((near, far))

    before, started = usage(servers.pid).cpu, time.monotonic()
    due = started
    async with asyncio.TaskGroup() as tasks:
        for name, sent in _plan(servers, ids, count):
            # Delays are not caught up: the actions on one pod must stay apart.
            due = max(due + 1 / PER_SECOND, time.monotonic())
            _, pair = await asyncio.gather(asyncio.sleep(due - time.monotonic()), idle.get())
            tasks.create_task(one(name, sent, *pair))
    return Mixed(latencies, floors, time.monotonic() - started, usage(servers.pid).cpu - before)


_GET = ("get", 0, "GET", "/v1/vms/{id}")
_TURN = (
    _GET,
    ("stop", 0, "POST", "/v1/vms/{id}/stop"),
    ("balance", 0, "GET", "/v1/orgs/{org}/billing/balance"),
    ("restart", 1, "POST", "/v1/vms/{id}/restart"),
    ("create", 0, "POST", "/v1/pods"),
    _GET,
    ("terminate", 2, "POST", "/v1/vms/{id}/terminate"),
    _GET,
)
"""The calls of one turn: name, how many times `APART` turns ago the pod's first action was, method and path."""

_POD = {"image": "app:1", "gpuModelId": "a100"}
"""Of a different model, so that these pods do not take the GPUs of stopped ones before they are restarted."""


def _plan(servers: Cloud, ids: list[str], count: int) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        turn, place = divmod(number, len(_TURN))
        name, ago, method, path = _TURN[place]
        if turn < ago * APART:
            name, ago, method, path = _GET
        pod_id = ids[turn - ago * APART]
        yield name, servers.request(method, path.replace("{id}", pod_id), _POD if name == "create" else None)

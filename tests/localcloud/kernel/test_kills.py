"""`kill -9` at random moments under load: nothing acknowledged is lost, nothing half-done is visible.

Four workers create, stop and terminate pods, deposit money and create keys while the clock runs twenty times as fast
as the wall's, so that the due-queue is at work too. What a kill cut is asked for again, by its name or its key.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.localcloud.kernel.journal import Journal, Pod
from tests.localcloud.support.events import create_webhook
from tests.localcloud.support.server import COMMAND, Organization, request
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Server

WORKERS = 4
AMOUNT = 1234
CUT = (aiohttp.ClientError, ConnectionError, TimeoutError)
HOLDING = {"deploying", "running", "stopping", "interrupted"}
TOLD = {"running": {"vm.running"}, "stopped": {"vm.stopped"}, "terminated": {"vm.terminated"}}


class Client:
    """The workers, and what they know."""

    def __init__(self, organization: Organization, seed: int) -> None:
        self.organization = organization
        self.random = random.Random(seed)
        self.journal = Journal()
        self._numbers = iter(range(1_000_000))

    async def work(self) -> None:
        """Act until the cloud is gone."""
        try:
            while True:
                await self._act()
        except CUT:
            return

    async def _act(self) -> None:
        choice = self.random.random()
        free = [pod for pod in self.journal.live if pod.attempted is None]
        if choice < 0.4 or not free:
            await self.create(self._pod())
        elif choice < 0.8:
            await self._end(self.random.choice(free))
        elif choice < 0.9:
            await self.deposit(f"deposit-{next(self._numbers)}")
        else:
            made = await self.organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"})
            self.journal.keys.append(made["key"])

    def _pod(self) -> Pod:
        pod = Pod(f"pod-{next(self._numbers)}")
        self.journal.pods.append(pod)
        return pod

    async def create(self, pod: Pod) -> None:
        """Create a pod; one of that name that is there already is the answer to an earlier attempt."""
        body = {"image": "app:1", "name": pod.name, "gpuModelId": "l40s", "gpuCount": 1 + len(pod.name) % 2}
        answer = await self.organization.call("POST", "/v1/pods", body)
        if answer.status == 200:
            pod.id = answer.body["id"]
            return
        assert answer.refusal == (409, "conflict"), answer.raw
        (pod.id,) = [each["id"] for each in await live(self.organization) if each["name"] == pod.name]

    async def _end(self, pod: Pod) -> None:
        action = self.random.choice(["stop", "terminate"]) if pod.acknowledged == "create" else "terminate"
        pod.attempted = action
        answer = await self.organization.call("POST", f"/v1/vms/{pod.id}/{action}")
        if answer.status == 200:
            pod.acknowledged = action
        else:
            assert (action, answer.status) == ("stop", 409), answer.raw  # it is deploying
        pod.attempted = None

    async def deposit(self, key: str) -> None:
        """Deposit with a key; the charge of an earlier attempt is answered again."""
        self.journal.deposits.setdefault(key, None)
        body = {"amountCents": AMOUNT, "idempotencyKey": key}
        charge = await self.organization.ok("POST", "/v1/orgs/{org}/billing/deposit", body)
        assert self.journal.deposits[key] in {None, charge["chargeId"]}
        self.journal.deposits[key] = charge["chargeId"]


async def live(organization: Organization) -> list[Any]:
    """Every pod that is not terminated."""
    pods: list[Any] = []
    cursor = ""
    while True:
        page = await organization.ok("GET", f"/v1/orgs/{{org}}/vms?limit=200{cursor}")
        pods += page["items"]
        if not page.get("nextCursor"):
            return pods
        cursor = f"&cursor={page['nextCursor']}"


async def check(client: Client, new_keys: list[str]) -> None:
    """Everything acknowledged is there, and whatever is there is whole."""
    organization, journal = client.organization, client.journal
    for key in new_keys:
        assert (await request("GET", organization.server.url + "/v1/whoami", key=key)).status == 200
    # One transaction shows everything as of one instant.
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    pods = {row["id"]: row for row in tables["workloads"]}
    for pod in journal.pods:
        if pod.id is not None:
            assert pods[pod.id]["status"] in pod.states, (pod, pods[pod.id]["status"])
    assert {row["name"] for row in pods.values()} <= {pod.name for pod in journal.pods}

    claimed = Counter(row["workload_id"] for row in tables["claims"])
    assert claimed == {key: row["gpu_count"] for key, row in pods.items() if row["status"] in HOLDING}
    open_stints = Counter(row["holder_id"] for row in tables["usage_records"] if row["ended_at"] is None)
    assert open_stints == Counter(key for key, row in pods.items() if row["status"] == "running")
    awaited = {row["subject"] for row in tables["due"] if row["lane"] is None}
    assert {key for key, row in pods.items() if row["status"] in {"deploying", "stopping"}} <= awaited

    (account,) = [row for row in tables["accounts"] if row["organization_id"] == organization.id]
    posted = [row for row in tables["transactions"] if row["organization_id"] == organization.id]
    assert account["balance_cents"] == sum(row["amount_cents"] for row in posted)
    charges = Counter(row["status"] for row in tables["charges"] if row["organization_id"] == organization.id)
    assert charges["succeeded"] == sum(row["type"] == "deposit" for row in posted)
    keys = {row["idempotency_key"] for row in tables["charges"]}
    assert {key for key, charge in journal.deposits.items() if charge} <= keys <= set(journal.deposits)


async def ask_again(client: Client) -> None:
    """Ask once more for what a kill cut."""
    for pod in client.journal.pods:
        if pod.id is None:
            await client.create(pod)
        if pod.attempted is not None:
            answer = await client.organization.call("POST", f"/v1/vms/{pod.id}/terminate")
            assert answer.status == 200, answer.raw
            pod.acknowledged, pod.attempted = "terminate", None
    for key, charge in list(client.journal.deposits.items()):
        if charge is None:
            await client.deposit(key)


async def until_all_is_told(client: Client, receiver: Receiver) -> None:
    """The due-queue runs dry: each event went out, under one delivery each, and each transition happened once."""
    organization = client.organization

    async def moving() -> list[str]:
        return [pod["id"] for pod in await live(organization) if pod["status"] not in {"running", "stopped"}]

    await eventually(moving, lambda pods: not pods, every=0.05)
    tables = (await organization.server.ok("GET", "/export"))["tables"]

    async def told() -> dict[tuple[str, str], set[str]]:
        ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        for call in receiver.received:
            event = call.event
            ids[event["type"], event["data"]["vmId"]].add(f"{event['id']} {call.delivery}")
        return ids

    stints = {row["holder_id"] for row in tables["usage_records"]}
    wanted = {("vm.running", pod) for pod in stints}
    for row in tables["workloads"]:
        wanted |= {(name, row["id"]) for name in TOLD[row["status"]]}
    seen = await eventually(told, lambda ids: wanted <= ids.keys(), every=0.05)
    assert {key: ids for key, ids in seen.items() if len(ids) != 1} == {}
    assert {pod for name, pod in seen if name == "vm.running"} == stints
    assert len(stints) == len(tables["usage_records"])

    async def paid() -> int:
        shown = (await organization.server.ok("GET", "/export"))["tables"]["transactions"]
        return sum(row["amount_cents"] for row in shown if row["type"] == "deposit")

    assert await eventually(paid, lambda cents: cents == AMOUNT * len(client.journal.deposits), every=0.05)


async def kill_while_starting(arguments: tuple[str, ...], after: float) -> None:
    """Start the cloud and kill it so many seconds later, ready or not."""
    ports = ("--port", "0", "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0")
    quiet = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(COMMAND, "serve", *ports, *arguments, stdout=quiet, stderr=quiet)
    try:
        await asyncio.wait_for(child.wait(), after)
    except TimeoutError:
        child.kill()
    await child.wait()


async def play(start_server: StartServer, folder: Path, receiver: Receiver, seed: int, kills: int) -> None:
    """Kill the cloud so many times, each time at another moment, and look at what is left."""
    arguments = ("--state", str(folder), "--list-vms")
    server: Server = start_server(*arguments)
    organization = await server.organization(balanceCents=10**9)
    await server.ok("POST", "/nodes", {"gpuModelId": "l40s", "gpuCount": 16_384, "orgId": organization.id})
    await create_webhook(organization, receiver)
    await server.ok("POST", "/clock", {"mode": "scaled", "rate": 20})
    client = Client(organization, seed)
    for _ in range(kills):
        known = len(client.journal.keys)
        workers = [asyncio.create_task(client.work()) for _ in range(WORKERS)]
        await asyncio.wait(workers, timeout=client.random.uniform(0, 0.4), return_when=asyncio.FIRST_EXCEPTION)
        server.kill()
        await asyncio.gather(*workers)
        if client.random.random() < 0.2:
            await kill_while_starting(arguments, client.random.uniform(0.5, 2))
        server = start_server(*arguments)
        client.organization = Organization(server, organization.id, organization.api_key, "", "")
        await check(client, client.journal.keys[known:])
        await ask_again(client)
    await check(client, client.journal.keys)
    await until_all_is_told(client, receiver)
    assert "Traceback" not in server.log


async def test_kills_under_load_lose_nothing_and_leave_nothing_half_done(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    await play(start_server, tmp_path / "state", receiver, seed=1, kills=8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
async def test_two_hundred_kills_under_load_lose_nothing(
    start_server: StartServer, tmp_path: Path, receiver: Receiver, seed: int
) -> None:
    await play(start_server, tmp_path / "state", receiver, seed=100 + seed, kills=20)

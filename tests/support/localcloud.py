"""The local cloud as a separate process, with the calls that tests make to it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import aiohttp

from tests.support import forked
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.process import Process, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]
_COMMAND = Path(sys.executable).with_name("relay-localcloud")


class CloudRefusal(Exception):
    """The local cloud answered with an error; `status` is the HTTP status, `code` the machine-readable code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code


async def _call(method: str, url: str, body: Json | None, key: str = "", params: Json | None = None) -> Any:
    """Makes one request over a new connection, so that any event loop may call it; returns None for an empty body."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    query = {name: str(value) for name, value in (params or {}).items() if value is not None}
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
        session.request(method, url, json=body, params=query) as reply,
    ):
        text = await reply.text()
        answer = json.loads(text) if text else None
        if reply.status >= 400:
            raise CloudRefusal(reply.status, (answer or {}).get("code", ""), (answer or {}).get("error", ""))
        return answer


@dataclass(frozen=True)
class Organization:
    """An organization of the local cloud with one of its API keys: the cloud as its customer sees it."""

    id: str
    api_key: str
    user_session_token: str
    management_url: str

    def with_key(self, api_key: str) -> Organization:
        """Returns the same organization with another of its keys."""
        return replace(self, api_key=api_key)

    async def call(self, method: str, path: str, body: Json | None = None, **params: object) -> Any:
        """Makes any management call with the organization's key; raises CloudRefusal."""
        return await _call(method, self.management_url + path, body, self.api_key, params)

    async def vm(self, workload_id: str) -> Json:
        """Returns the record of a pod or VM."""
        record: Json = await self.call("GET", f"/v1/vms/{workload_id}")
        return record

    async def cluster(self, cluster_id: str) -> Json:
        """Returns the detail of a cluster."""
        detail: Json = await self.call("GET", f"/v1/clusters/{cluster_id}/detail")
        return detail

    async def runner_pool(self, pool_id: str) -> Json:
        """Returns a runner pool, whose record has no state."""
        record: Json = await self.call("GET", f"/v1/orgs/{self.id}/runner-pools/{pool_id}")
        return record

    async def clusters(self) -> list[Json]:
        """Returns the first 200 clusters."""
        page: list[Json] = (await self.call("GET", f"/v1/orgs/{self.id}/clusters", limit=200))["items"]
        return page

    async def billed(self) -> list[Json]:
        """Returns what cost money this month according to the cloud's billing: `{resourceId, name, cents}` of each."""
        runs: list[Json] = (await self.call("GET", f"/v1/orgs/{self.id}/billing/usage"))["breakdown"]
        cents = Counter[str]()
        for run in runs:
            cents[run["resourceId"]] += run["cents"]
        names = {run["resourceId"]: run["name"] for run in runs}
        return [{"resourceId": one, "name": name, "cents": cents[one]} for one, name in names.items()]


class Control:
    """The control interface of a local cloud (`/_localcloud`)."""

    def __init__(self, url: str, management_url: str, admin_token: str = "") -> None:
        self.url = url
        self.management_url = management_url
        self.admin_token = admin_token

    async def call(self, method: str, path: str, body: Json | None = None, **params: object) -> Any:
        """Makes any control call; raises CloudRefusal."""
        return await _call(method, self.url + path, body, self.admin_token, params)

    async def clock(self, **change: object) -> Json:
        """Changes the clock (`mode`, `rate`, `set`), if asked, and returns `{now, mode, rate}`."""
        method = "POST" if change else "GET"
        answer: Json = await self.call(method, "/clock", change or None)
        return answer

    async def advance(self, seconds: float) -> Json:
        """Advances the clock; returns once everything that fell due is done, including webhook attempts."""
        return await self.clock(advanceSeconds=seconds)

    async def create_organization(
        self, name: str, *, balance_cents: int = 100_000, scopes: Sequence[str] | None = None
    ) -> Organization:
        """Creates an organization with a key that has the given scopes, by default all."""
        body: Json = {"name": name, "balanceCents": balance_cents} | ({"scopes": list(scopes)} if scopes else {})
        made = await self.call("POST", "/orgs", body)
        return Organization(made["organizationId"], made["apiKey"], made["userSessionToken"], self.management_url)

    async def change_organization(self, organization_id: str, **change: object) -> None:
        """Changes `balanceCents`, `suspended`, `autoStopFloorCents` and others that no API call can change."""
        await self.call("PATCH", f"/orgs/{organization_id}", change)

    async def nodes(self) -> list[Json]:
        """Returns every node with the workloads on its GPUs."""
        items: list[Json] = (await self.call("GET", "/nodes"))["items"]
        return items

    async def add_node(self, gpu_model_id: str, gpu_count: int, **more: object) -> Json:
        """Adds a node and returns it."""
        node: Json = await self.call("POST", "/nodes", {"gpuModelId": gpu_model_id, "gpuCount": gpu_count, **more})
        return node

    async def change_node(self, node_id: str, **change: object) -> None:
        """Changes `reporting`, `removed` or `infinibandAgent` of a node."""
        await self.call("PATCH", f"/nodes/{node_id}", change)

    async def node_of(self, workload_id: str) -> Json:
        """Returns a node on which the workload holds GPUs; raises AssertionError if it holds none."""
        for node in await self.nodes():
            if any(unit["workloadId"] == workload_id for unit in node["units"]):
                return node
        raise AssertionError(f"{workload_id} holds no GPU on any node")

    async def event(self, workload_id: str, event: str, **more: object) -> None:
        """Triggers an event: `exit`, `fail` (`reason`), `unhealthy`, `healthy`, `terminateReplica` (`replicaId`)."""
        await self.call("POST", f"/workloads/{workload_id}/events", {"event": event, **more})

    async def settings(self, **change: object) -> Json:
        """Changes latencies and behaviours and returns all of them."""
        answer: Json = await self.call("PATCH", "/settings", change)
        return answer

    async def fault(self, operation: str, effect: Json, **more: object) -> str:
        """Adds a fault to `METHOD /path/{template}` or `webhook` and returns its id.

        `more` is `count`, `skip`, `organizationId`.
        """
        made: Json = await self.call("POST", "/faults", {"operation": operation, "effect": effect, **more})
        fault_id: str = made["id"]
        return fault_id

    async def was_met(self, fault_id: str) -> bool:
        """Whether a request met the fault."""
        told: list[Json] = (await self.call("GET", "/faults"))["items"]
        return any(one["id"] == fault_id and one["applied"] for one in told)

    async def end_fault(self, fault_id: str) -> None:
        """Removes one fault."""
        await self.call("DELETE", f"/faults/{fault_id}")

    async def clear_faults(self) -> None:
        """Removes every fault."""
        await self.call("DELETE", "/faults")

    async def requests(self, *, organization: Organization | None = None, after: int | None = None) -> list[Json]:
        """Returns the log of management and inference requests, oldest first; `after` is a `seq` of that log."""
        organization_id = organization.id if organization else None
        items: list[Json] = (await self.call("GET", "/requests", organizationId=organization_id, after=after))["items"]
        return items

    async def deliveries(self, *, organization: Organization | None = None) -> list[Json]:
        """Returns every webhook attempt, oldest first."""
        organization_id = organization.id if organization else None
        items: list[Json] = (await self.call("GET", "/deliveries", organizationId=organization_id))["items"]
        return items

    async def replay(self, delivery_id: str) -> None:
        """Sends a delivery again."""
        await self.call("POST", f"/deliveries/{delivery_id}/replay")


@dataclass(frozen=True)
class Ports:
    """The ports of a local cloud."""

    management: int
    inference: int
    gateway: int
    ssh: int = 0

    @classmethod
    def free(cls) -> Ports:
        """Returns four free ports."""
        return cls(free_port(), free_port(), free_port(), free_port())

    def urls(self) -> tuple[str, str]:
        """Returns the URLs that an account names: management, inference."""
        return f"http://127.0.0.1:{self.management}", f"http://127.0.0.1:{self.inference}"


class LocalCloud:
    """A `relay-localcloud serve` process. Its state is in `folder`, so that it can be killed and restarted.

    With `list_vms` it serves the list of pods and VMs that the specification leaves open; `more` are further options.
    `forks` makes frequent starts cheap: see tests.support.forked.
    """

    def __init__(
        self,
        folder: Path,
        ports: Ports,
        clock: Literal["real", "frozen"] = "real",
        *,
        list_vms: bool = False,
        more: Sequence[str] = (),
        forks: bool = False,
    ) -> None:
        self.ports = ports
        self.management_url, self.inference_url = ports.urls()
        self.control = Control(f"{self.management_url}/_localcloud", self.management_url)
        self._stdout = folder / "localcloud.out"
        flags = {
            "--port": ports.management,
            "--inference-port": ports.inference,
            "--gateway-port": ports.gateway,
            "--ssh-port": ports.ssh,
            "--state": folder / "state",
            "--clock": clock,
        }
        words = ["serve", *(str(part) for flag in flags.items() for part in flag)]
        words += ["--list-vms"] if list_vms else []
        words += more
        self.process = Process(
            "relay-localcloud",
            [str(_COMMAND), *words],
            folder / "localcloud.log",
            ready=self._announced,
            stdout=self._stdout,
            program=forked.cloud(forked.CLOUD, *words) if forks else None,
        )

    async def start(self) -> None:
        """Starts the process and waits until it announces its URLs; raises StartError."""
        self._stdout.parent.mkdir(parents=True, exist_ok=True)
        self._stdout.write_bytes(b"")
        await self.process.start()

    async def freshly_seeded(self) -> None:
        """Resets the cloud to its seeded state; starts it if it does not run."""
        if not self.process.running:
            await self.start()
        await self.control.call("POST", "/reset")

    @property
    def announced(self) -> Json:
        """The first line of its output: URLs, the seeded organization, its key."""
        line: Json = json.loads(self._stdout.read_text().partition("\n")[0])
        return line

    def seeded_organization(self) -> Organization:
        """Returns the organization that every local cloud starts with."""
        line = self.announced
        return Organization(line["organizationId"], line["apiKey"], line["userSessionToken"], self.management_url)

    async def _announced(self) -> bool:
        return "\n" in self._stdout.read_text()

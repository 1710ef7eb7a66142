"""The floor: the fewest calls that make an object Ready, without any logic.

For each object one metadata patch, one create, one status patch, and after the cloud's event one read and one status
patch. No cache, no queue, no checks, no retries; a failure ends it. `python -m bench.floor FILE` reads its orders from
a JSON file, prints `watching` to stdout when it starts to watch, and runs until killed.
"""

import asyncio
import json
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

Json: TypeAlias = dict[str, Any]

CONCURRENCY = 32
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True, slots=True)
class Orders:
    """URLs and credentials."""

    pods_url: str
    """The URL of the namespace's GpuPods."""
    token: str
    management_url: str
    organization_id: str
    api_key: str
    port: int


@dataclass(slots=True)
class Floor:
    """The two sessions and what is known of the objects: `names` maps cloud ids to object names.

    `early` has the cloud ids of events that came before the id was known, `taken` the names of objects seen.
    """

    orders: Orders
    kube: aiohttp.ClientSession
    cloud: aiohttp.ClientSession
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENCY))
    names: dict[str, str] = field(default_factory=dict)
    early: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    """The first task that fails ends all."""

    async def run(self) -> None:
        """Subscribes to webhooks and watches; prints a line to stdout at the start of each watch."""
        app = web.Application()
        app.router.add_post("/", self._delivered)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.orders.port).start()
        body = {"name": "floor", "url": f"http://127.0.0.1:{self.orders.port}/", "events": []}
        path = f"{self.orders.management_url}/v1/orgs/{self.orders.organization_id}/webhooks/create"
        async with self.cloud.post(path, json=body) as answer:
            answer.raise_for_status()
        async with self.tasks:
            while True:
                # The API server ends the watch of a slow reader; the next one begins with all existing objects.
                async with self.kube.get(self.orders.pods_url, params={"watch": "true"}) as stream:
                    sys.stdout.write("watching\n")
                    sys.stdout.flush()
                    async for line in stream.content:
                        self._observe(json.loads(line))

    def _observe(self, event: Json) -> None:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "ADDED" and name not in self.taken:
            self.taken.add(name)
            self.tasks.create_task(self._create(event["object"]))

    async def _delivered(self, request: web.Request) -> web.Response:
        cloud_id = json.loads(await request.read())["data"].get("vmId")
        if cloud_id in self.names:
            self.tasks.create_task(self._mirror(cloud_id))
        elif cloud_id:
            self.early.add(cloud_id)
        return web.Response(status=204)

    async def _create(self, pod: Json) -> None:
        async with self.turn:
            metadata, spec = pod["metadata"], pod["spec"]
            url = f"{self.orders.pods_url}/{metadata['name']}"
            intent = {
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": ["gpurelay.dev/cloud-resource"],
                "annotations": {"gpurelay.dev/create-intent": json.dumps({"name": metadata["uid"]})},
            }
            await self._patch(url, {"metadata": intent})
            order = {"image": spec["image"], "name": metadata["uid"], "gpuModelId": "h100", "gpuCount": 1}
            async with self.cloud.post(f"{self.orders.management_url}/v1/pods", json=order) as answer:
                answer.raise_for_status()
                record = await answer.json()
            await self._patch(f"{url}/status", {"status": self._status(record, "False", "Deploying")})
            self.names[record["id"]] = metadata["name"]
        if record["id"] in self.early:
            await self._mirror(record["id"])

    async def _mirror(self, cloud_id: str) -> None:
        async with self.turn:
            async with self.cloud.get(f"{self.orders.management_url}/v1/vms/{cloud_id}") as answer:
                answer.raise_for_status()
                record = await answer.json()
            status = self._status(record, "True" if record["status"] == "running" else "False", "Running")
            await self._patch(f"{self.orders.pods_url}/{self.names[cloud_id]}/status", {"status": status})

    async def _patch(self, url: str, body: object) -> None:
        async with self.kube.patch(url, data=json.dumps(body), headers=MERGE_PATCH) as answer:
            answer.raise_for_status()
            await answer.read()

    def _status(self, record: Json, ready: str, reason: str) -> Json:
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": reason,
            "message": record["status"],
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        return {
            "id": record["id"],
            "state": record["status"],
            "endpointUrl": record.get("endpointUrl"),
            "observedGeneration": 1,
            "conditions": [condition],
        }


async def main(orders: Orders) -> None:
    """Runs until killed, or until a task fails."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    kube_headers = {"Authorization": f"Bearer {orders.token}"}
    cloud_headers = {"Authorization": f"Bearer {orders.api_key}"}
    forever = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(
            headers=kube_headers, connector=aiohttp.TCPConnector(ssl=unchecked), timeout=forever, read_bufsize=2**21
        ) as kube,
        aiohttp.ClientSession(headers=cloud_headers, timeout=forever) as cloud,
    ):
        await Floor(orders, kube, cloud).run()


if __name__ == "__main__":
    asyncio.run(main(Orders(**json.loads(Path(sys.argv[1]).read_text()))))

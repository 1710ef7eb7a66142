"""A local cloud on a real API server, below its command line; tests write what scheduler and kubelet would."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from relay_kube.kube import Kube as Client
from relay_localcloud import app
from relay_localcloud.control.state import Reset
from relay_localcloud.http.servers import Server, listen
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.runtimes.kubernetes import holdings, turns
from relay_localcloud.runtimes.kubernetes.names import ALONE, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.nodes import Gpu
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.regions import Region, Regions
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.turns import Offer
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from tests.cluster.operators_client import access_of
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import Organization

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from relay_kube.kube import ApiAccess

PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
GATEWAY = Gateway("relay-system", {"app": "cloud"})

Json = dict[str, Any]


def now() -> str:
    """As kubelets write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Stage:
    """One state directory on one cluster, whose cloud may end at any moment and be started again."""

    kube: Kube
    kubeconfig: Path
    state: Path
    terms: Json = field(default_factory=lambda: {"storage_class": "fast"})
    gateway: Gateway = GATEWAY
    """Where the requests come from, as the cluster would say."""
    address: str = "10.0.0.9"
    """Of every Pod that runs."""
    client: Callable[[ApiAccess], Client] = Client
    """The cloud's client of the API server."""
    others: Mapping[str, Path] = field(default_factory=dict)
    """The kubeconfigs of further clusters, by name."""
    product: str = field(default_factory=lambda: f"H100-{secrets.token_hex(4)}")
    store: Store = field(init=False)
    regions: Regions = field(init=False)
    _ends: AsyncExitStack = field(default_factory=AsyncExitStack)
    _running: asyncio.Task[None] | None = None

    async def start(self, *, reconciling: bool = True) -> None:
        """Serve the state; without reconciling it is as if the process ended before it sent anything."""
        store = self.store = Store.at(self.state)
        self._ends.callback(store.close)
        options = app.Options(self.state)
        cloud = app.open_cloud(store, options, "http://localhost", "http://localhost")
        self._ends.callback(cloud.files.close)
        with store.transaction() as tx:
            founded, _ = organizations.seed(tx)
            instance = holdings.instance_of(tx)

        async def asked() -> Gateway:
            return self.gateway

        regions = self.regions = Regions(store, turns.lacking(Terms(instance, **self.terms)))
        table = [Gpu("h100", {PRODUCT: self.product})]
        for name, kubeconfig in {ALONE: self.kubeconfig, **self.others}.items():
            client = self.client(await self._ends.enter_async_context(access_of(kubeconfig)))
            offer = Offer(Terms(instance, **self.terms), Gateway(), [GPU], cloud.vault, cluster=name)
            reconciler = Reconciler(store, client, offer, asked, table, regions, is_region=bool(self.others))
            regions.join(name, Region(client, reconciler, None))
        store.runtime_of = regions.runtime_of
        listener = listen("127.0.0.1", 0)
        api, _ = app.apis(cloud, options, Reset(None, founded))
        server = Server(api, Visitors(store), listener, None)
        serving = asyncio.create_task(server.run_until_told())
        await server.ready()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.organization = Organization(founded.organization_id, founded.api_key, founded.user_session_token, url)
        self.namespace = namespace_of(founded.organization_id)
        self._ends.push_async_callback(_ended, server, serving)
        if reconciling:
            self._running = asyncio.create_task(regions.run())

    async def end(self) -> None:
        """Nothing more is sent, whatever was under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        self._running = None
        await self._ends.aclose()

    async def close(self) -> None:
        """End it, and leave nothing in the cluster."""
        if self._running is not None and self._running.done():
            await self._running  # tells why
        await self.end()
        for pod in await self.kube.list("Pod", self.namespace):
            await self.kubelet_removes(pod["metadata"]["name"])
        await self.kube.delete("Namespace", self.namespace)
        await self.kube.delete("Node", self.product.lower())

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing of its state can be written meanwhile."""
        self.store._raw.execute("PRAGMA query_only = ON")
        yield
        self.store._raw.execute("PRAGMA query_only = OFF")

    async def node(self, *, ready: bool = True, gpus: int = 8, cordoned: bool = False) -> str:
        """The Node as its kubelet reports it; its name."""
        name = self.product.lower()
        labels = {PRODUCT: self.product, "topology.kubernetes.io/region": "eu"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        await self.kube.apply({**node, "spec": {"unschedulable": cordoned}})
        status = {
            "allocatable": {GPU: str(gpus), "cpu": "96", "memory": "800Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": str(ready), "message": "as the test says"}],
        }
        await self.kube.patch("Node", name, {"status": status}, subresource="status")
        return name

    async def has_room(self) -> None:
        """Return once the cloud offers the Node's GPUs."""
        await eventually(self.free, what="the node is offered")

    async def free(self) -> int:
        """How many GPUs the cloud offers."""
        items = (await self.organization.call("GET", "/v1/pods/capacity"))["items"]
        return int(next((each["freeUnits"] for each in items if each["gpuModelId"] == "h100"), 0))

    async def post(self, **fields: Any) -> str:
        """The id of a new pod."""
        body = {"image": "app:1", "gpuModelId": "h100", "envVars": {"A": "b"}, **fields}
        return str((await self.organization.call("POST", "/v1/pods", body))["id"])

    async def act(self, pod_id: str, action: str) -> None:
        await self.organization.call("POST", f"/v1/vms/{pod_id}/{action}")

    async def becomes(self, pod_id: str, status: str, reason: str | None = None) -> Json:
        """The record once it has this status, and words that begin so."""

        def is_so(record: Json) -> bool:
            said = record.get("statusReason")
            return record["status"] == status and (said is None if reason is None else (said or "").startswith(reason))

        return await eventually(lambda: self.organization.vm(pod_id), is_so, what=f"{status}: {reason}")

    async def pod(self, pod_id: str, *, other_than: str = "") -> Json:
        """Its Pod, once there is one."""

        def is_it(pod: Json | None) -> bool:
            return pod is not None and pod["metadata"]["uid"] != other_than

        look = self.kube.looking_at("Pod", name_of(pod_id), self.namespace)
        found = await eventually(look, is_it, what="there is a Pod")
        assert found is not None
        return found

    async def leaves(self, pod_id: str) -> None:
        """Return once its Pod is on its way out."""
        look = self.kube.looking_at("Pod", name_of(pod_id), self.namespace)
        await eventually(look, lambda pod: pod and pod["metadata"].get("deletionTimestamp"), what="it leaves")

    async def gone(self, kind: str, pod_id: str) -> None:
        """Return once there is none, or it is on its way out with nobody to hold it but protection."""
        look = self.kube.looking_at(kind, name_of(pod_id), self.namespace)
        await eventually(
            look, lambda found: not found or found["metadata"].get("deletionTimestamp"), what=f"no {kind} is left"
        )

    async def scheduler_binds(self, pod_id: str) -> None:
        body = {"target": {"kind": "Node", "name": self.product.lower()}, "metadata": {"name": name_of(pod_id)}}
        await self.kube.call("POST", f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod_id)}/binding", body)

    async def kubelet_says(self, pod_id: str, *, phase: str = "Running", ready: bool = False, **container: Any) -> None:
        """The status of its container: `state`, `lastState`."""
        status = {"name": "main", "image": "app:1", "imageID": "", "ready": ready, "restartCount": 0, **container}
        said = {"phase": phase, "startTime": now(), "podIP": self.address, "podIPs": [{"ip": self.address}]}
        change = {"status": {**said, "containerStatuses": [status]}}
        await self.kube.patch("Pod", name_of(pod_id), change, self.namespace, "status")

    async def kubelet_runs(self, pod_id: str) -> None:
        await self.kubelet_says(pod_id, ready=True, state={"running": {"startedAt": now()}})

    async def kubelet_removes(self, name: str) -> None:
        await self.kube.delete("Pod", name, self.namespace, gracePeriodSeconds=0)

    async def runs(self, **fields: Any) -> str:
        """The id of a pod that runs."""
        pod_id = await self.post(**fields)
        await self.pod(pod_id)
        await self.scheduler_binds(pod_id)
        await self.kubelet_runs(pod_id)
        await self.becomes(pod_id, "running")
        return pod_id


async def _ended(server: Server, serving: asyncio.Task[None]) -> None:
    server.end()
    await serving

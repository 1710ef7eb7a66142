"""Pods of the cloud that run as containers of a real node, compared with plain Pods. Needs Linux and root."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import yaml

from bench.extent import Extent
from bench.progress import say
from bench.results import Row
from hack.node.node import Node
from tests.node.cloud.customer import Customer
from tests.node.cloud.house import RUNTIME, offer_gpus
from tests.node.cloud.workload_image import IMAGE, workload_image
from tests.support.eventually import eventually
from tests.support.kube import Kube, Manifest
from tests.support.localcloud import LocalCloud, Ports

ROUNDS = 5
GPUS = {1: 8, 50: 50}
"""By how many pods are measured at once, how many GPUs the node has: each gets that part of its CPU."""
_LOOK = 0.02


async def container_rows(extent: Extent) -> list[Row]:
    """Measures the time from the create to the first byte through the gateway, for one pod and for many at once."""
    return [row for count, gpus in GPUS.items() for row in await _rows(extent.rounds, count, gpus)]


async def _rows(repeated: int, count: int, gpus: int) -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="relay-bench-"))
    node = await Node.start("bench", [workload_image()], gpus=gpus)
    try:
        async with Kube(node.kubeconfig) as kube, _cloud(folder, node, kube) as customer:
            await _rented(customer)  # warm-up
            await _reclaim(kube)
            say(f"{ROUNDS} rounds of {count} at once, bare and rented, on a node with {gpus} GPUs")
            return [await _row(kube, customer, count, "1.5 x") for _ in range(repeated)]
    finally:
        await node.stop()


@asynccontextmanager
async def _cloud(folder: Path, node: Node, kube: Kube) -> AsyncIterator[Customer]:
    """Starts a cloud outside the node, which runs its workloads on the node."""
    await offer_gpus(kube)
    document = folder / "runtime.yaml"
    document.write_text(yaml.safe_dump(RUNTIME))
    more = ["--runtime", "kubernetes", "--runtime-config", str(document), "--cluster", f"here={node.kubeconfig}"]
    cloud = LocalCloud(folder, Ports.free(), more=more)
    await cloud.start()
    try:
        customer = Customer(kube, cloud.seeded_organization(), cloud.ports.gateway)
        await customer.is_offered()
        yield customer
    finally:
        await cloud.process.stop()


async def _row(kube: Kube, customer: Customer, count: int, target: str) -> Row:
    bare, rented = list[float](), list[float]()
    for turn in range(ROUNDS):
        names = (f"bare-{turn}-{number}" for number in range(count))
        bare.append(max(await asyncio.gather(*(_bare(kube, name) for name in names))))
        await customer.is_offered(count)  # GPUs are free a moment after their Pods have ended
        rented.append(max(await asyncio.gather(*(_rented(customer) for _ in range(count)))))
        await customer.is_offered(count)
        await _reclaim(kube)
    slow, fast = statistics.median(rented), statistics.median(bare)
    ratio = statistics.median(far / near for near, far in zip(bare, rented, strict=True))
    what = "a pod" if count == 1 else f"{count} pods at once"
    figure = f"{ratio:.2f} x the way to Ready of a Pod with a volume that nobody rents out ({slow:.2f} s, {fast:.2f} s)"
    return f"{what}: from the request to the first byte of the container through the gateway", figure, target


async def _reclaim(kube: Kube) -> None:
    """Makes volumes of ended pods claimable again; the node's volumes can be claimed only once by default."""
    look = partial(kube.list, "PersistentVolume")
    for volume in await eventually(look, _none_is_bound, what="the volumes of ended pods are released"):
        if volume["status"]["phase"] == "Released":
            await kube.patch("PersistentVolume", volume["metadata"]["name"], {"spec": {"claimRef": None}})


def _none_is_bound(volumes: list[Manifest]) -> bool:
    return all(volume["status"]["phase"] != "Bound" for volume in volumes)


async def _bare(kube: Kube, name: str) -> float:
    """Returns the seconds until a plain Pod is Ready; like the cloud's, it has one GPU and a volume."""
    asked = {"requests": {"storage": "10Gi"}}
    claim: Manifest = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": asked}
    container: Manifest = {"name": "main", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    container["volumeMounts"] = [{"name": "workspace", "mountPath": "/workspace"}]
    volumes = [{"name": "workspace", "persistentVolumeClaim": {"claimName": name}}]
    pod = {"containers": [container], "volumes": volumes, "automountServiceAccountToken": False}
    started, metadata = time.monotonic(), {"name": name}
    await kube.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim})
    await kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    look = kube.looking_at("Pod", name)
    await eventually(look, _is_ready, every=_LOOK, what="the Pod is Ready")
    took = time.monotonic() - started
    await kube.delete("Pod", name, gracePeriodSeconds=0)
    await eventually(look, lambda pod: pod is None, every=_LOOK, what="the Pod is gone")
    await kube.delete("PersistentVolumeClaim", name)
    return took


def _is_ready(pod: Manifest | None) -> bool:
    conditions = (pod or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _rented(customer: Customer) -> float:
    """Returns the seconds until the gateway passes on the first answer of a pod of the cloud."""
    started = time.monotonic()
    pod_id = await customer.post()

    async def asked() -> int:
        return (await customer.ask(await customer.team.vm(pod_id), "GET", "/", customer.team.api_key))[0]

    await eventually(asked, lambda status: status == HTTPStatus.OK, every=_LOOK, what="the pod answers")
    took = time.monotonic() - started
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")
    return took

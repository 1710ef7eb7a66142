"""Pods are found by their Node, from when they are bound to it for as long as the API server has them."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes.pods import Pods
from tests.cluster.operators_client import client_of
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.observed import Pod
    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube


def manifest(name: str, node: str | None) -> dict[str, Any]:
    """A Pod of the namespace `default` on a Node, or on none yet."""
    spec = {"containers": [{"name": "main", "image": "app:1"}], "automountServiceAccountToken": False}
    bound = {} if node is None else {"nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec | bound}


async def test_pods_on_a_node_come_move_and_go(cluster: Cluster, kube: Kube) -> None:
    name = f"pod-{secrets.token_hex(4)}"
    here, there = f"{name}-here", f"{name}-there"
    told: list[Pod] = []
    await kube.create(manifest(f"{name}-1", here))
    await kube.create(manifest(f"{name}-2", None))
    async with client_of(cluster.kubeconfig) as client:
        pods = Pods(client, told.append)
        running = asyncio.create_task(pods.mirror.run())

        async def found() -> list[list[str]]:
            return [
                sorted(pod.metadata.name.removeprefix(f"{name}-") for pod in pods.on(node)) for node in (here, there)
            ]

        await eventually(found, lambda now: now == [["1"], []])
        body = {"target": {"kind": "Node", "name": here}, "metadata": {"name": f"{name}-2"}}
        await kube.call("POST", f"/api/v1/namespaces/default/pods/{name}-2/binding", body)
        await eventually(found, lambda now: now == [["1", "2"], []])
        await kube.patch("Pod", f"{name}-1", {"status": {"phase": "Running"}}, "default", "status")
        await eventually(lambda: phases(pods, here), lambda now: now == ["Pending", "Running"])
        await kube.delete("Pod", f"{name}-1", "default", gracePeriodSeconds=0)
        await kube.create(manifest(f"{name}-1", there))
        await eventually(found, lambda now: now == [["2"], ["1"]])
        for each in ("1", "2"):
            await kube.delete("Pod", f"{name}-{each}", "default", gracePeriodSeconds=0)
        await eventually(found, lambda now: now == [[], []])
        assert {pod.metadata.name for pod in told} >= {f"{name}-1", f"{name}-2"}
        running.cancel()
        await asyncio.wait([running])


async def phases(pods: Pods, node: str) -> list[str]:
    """The phases of the Pods on a Node."""
    return sorted(pod.status.phase for pod in pods.on(node))

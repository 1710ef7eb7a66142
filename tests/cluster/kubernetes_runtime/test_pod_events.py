"""Events are found by the Pod that they are about, for as long as the API server has them."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes.pod_events import PodEvents
from tests.cluster.operators_client import client_of
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.pod_events import PodEvent
    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube


def event(name: str, uid: str, message: str) -> dict[str, Any]:
    """One about a Pod of the namespace `default`."""
    about = {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, "message": message}


async def test_events_of_a_pod_come_change_and_go(cluster: Cluster, kube: Kube) -> None:
    uid, name = f"pod-{secrets.token_hex(4)}", f"event-{secrets.token_hex(4)}"
    told: list[PodEvent] = []
    await kube.create(event(f"{name}-other", f"{uid}-other", "elsewhere"))
    async with client_of(cluster.kubeconfig) as client:
        events = PodEvents(client, told.append)
        running = asyncio.create_task(events.mirror.run())

        async def messages() -> list[str]:
            return sorted(each.message for each in events.of("default", uid))

        await kube.create(event(f"{name}-1", uid, "one"))
        await kube.create(event(f"{name}-2", uid, "two"))
        await eventually(messages, lambda said: said == ["one", "two"])
        await kube.apply(event(f"{name}-2", uid, "three"))
        await eventually(messages, lambda said: said == ["one", "three"])
        for each in ("1", "2"):
            await kube.delete("Event", f"{name}-{each}", "default")
        await eventually(messages, lambda said: said == [])
        assert [each.message for each in events.of("default", f"{uid}-other")] == ["elsewhere"]
        assert [each.message for each in told if each.involved.uid == uid and "one" in each.message] == ["one", "one"]
        running.cancel()
        await asyncio.wait([running])
    await kube.delete("Event", f"{name}-other", "default")

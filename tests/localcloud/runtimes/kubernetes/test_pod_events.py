"""Events about Pods, whoever wrote them; `tests/cluster/kubernetes_runtime` has those of a real API server."""

from __future__ import annotations

from typing import Any

import aiohttp

from relay_kube.kube import ApiAccess, Kube
from relay_localcloud.runtimes.kubernetes.pod_events import PodEvents


def event(namespace: str, about: str, version: int) -> dict[str, Any]:
    """An event that says to be about the Pod with this uid."""
    metadata = {"name": "event-1", "namespace": namespace, "uid": f"of-{namespace}", "resourceVersion": str(version)}
    return {"metadata": metadata, "involvedObject": {"kind": "Pod", "uid": about}, "message": namespace}


async def test_only_events_in_the_namespace_of_a_pod_count_and_one_that_names_others_leaves_nothing() -> None:
    async with aiohttp.ClientSession() as session:
        events = PodEvents(Kube(ApiAccess("http://127.0.0.1:1", session)), lambda _: None)

    def said(uid: str) -> list[str]:
        return [each.message for each in events.of("relay-org-a", uid)]

    events.mirror.wrote(event("relay-org-a", "u1", 1))
    events.mirror.wrote(event("team-b", "u1", 2))
    assert said("u1") == ["relay-org-a"]
    events.mirror.wrote(event("relay-org-a", "u2", 3))
    assert (said("u1"), said("u2")) == ([], ["relay-org-a"])
    assert len(events._of_pods) == 2

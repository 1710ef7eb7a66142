"""A pod of the cloud is a Pod of a cluster: made, watched, stopped, started, terminated, and told of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.runtimes.kubernetes.facts import CORDONED
from relay_localcloud.runtimes.kubernetes.holders import NO_VOLUMES
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, START, name_of
from relay_localcloud.runtimes.kubernetes.turns import TAKEN
from relay_localcloud.workloads.workloads import WORKLOADS
from tests.cluster.kubernetes_runtime.stage import GPU, now
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Stage


async def test_a_pod_is_made_with_all_that_is_its_and_runs_once_its_container_does(stage: Stage) -> None:
    pod_id = await stage.post()
    pod = await stage.pod(pod_id)
    name, kube = name_of(pod_id), stage.kube
    assert pod["metadata"]["annotations"][START] == "1"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    for kind, called in (("PersistentVolumeClaim", name), ("Secret", name), ("ResourceQuota", "relay")):
        assert await kube.find(kind, called, stage.namespace), kind
    assert await kube.find("NetworkPolicy", "relay", stage.namespace)
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_runs(pod_id)
    record = await stage.becomes(pod_id, "running")
    assert record["provisioningStage"] == "ready"


async def test_it_stops_when_its_pod_is_gone_keeps_its_volume_and_starts_on_it(stage: Stage) -> None:
    pod_id = await stage.runs()
    first, name = await stage.pod(pod_id), name_of(pod_id)
    volume = await stage.kube.get("PersistentVolumeClaim", name, stage.namespace)
    await stage.act(pod_id, "stop")
    await stage.leaves(pod_id)
    assert (await stage.organization.vm(pod_id))["status"] == "stopping"
    await stage.kubelet_removes(name)
    await stage.becomes(pod_id, "stopped")
    await stage.gone("Secret", pod_id)
    await stage.act(pod_id, "restart")
    again = await stage.pod(pod_id, other_than=first["metadata"]["uid"])
    assert again["metadata"]["annotations"][START] == "2"
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_runs(pod_id)
    await stage.becomes(pod_id, "running")
    kept = await stage.kube.get("PersistentVolumeClaim", name, stage.namespace)
    assert kept["metadata"]["uid"] == volume["metadata"]["uid"]


async def test_a_running_one_that_restarts_gets_another_pod_and_is_running_meanwhile(stage: Stage) -> None:
    pod_id = await stage.runs()
    first = await stage.pod(pod_id)
    await stage.act(pod_id, "restart")
    await stage.leaves(pod_id)
    await stage.kubelet_removes(name_of(pod_id))
    again = await stage.pod(pod_id, other_than=first["metadata"]["uid"])
    assert again["metadata"]["annotations"][START] == "2"
    assert (await stage.organization.vm(pod_id))["status"] == "running"


async def test_terminate_leaves_nothing(stage: Stage) -> None:
    pod_id = await stage.runs()
    await stage.act(pod_id, "terminate")
    await stage.becomes(pod_id, "terminated")
    await stage.leaves(pod_id)
    await stage.kubelet_removes(name_of(pod_id))
    for kind in ("Pod", "Secret", "PersistentVolumeClaim"):
        await stage.gone(kind, pod_id)

    async def swept_at() -> int | None:
        with stage.store.transaction() as tx:
            holding = HOLDINGS.find(tx, id=pod_id)
        assert holding is not None
        return holding.swept_at

    await eventually(swept_at, what="the cloud has noted that nothing is left")


async def test_why_it_does_not_start_is_said_in_the_kubelets_words(stage: Stage) -> None:
    pod_id = await stage.post()
    await stage.pod(pod_id)
    await stage.scheduler_binds(pod_id)
    waiting = {"reason": "ErrImagePull", "message": "app:1: not found"}
    await stage.kubelet_says(pod_id, phase="Pending", state={"waiting": waiting})
    await stage.becomes(pod_id, "deploying", "app:1: not found")
    await stage.kubelet_runs(pod_id)
    await stage.becomes(pod_id, "running")


async def test_what_the_kubelet_warns_of_in_an_event_is_said(stage: Stage) -> None:
    pod_id = await stage.post()
    pod = await stage.pod(pod_id)
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_says(pod_id, phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})
    about = {"kind": "Pod", "name": name_of(pod_id), "namespace": stage.namespace, "uid": pod["metadata"]["uid"]}
    await stage.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "mount", "namespace": stage.namespace},
            "involvedObject": about,
            "type": "Warning",
            "reason": "FailedMount",
            "message": "no such secret",
            "lastTimestamp": now(),
        }
    )
    await stage.becomes(pod_id, "deploying", "no such secret")


async def test_a_container_that_exits_is_told_once_and_the_pod_runs_on(stage: Stage) -> None:
    def changed_at() -> int:
        """When the pod was last told anything that moves it: an exit is no event of webhooks."""
        with stage.store.transaction() as tx:
            row = WORKLOADS.find(tx, id=pod_id)
        assert row is not None
        return row.changed_at

    pod_id = await stage.runs()
    ran_at = changed_at()
    ended = {"exitCode": 3, "reason": "Error", "startedAt": now(), "finishedAt": now()}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    await stage.kubelet_says(pod_id, state=waiting, lastState={"terminated": ended})
    await stage.becomes(pod_id, "running", "CONTAINER_EXITED: exit code 3 (Error)")
    told_at = changed_at()
    assert told_at > ran_at
    pulled = {"waiting": {"reason": "ErrImagePull", "message": "app:1: not found"}}
    await stage.kubelet_says(pod_id, state=pulled, lastState={"terminated": ended})
    await stage.becomes(pod_id, "running", "app:1: not found")  # so it was looked at again
    assert changed_at() == told_at


async def test_a_pod_that_somebody_deleted_is_made_again(stage: Stage) -> None:
    pod_id = await stage.runs()
    first = await stage.pod(pod_id)
    await stage.kubelet_removes(name_of(pod_id))
    again = await stage.pod(pod_id, other_than=first["metadata"]["uid"])
    assert again["metadata"]["annotations"][START] == "1"
    assert (await stage.organization.vm(pod_id))["statusReason"] == "Its Pod was deleted."


async def _is_held(stage: Stage, *finalizers: str) -> bool:
    """Whether its namespace has these finalizers now; False if the namespace's controller changed it meanwhile."""
    there = await stage.kube.get("Namespace", stage.namespace)
    final = f"/api/v1/namespaces/{stage.namespace}/finalize"
    try:
        await stage.kube.call("PUT", final, {**there, "spec": {"finalizers": [*finalizers]}})
    except KubeError as refusal:
        if refusal.status != 409:
            raise
        return False
    return True


@pytest.mark.parametrize("with_namespace", [False, True])
async def test_a_pod_whose_volume_somebody_deleted_fails_and_only_a_restart_begins_with_an_empty_one(
    stage: Stage, with_namespace: bool
) -> None:
    pod_id = await stage.runs()
    first, name = await stage.pod(pod_id), name_of(pod_id)
    unprotected = {"metadata": {"finalizers": None}}  # no controller does that here once its Pod is gone
    await stage.kube.patch("PersistentVolumeClaim", name, unprotected, stage.namespace)
    if with_namespace:
        await eventually(partial(_is_held, stage, "kubernetes", "example.com/held"), what="it cannot go before")
        await stage.kube.delete("Namespace", stage.namespace)
    await stage.kube.delete("PersistentVolumeClaim", name, stage.namespace)
    await stage.kubelet_removes(name)
    if with_namespace:
        await stage.becomes(pod_id, "deploying", "Forbidden")
        await eventually(partial(_is_held, stage), what="it goes")
    await stage.becomes(pod_id, "failed", "Its volume was deleted from the cluster")
    assert await stage.kube.find("Pod", name, stage.namespace) is None
    await stage.act(pod_id, "restart")
    again = await stage.pod(pod_id, other_than=first["metadata"]["uid"])
    assert again["metadata"]["annotations"][START] == "2"


async def test_a_pod_that_is_not_this_clouds_is_left_alone(stage: Stage) -> None:
    pod_id = await stage.runs()
    labels = {"metadata": {"labels": {INSTANCE: "another"}}}
    theirs = await stage.kube.patch("Pod", name_of(pod_id), labels, stage.namespace)
    await stage.becomes(pod_id, "running", TAKEN)
    await stage.act(pod_id, "terminate")
    await stage.gone("PersistentVolumeClaim", pod_id)
    left = await stage.kube.get("Pod", name_of(pod_id), stage.namespace)
    assert (left["metadata"]["uid"], left["metadata"].get("deletionTimestamp")) == (theirs["metadata"]["uid"], None)


async def test_a_namespace_that_is_another_clouds_takes_nothing(stage: Stage) -> None:
    labels = {INSTANCE: "another"}
    metadata = {"name": stage.namespace, "labels": labels}
    await stage.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    pod_id = await stage.post()
    await stage.becomes(pod_id, "deploying", "NotOurs: the namespace")
    assert await stage.kube.list("Secret", stage.namespace) == []


async def test_a_node_that_is_not_ready_is_offline_and_a_cordoned_one_takes_nothing_on(stage: Stage) -> None:
    async def statuses() -> list[str]:
        nodes = await stage.organization.call("GET", "/_localcloud/nodes")
        return [node["status"] for node in nodes["items"]]

    await eventually(statuses, lambda seen: seen == ["online"])
    await stage.node(ready=False)
    await eventually(statuses, lambda seen: seen == ["offline"])
    await stage.node(cordoned=True)
    await eventually(statuses, lambda seen: seen == ["draining"])
    await stage.node()
    await eventually(statuses, lambda seen: seen == ["online"])


async def test_a_pod_that_is_restarted_on_a_cordoned_node_waits_until_that_is_uncordoned(stage: Stage) -> None:
    pod_id = await stage.runs()
    first = await stage.pod(pod_id)
    await stage.node(cordoned=True)
    await eventually(stage.free, lambda free: free == 0, what="the node takes nothing new")
    await stage.act(pod_id, "restart")
    await stage.leaves(pod_id)
    await stage.kubelet_removes(name_of(pod_id))
    await stage.becomes(pod_id, "deploying", CORDONED)
    assert await stage.kube.find("Pod", name_of(pod_id), stage.namespace) is None
    await stage.node()
    await stage.pod(pod_id, other_than=first["metadata"]["uid"])


async def test_gpus_that_another_pod_has_are_not_offered_until_it_is_gone(stage: Stage) -> None:
    await eventually(stage.free, lambda free: free == 8)
    container = {"name": "a", "image": "app:1", "resources": {"limits": {GPU: "3"}}}
    spec = {"nodeName": await stage.node(), "containers": [container], "automountServiceAccountToken": False}
    metadata = {"name": stage.product.lower(), "namespace": "default"}
    await stage.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await eventually(stage.free, lambda free: free == 5)
    await stage.kube.delete("Pod", metadata["name"], "default", gracePeriodSeconds=0)
    await eventually(stage.free, lambda free: free == 8)


async def test_without_a_storage_class_a_pod_is_refused_with_a_sentence_and_one_that_was_made_before_fails(
    stage: Stage,
) -> None:
    await stage.end()
    await stage.start(reconciling=False)
    pod_id = await stage.post()
    await stage.end()
    stage.terms = {}
    await stage.start()
    await stage.becomes(pod_id, "failed", NO_VOLUMES)
    with pytest.raises(CloudRefusal, match="422 unprocessable: Volumes are not offered"):
        await stage.post()

"""A cloud that ends at any step of a cluster goes on from its rows and from what Kubernetes has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay_localcloud.runtimes.kubernetes.names import REPLICA_ID, name_of
from tests.cluster.kubernetes_runtime.groups import act, becomes, detail, left, post, removed, replicas, running, serves
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.served import Served
    from tests.cluster.kubernetes_runtime.stage import Stage


async def pods(stage: Stage) -> dict[str, str]:
    """The uids of all Pods of replicas that stay, by replica."""
    found = [each["metadata"] for each in await stage.kube.list("Pod", stage.namespace)]
    return {each["labels"][REPLICA_ID]: each["uid"] for each in found if not each.get("deletionTimestamp")}


async def unsent(stage: Stage, cluster_id: str, action: str, count: int = 0) -> None:
    """Something is wanted, and the process ends before it sends anything of that."""
    await stage.end()
    await stage.start(reconciling=False)
    await act(stage, cluster_id, action, {"replicaCount": count} if count else None)
    await stage.end()
    await stage.start()


async def test_replicas_that_were_wanted_before_a_kill_are_made_once_after_it(stage: Stage) -> None:
    await stage.end()
    await stage.start(reconciling=False)
    cluster_id = await post(stage, replicaCount=2)
    await stage.end()
    await stage.start()
    ids = await replicas(stage, cluster_id, 2)
    made = await pods(stage)
    await stage.end()
    await serves(stage, *ids)
    await stage.start()
    await becomes(stage, cluster_id, "running")
    assert await pods(stage) == made
    await unsent(stage, cluster_id, "scale", 3)
    grown = set(await replicas(stage, cluster_id, 3))
    assert {each: uid for each, uid in (await pods(stage)).items() if each in ids} == made
    assert (await pods(stage)).keys() == grown


async def test_what_a_smaller_cluster_had_goes_after_a_kill(stage: Stage) -> None:
    cluster_id, ids = await running(stage, replicaCount=2, envVars={"A": "b"})
    await unsent(stage, cluster_id, "scale", 1)
    (kept,) = await replicas(stage, cluster_id, 1)
    (gone,) = set(ids) - {kept}
    await stage.leaves(gone)
    await stage.end()
    await stage.kubelet_removes(name_of(gone))
    await stage.start()
    await eventually(lambda: left(stage), lambda names: sorted(names) == [name_of(kept)] * 2)  # its Pod, its Secret


async def test_a_stop_goes_on_after_a_kill_at_each_step(stage: Stage) -> None:
    cluster_id, (one, other) = await running(stage, replicaCount=2, envVars={"A": "b"})
    await unsent(stage, cluster_id, "stop")
    await stage.leaves(one)
    await stage.leaves(other)
    await stage.end()
    await stage.kubelet_removes(name_of(one))
    await stage.start()
    await stage.gone("Secret", one)  # only once the cloud saw that its Pod is gone
    assert (await detail(stage, cluster_id))["status"] == "stopping"
    await stage.end()
    await stage.kubelet_removes(name_of(other))
    await stage.start()
    await becomes(stage, cluster_id, "stopped")
    await eventually(lambda: left(stage), lambda names: names == [])


async def test_a_terminate_leaves_nothing_although_the_rows_of_its_replicas_are_gone(stage: Stage) -> None:
    cluster_id, ids = await running(stage, replicaCount=2, envVars={"A": "b"})
    await unsent(stage, cluster_id, "terminate")
    await removed(stage, ids[0])
    await stage.end()
    await stage.start()
    await removed(stage, ids[1])
    await eventually(lambda: left(stage), lambda names: names == [])


async def test_a_restart_that_was_wanted_before_a_kill_is_done_after_it(stage: Stage) -> None:
    cluster_id, (replica_id,) = await running(stage)
    first = (await stage.pod(replica_id))["metadata"]["uid"]
    await unsent(stage, cluster_id, "restart")
    await stage.leaves(replica_id)
    await stage.end()
    await stage.kubelet_removes(name_of(replica_id))
    await stage.start()
    await stage.pod(replica_id, other_than=first)
    await serves(stage, replica_id)
    await becomes(stage, cluster_id, "running")


async def test_a_cluster_lives_and_ends_once_however_often_the_process_is_killed(served: Served) -> None:
    cluster_id = await post(served, replicaCount=2)
    await served.killed_and_started()
    ids = await replicas(served, cluster_id, 2)
    await served.end()
    made = await pods(served)
    await serves(served, *ids)
    await served.start()
    await becomes(served, cluster_id, "running")
    await act(served, cluster_id, "stop")
    await served.killed_and_started()
    await removed(served, *ids)
    await becomes(served, cluster_id, "stopped")
    assert made.keys() == set(ids)
    assert [each["resourceId"] for each in await served.organization.billed()] == [cluster_id]
    await act(served, cluster_id, "restart")
    await served.killed_and_started()
    again = await replicas(served, cluster_id, 2)
    assert (await pods(served)).keys() == set(again)
    await serves(served, *again)
    await becomes(served, cluster_id, "running")
    await act(served, cluster_id, "terminate")
    await served.killed_and_started()
    await removed(served, *again)
    await eventually(lambda: left(served), lambda names: names == [])

"""A cloud that ends at any step goes on from its rows and from what the cluster has: nothing twice, nothing left."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from relay_localcloud.clock.clock import kept_time
from relay_localcloud.kernel.instants import parse_timestamp
from relay_localcloud.kernel.store import Store
from relay_localcloud.money.ledger import USAGE
from relay_localcloud.runtimes.kubernetes.names import START, name_of
from relay_localcloud.workloads.workloads import WORKLOADS
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Json, Stage


async def restarted(stage: Stage, *, reconciling: bool = True) -> None:
    """Ended in the middle of whatever it did, and started on the same state."""
    await stage.end()
    await stage.start(reconciling=reconciling)


async def test_what_was_wanted_before_a_kill_is_made_after_it(stage: Stage) -> None:
    await restarted(stage, reconciling=False)
    pod_id = await stage.post()
    await restarted(stage)
    await stage.pod(pod_id)


async def test_a_pod_that_was_made_before_a_kill_is_not_made_twice(stage: Stage) -> None:
    pod_id = await stage.post()
    made = await stage.pod(pod_id)
    await stage.end()
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_runs(pod_id)
    await stage.start()
    await stage.becomes(pod_id, "running")
    pods = await stage.kube.list("Pod", stage.namespace)
    assert [pod["metadata"]["uid"] for pod in pods] == [made["metadata"]["uid"]]


async def test_what_started_while_the_cloud_was_away_is_billed_since_then(stage: Stage) -> None:
    pod_id = await stage.post()
    made = await stage.pod(pod_id)
    await stage.end()
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_says(pod_id, state={"running": {"startedAt": made["metadata"]["creationTimestamp"]}})
    await stage.start()
    await stage.becomes(pod_id, "running")
    with stage.store.transaction() as tx:
        (stint,) = USAGE.all(tx, holder_id=pod_id)
        workload = WORKLOADS.find(tx, id=pod_id)
    assert workload is not None
    began = parse_timestamp(made["metadata"]["creationTimestamp"])  # of whole seconds, so perhaps before the order
    assert stint.started_at == max(began, workload.created_at)


async def test_what_somebody_deleted_while_the_cloud_was_away_is_billed_no_longer_than_it_is_known_to_have_run(
    stage: Stage,
) -> None:
    pod_id = await stage.runs()
    first = await stage.pod(pod_id)
    await stage.end()
    state = Store.at(stage.state)
    with state.transaction(at=0) as tx:
        kept = kept_time(tx)
    state.close()
    await stage.kubelet_removes(name_of(pod_id))
    await stage.start()
    await stage.becomes(pod_id, "deploying", "Its Pod was deleted.")
    await stage.pod(pod_id, other_than=first["metadata"]["uid"])
    await stage.scheduler_binds(pod_id)
    await stage.kubelet_runs(pod_id)
    await stage.becomes(pod_id, "running")
    with stage.store.transaction() as tx:
        before, since = USAGE.all(tx, holder_id=pod_id)
    assert kept is not None
    assert before.ended_at == max(kept, before.started_at)
    assert since.ended_at is None


async def test_a_secret_or_volume_of_a_start_that_a_kill_broke_off_is_taken_over(stage: Stage) -> None:
    async def uids() -> list[str]:
        kinds = ("Secret", "PersistentVolumeClaim")
        found = [await stage.kube.get(kind, name_of(pod_id), stage.namespace) for kind in kinds]
        return [each["metadata"]["uid"] for each in found]

    pod_id = await stage.post()
    await stage.pod(pod_id)
    await stage.end()
    made = await uids()
    await stage.kubelet_removes(name_of(pod_id))  # as if the create of the Pod had never been sent
    await stage.start()
    await stage.pod(pod_id)
    assert await uids() == made


async def test_a_stop_that_was_wanted_before_a_kill_is_done_after_it(stage: Stage) -> None:
    pod_id = await stage.runs()
    await restarted(stage, reconciling=False)
    await stage.act(pod_id, "stop")
    await restarted(stage)
    await stage.leaves(pod_id)
    await stage.end()
    await stage.kubelet_removes(name_of(pod_id))
    await stage.start()
    await stage.becomes(pod_id, "stopped")
    await stage.gone("Secret", pod_id)
    await stage.kube.get("PersistentVolumeClaim", name_of(pod_id), stage.namespace)


async def test_a_terminate_that_was_wanted_before_a_kill_leaves_nothing_after_it(stage: Stage) -> None:
    pod_id = await stage.runs()
    await restarted(stage, reconciling=False)
    await stage.act(pod_id, "terminate")
    await restarted(stage)
    await stage.leaves(pod_id)
    await stage.end()
    await stage.kubelet_removes(name_of(pod_id))
    await stage.start()
    for kind in ("Secret", "PersistentVolumeClaim"):
        await stage.gone(kind, pod_id)


async def test_a_restored_older_state_ends_nothing_by_itself_and_sells_no_gpu_that_is_used(stage: Stage) -> None:
    restarted_since, started_since = await stage.runs(), await stage.runs()
    await stops(stage, started_since)
    await stage.end()
    shutil.copytree(stage.state, stage.state.with_name("backup"))
    await stage.start()
    await stage.act(restarted_since, "restart")
    await stage.leaves(restarted_since)
    await stage.kubelet_removes(name_of(restarted_since))
    await stage.act(started_since, "restart")
    unknown = await stage.post()
    later = {each: await started(stage, each, start=2) for each in (restarted_since, started_since)}
    await stage.pod(unknown)
    await stage.scheduler_binds(unknown)
    await stage.end()
    shutil.rmtree(stage.state)
    shutil.copytree(stage.state.with_name("backup"), stage.state)
    await stage.start()
    known = await stage.runs()  # so all of them were looked at
    pods = {pod["metadata"]["name"]: pod for pod in await stage.kube.list("Pod", stage.namespace)}
    assert pods.keys() == {name_of(each) for each in (restarted_since, started_since, unknown, known)}
    assert {each: pods[name_of(each)]["metadata"]["uid"] for each in later} == later
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods.values())
    await eventually(stage.free, lambda free: free == 8 - len((restarted_since, started_since, unknown, known)))
    assert (await stage.organization.vm(started_since))["status"] == "deploying"
    await stage.kubelet_runs(started_since)
    await stage.becomes(started_since, "running")
    for each in later:
        await stage.act(each, "terminate")
        await stage.gone("Pod", each)
    (orphan,) = (await stage.organization.call("GET", "/_localcloud/orphans"))["items"]
    assert (orphan["id"], orphan["namespace"]) == (unknown, stage.namespace)
    await stage.organization.call("DELETE", f"/_localcloud/orphans/{unknown}")
    await stage.gone("Pod", unknown)
    await stage.kubelet_removes(name_of(unknown))
    await stage.gone("Secret", unknown)
    await stage.gone("PersistentVolumeClaim", unknown)


async def stops(stage: Stage, pod_id: str) -> None:
    """Stopped, and its Pod gone."""
    await stage.act(pod_id, "stop")
    await stage.leaves(pod_id)
    await stage.kubelet_removes(name_of(pod_id))
    await stage.becomes(pod_id, "stopped")


async def started(stage: Stage, pod_id: str, start: int) -> str:
    """The uid of its Pod of that start, once there is one."""

    def is_it(pod: Json | None) -> bool:
        return pod is not None and pod["metadata"]["annotations"][START] == str(start)

    look = stage.kube.looking_at("Pod", name_of(pod_id), stage.namespace)
    found = await eventually(look, is_it, what=f"there is a Pod of start {start}")
    assert found is not None
    return str(found["metadata"]["uid"])

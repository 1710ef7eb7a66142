"""Replicas of a cluster are Pods: made, checked, counted, stopped, restarted, scaled, and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.runtimes.kubernetes.facts import ALL_CORDONED
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, REPLICA_ID, START, name_of, pull_name_of
from tests.cluster.kubernetes_runtime.groups import (
    act,
    becomes,
    detail,
    left,
    post,
    removed,
    replicas,
    running,
    serves,
)
from tests.cluster.kubernetes_runtime.stage import PRODUCT, now
from tests.support.eventually import eventually
from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Stage


async def test_each_replica_is_a_pod_and_healthy_once_its_container_is_ready(stage: Stage) -> None:
    cluster_id = await post(stage, replicaCount=2, gpusPerReplica=2, envVars={"A": "b"}, containerPort=8000)
    one, other = await replicas(stage, cluster_id, 2)
    pod = await stage.pod(one)
    labels, container = pod["metadata"]["labels"], pod["spec"]["containers"][0]
    assert (labels[CLOUD_ID], labels[REPLICA_ID]) == (cluster_id, one)
    assert container["readinessProbe"]["httpGet"]["path"] == "/up"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    await stage.scheduler_binds(one)
    await stage.kubelet_says(one, state={"running": {"startedAt": now()}})
    await becomes(stage, cluster_id, "provisioning", f"{one}: It has not passed its health check yet.")
    (billed,) = await stage.organization.billed()
    assert billed["resourceId"] == cluster_id
    await stage.kubelet_runs(one)
    await serves(stage, other)
    found = await becomes(stage, cluster_id, "running")
    assert [each["status"] for each in found["replicas"]] == ["healthy", "healthy"]
    assert "internalIp" not in found["replicas"][0]


async def test_why_a_replica_does_not_start_or_serve_is_said_in_the_kubelets_words(stage: Stage) -> None:
    cluster_id = await post(stage)
    (replica_id,) = await replicas(stage, cluster_id, 1)
    await stage.scheduler_binds(replica_id)
    waiting = {"reason": "ErrImagePull", "message": "app:1: not found"}
    await stage.kubelet_says(replica_id, phase="Pending", state={"waiting": waiting})
    await becomes(stage, cluster_id, "provisioning", "app:1: not found")
    await stage.kubelet_runs(replica_id)
    await becomes(stage, cluster_id, "running")
    ended = {"exitCode": 3, "reason": "Error", "startedAt": now(), "finishedAt": now()}
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    await stage.kubelet_says(replica_id, state=back_off, lastState={"terminated": ended})
    await becomes(stage, cluster_id, "degraded", f"{replica_id}: CONTAINER_EXITED: exit code 3 (Error)")
    await stage.kubelet_says(replica_id, state={"running": {"startedAt": now()}}, lastState={"terminated": ended})
    await becomes(stage, cluster_id, "degraded", "CONTAINER_EXITED: exit code 3 (Error)")
    await stage.kubelet_says(
        replica_id, ready=True, state={"running": {"startedAt": now()}}, lastState={"terminated": ended}
    )
    await becomes(stage, cluster_id, "running")


async def test_a_replica_that_fails_its_check_is_unhealthy_until_it_passes_it(stage: Stage) -> None:
    cluster_id, (one, other) = await running(stage, replicaCount=2)
    await stage.kubelet_says(one, state={"running": {"startedAt": now()}})
    found = await becomes(stage, cluster_id, "degraded", f"Failing health checks: {one}.")
    assert {each["id"]: each["healthy"] for each in found["replicas"]} == {one: False, other: True}
    await stage.kubelet_runs(one)
    await becomes(stage, cluster_id, "running")


async def test_a_replica_that_is_given_up_holds_no_gpu_and_another_takes_its_place_on_restart(stage: Stage) -> None:
    cluster_id, (one, other) = await running(stage, replicaCount=2, gpusPerReplica=4)
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi."
    evicted = {"phase": "Failed", "reason": "Evicted", "message": words}
    await stage.kube.patch("Pod", name_of(one), {"status": evicted}, stage.namespace, "status")
    await becomes(stage, cluster_id, "degraded", f"Given up: {one}. {one}: Evicted: {words}")
    await stage.gone("Pod", one)
    await stage.post(gpuCount=4)  # there is room for it
    assert {each["id"] for each in (await detail(stage, cluster_id))["replicas"]} == {one, other}
    await act(stage, cluster_id, "restart")
    await becomes(stage, cluster_id, "degraded", "Waiting for room for 1 more")
    assert one not in {each["id"] for each in (await detail(stage, cluster_id))["replicas"]}


async def test_scaling_makes_pods_and_ends_them(stage: Stage) -> None:
    cluster_id, (first,) = await running(stage)
    await act(stage, cluster_id, "scale", {"replicaCount": 3})
    added = [each for each in await replicas(stage, cluster_id, 3) if each != first]
    await serves(stage, *added)
    await eventually(lambda: detail(stage, cluster_id), lambda found: all(e["healthy"] for e in found["replicas"]))
    await act(stage, cluster_id, "scale", {"replicaCount": 1})
    (kept,) = await replicas(stage, cluster_id, 1)
    await removed(stage, *({first, *added} - {kept}))
    await eventually(lambda: left(stage), lambda names: names == [name_of(kept)])


async def test_a_stop_is_done_when_no_pod_is_left_and_a_start_makes_others(stage: Stage) -> None:
    cluster_id, (one, other) = await running(stage, replicaCount=2, envVars={"A": "b"})
    await act(stage, cluster_id, "stop")
    await removed(stage, one)
    await stage.gone("Secret", one)  # only once the cloud saw that its Pod is gone
    await stage.leaves(other)
    assert (await detail(stage, cluster_id))["status"] == "stopping"
    await stage.kubelet_removes(name_of(other))
    await becomes(stage, cluster_id, "stopped")
    await eventually(lambda: left(stage), lambda names: names == [])
    await act(stage, cluster_id, "restart")
    ids = await replicas(stage, cluster_id, 2)
    assert not {one, other} & set(ids)
    await serves(stage, *ids)
    await becomes(stage, cluster_id, "running")


async def test_a_cluster_that_restarts_gets_other_pods_for_its_replicas_and_says_so_meanwhile(stage: Stage) -> None:
    cluster_id, (replica_id,) = await running(stage)
    first = await stage.pod(replica_id)
    await act(stage, cluster_id, "restart")
    await becomes(stage, cluster_id, "degraded", f"Starting again: {replica_id}.")
    await removed(stage, replica_id)
    again = await stage.pod(replica_id, other_than=first["metadata"]["uid"])
    assert again["metadata"]["annotations"][START] == "2"
    await serves(stage, replica_id)
    await becomes(stage, cluster_id, "running")


async def test_terminate_leaves_nothing_of_any_replica(stage: Stage) -> None:
    cluster_id, ids = await running(stage, replicaCount=2, envVars={"A": "b"})
    await act(stage, cluster_id, "terminate")
    await becomes(stage, cluster_id, "terminated")
    await removed(stage, *ids)
    await eventually(lambda: left(stage), lambda names: names == [])


async def test_a_replica_whose_pod_somebody_deleted_gets_another(stage: Stage) -> None:
    cluster_id, (replica_id,) = await running(stage)
    first = await stage.pod(replica_id)
    await stage.kubelet_removes(name_of(replica_id))
    await stage.pod(replica_id, other_than=first["metadata"]["uid"])
    await becomes(stage, cluster_id, "degraded", "Its Pod was deleted.")
    await serves(stage, replica_id)
    await becomes(stage, cluster_id, "running")


async def test_what_runs_on_a_node_that_is_back_serves_again(stage: Stage) -> None:
    cluster_id, (replica_id,) = await running(stage)
    await stage.node(ready=False)
    await becomes(stage, cluster_id, "degraded", f"On nodes that do not report: {replica_id}.")
    await stage.node()
    await becomes(stage, cluster_id, "running")
    assert (await stage.pod(replica_id))["metadata"]["annotations"][START] == "1"


async def test_a_replica_without_gpus_runs_on_any_node_that_the_cloud_may_use(stage: Stage) -> None:
    await stage.end()
    stage.terms = {"node_selector": {"gpurelay.dev/pool": "true"}}  # and no storage class: replicas have no volume
    await stage.start()
    cluster_id, (replica_id,) = await running(stage, gpuModelId=None, resourceSize="small")
    spec = (await stage.pod(replica_id))["spec"]
    assert spec["nodeSelector"] == {"gpurelay.dev/pool": "true"}
    assert "nodeId" not in (await detail(stage, cluster_id))["replicas"][0]


async def test_a_replica_without_gpus_waits_while_every_node_that_it_could_run_on_is_cordoned(stage: Stage) -> None:
    await stage.end()
    stage.terms = {"node_selector": {PRODUCT: stage.product}}
    await stage.start()
    name = await stage.node(cordoned=True)
    await stage.kube.patch("Node", name, {"spec": {"taints": None}})  # as of a Node that its kubelet never reported
    cluster_id = await post(stage, gpuModelId=None, resourceSize="small")
    await becomes(stage, cluster_id, "provisioning", ALL_CORDONED)
    await eventually(lambda: left(stage), lambda names: names == [], what="no Pod waits")
    await stage.node()
    await replicas(stage, cluster_id, 1)


async def test_a_private_image_is_pulled_with_the_credential_and_that_goes_with_the_replica(stage: Stage) -> None:
    def credential(**secrets: str) -> dict[str, object]:
        return {"name": "ghcr", "server": "ghcr.io", "authType": "basic", "credentials": secrets}

    of_organization = f"/v1/orgs/{stage.organization.id}/registry-credentials"
    body = credential(username="me", password="s3cret")
    credential_id = (await stage.organization.call("POST", f"{of_organization}/create", body))["id"]
    cluster_id, (replica_id,) = await running(stage, registryCredentialId=credential_id)
    secret = await stage.kube.get("Secret", pull_name_of(replica_id), stage.namespace)
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert (await stage.pod(replica_id))["spec"]["imagePullSecrets"] == [{"name": pull_name_of(replica_id)}]
    await stage.organization.call("DELETE", f"{of_organization}/{credential_id}")
    first = (await stage.pod(replica_id))["metadata"]["uid"]
    await stage.kubelet_removes(name_of(replica_id))
    await stage.pod(replica_id, other_than=first)  # what was created with it goes on
    await stage.kube.get("Secret", pull_name_of(replica_id), stage.namespace)
    await act(stage, cluster_id, "terminate")
    await eventually(lambda: left(stage), lambda names: names == [])  # the Pod was on no node yet


async def test_a_credential_that_no_kubelet_can_use_is_refused(stage: Stage) -> None:
    of_organization = f"/v1/orgs/{stage.organization.id}/registry-credentials"
    body = {"name": "ecr", "server": "1.dkr.ecr.eu-west-1.amazonaws.com", "authType": "aws_ecr"}
    secrets = {"credentials": {"accessKeyId": "a", "secretAccessKey": "b"}}
    made = await stage.organization.call("POST", f"{of_organization}/create", {**body, **secrets})
    with pytest.raises(CloudRefusal, match="422 unprocessable: registryCredentialId: images are really pulled here"):
        await post(stage, registryCredentialId=made["id"])


async def test_privilege_needs_the_administrators_word(stage: Stage) -> None:
    with pytest.raises(CloudRefusal, match="422 unprocessable: privileged: the administrator"):
        await post(stage, privileged=True)
    await stage.end()
    stage.terms["privileged_allowed"] = True
    await stage.start()
    cluster_id = await post(stage, privileged=True)
    await becomes(stage, cluster_id, "provisioning", "securityContext.privileged")  # as this API server refuses it


async def test_a_cluster_needs_an_image(stage: Stage) -> None:
    with pytest.raises(CloudRefusal, match="422 unprocessable: imageUrl: "):
        await post(stage, imageUrl=None)
    with pytest.raises(CloudRefusal, match="422 unprocessable: kernelModules: "):
        await post(stage, kernelModules=["nvidia_uvm"])


async def test_a_replica_whose_name_another_cloud_has_waits_and_takes_nothing(stage: Stage) -> None:
    cluster_id, (replica_id,) = await running(stage)
    labels = {"metadata": {"labels": {"gpurelay.dev/cloud-instance": "another"}}}
    theirs = await stage.kube.patch("Pod", name_of(replica_id), labels, stage.namespace)
    await becomes(stage, cluster_id, "degraded", "There is a Pod of this name that is not this cloud's")
    await act(stage, cluster_id, "stop")
    await becomes(stage, cluster_id, "stopped")
    kept = await stage.kube.get("Pod", name_of(replica_id), stage.namespace)
    assert (kept["metadata"]["uid"], kept["metadata"].get("deletionTimestamp")) == (theirs["metadata"]["uid"], None)

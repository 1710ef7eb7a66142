"""From `kubectl apply` to Ready: what status tells, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, changes, count
from tests.support.kstatus import kstatus
from tests.support.manifests import condition, gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


async def _versions(workspace: Workspace, kind: str, since: Manifest, until: Manifest) -> list[Manifest]:
    """The object as it was created and after every write up to this version, as a watch tells them."""
    versions, last = [since], until["metadata"]["resourceVersion"]
    async for event in workspace.kube.watch(kind, resourceVersion=since["metadata"]["resourceVersion"]):
        versions.append(event["object"])
        if versions[-1]["metadata"]["resourceVersion"] == last:
            break
    return versions


async def test_a_pod_is_made_once_and_its_status_mirrors_the_cloud(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(count=2, volumeGb=100, httpPort=8080, shmSizeGb=4))
    pod = await workspace.becomes("GpuPod", "trainer")
    status, record = pod["status"], await workspace.organization.vm(pod["status"]["id"])
    mirrored = {
        "state": "status",
        "cloudName": "name",
        "endpointUrl": "endpointUrl",
        "pricePerHourCents": "pricePerHourCents",
        "gpuModelId": "gpuModelId",
        "gpuCount": "gpuCount",
        "volumeGb": "volumeGb",
        "public": "public",
    }
    assert {field: status[field] for field in mirrored} == {field: record[told] for field, told in mirrored.items()}
    assert (status["state"], status["gpuCount"], status["volumeGb"]) == ("running", 2, 100)
    assert status["pricePerHourCents"] > 0
    assert status["observedGeneration"] == 1
    assert status["cloudName"].startswith(f"{workspace.namespace}-trainer-"[:40])
    assert await changes(workspace) == [CREATE_POD]


async def test_a_cluster_is_made_once_and_its_status_mirrors_the_cloud(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster(replicas=3, env=[{"name": "MODE", "value": "fast"}], healthCheckPath="/healthz"))
    status = (await workspace.becomes("GpuCluster", "llm"))["status"]
    detail = await workspace.organization.cluster(status["id"])
    assert (
        (status["state"], status["cloudName"]) == (detail["status"], detail["name"]) == ("running", status["cloudName"])
    )
    assert (status["endpointUrl"], status["gpuModelId"]) == (detail["endpointUrl"], "l40s")
    assert (status["replicas"], status["readyReplicas"], status["unhealthyReplicas"]) == (3, 3, 0)
    assert {one["id"] for one in status["replicaStatuses"]} == {one["id"] for one in detail["replicas"]}
    assert detail["envVars"] == {"MODE": "fast"}
    assert detail["healthCheckPath"] == "/healthz"
    assert await changes(workspace) == [CREATE_CLUSTER]


async def test_the_columns_of_kubectl_get_show_what_a_person_wants_first(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    await workspace.apply(gpu_cluster())
    pod = (await workspace.becomes("GpuPod", "trainer"))["status"]
    cluster = (await workspace.becomes("GpuCluster", "llm"))["status"]
    titles, row = (line.split() for line in (await workspace.kubectl("get", "gpod")).splitlines())
    assert titles == ["NAME", "STATE", "GPU", "READY", "ENDPOINT", "CENTS/H", "AGE"]
    assert row[:-1] == ["trainer", "running", "l40s", "True", pod["endpointUrl"], str(pod["pricePerHourCents"])]
    titles, row = (line.split() for line in (await workspace.kubectl("get", "gcl")).splitlines())
    assert titles[:7] == ["NAME", "STATE", "GPU", "DESIRED", "HEALTHY", "READY", "ENDPOINT"]
    assert row[:7] == ["llm", "running", "l40s", "2", "2", "True", cluster["endpointUrl"]]
    wide = await workspace.kubectl("get", "gpurelay", "--output=wide")
    assert pod["id"] in wide
    assert cluster["id"] in wide


async def test_kstatus_is_in_progress_until_the_cloud_runs_it_and_current_from_then_on(workspace: Workspace) -> None:
    created = await workspace.apply(gpu_pod())
    ready = await workspace.becomes("GpuPod", "trainer")
    versions = await _versions(workspace, "GpuPod", created, ready)
    told = [kstatus(one) for one in versions]
    running = [one.get("status", {}).get("state") == "running" for one in versions]
    assert told == ["Current" if runs else "InProgress" for runs in running]
    assert running == sorted(running)
    types = {one["type"] for version in versions for one in version.get("status", {}).get("conditions", [])}
    assert types == {"Ready", "Reconciling"}
    assert condition(versions[-1], "Ready")["reason"] == "Running"


async def test_a_second_apply_and_a_look_asked_for_make_nothing_twice(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")
    await workspace.apply(gpu_pod())
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": "now"})
    await workspace.becomes("GpuPod", "trainer", lambda pod: pod and pod["status"].get("reconcileAt") == "now")
    assert await count(workspace, CREATE_POD) == 1

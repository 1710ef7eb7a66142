"""What each kind asks for that is paid by the hour, what there is of it, and which changes cost more."""

from typing import Any, cast

import pytest
from pydantic import JsonValue

from relay_operator.api.servingdeployment import ServingDeployment
from relay_operator.budgets.prices import Capacity
from relay_operator.flows.managed.abilities import is_priced
from relay_operator.flows.managed.actions import START
from relay_operator.kinds.gpucluster import GpuCluster, SeenCluster, clusters
from relay_operator.kinds.gpupod import GpuPod, GpuPods
from relay_operator.kinds.gpuvm import GpuVm, GpuVms
from relay_operator.kinds.servingdeployment import Seen, ServingDeployments
from relay_operator.kinds.sshkey import SshKeys
from relay_wire.clusters import ClusterSummary
from relay_wire.serving import Deployment
from relay_wire.vms import VmRecord
from tests.unit.kinds.given import parts

PARTS = parts()
CLUSTERS, SERVING = clusters(PARTS), ServingDeployments(PARTS)
H100: JsonValue = {"modelId": "h100", "count": 2}


def made(model: type[Any], status: JsonValue = None, **spec: JsonValue) -> Any:
    metadata: JsonValue = {"name": "x", "namespace": "team-a", "uid": "u"}
    return model.model_validate({"metadata": metadata, "spec": spec, "status": status or {}})


def cluster(status: JsonValue = None, replicas: int = 3, **spec: JsonValue) -> GpuCluster:
    return cast("GpuCluster", made(GpuCluster, status, replicas=replicas, **spec))


def seen(replicas: int | None = 3, status: str = "running") -> SeenCluster:
    row = {
        "id": "c",
        "name": "n",
        "organizationId": "o",
        "status": status,
        "replicaCount": replicas,
        "gpuModelId": "h100",
    }
    return SeenCluster(ClusterSummary.model_validate(row))


def serving(desired: int) -> ServingDeployment:
    replicas: JsonValue = {"min": 0, "max": 9, "desired": desired}
    spec: dict[str, JsonValue] = {"publicModelId": "m", "servedModelId": "m", "engine": "vllm", "gpu": H100}
    return cast("ServingDeployment", made(ServingDeployment, replicas=replicas, **spec))


def test_pods_and_vms() -> None:
    record = VmRecord(id="p", name="n", status="stopped")
    assert GpuPods().capacity(made(GpuPod, image="i", gpu=H100), "h100") == Capacity("h100", 2)
    assert GpuPods().capacity(made(GpuPod, image="i"), "") == Capacity("", 1)
    assert GpuVms().capacity(made(GpuVm, gpu=H100), "h100") == Capacity("h100", 2)
    assert GpuVms().capacity(made(GpuVm, resourceSize="small"), "") == Capacity(size="small")
    assert GpuVms().untold(made(GpuVm), record.model_copy(update={"price_per_hour_cents": 7})) is None
    assert GpuVms().untold(made(GpuVm, resourceSize="small"), record) == Capacity(size="small")
    powers = (GpuPods().start("p"), GpuPods().stop("p"), GpuPods().restart("p"))
    assert [change.name for change in powers if change.pays] == [START]


def test_a_changed_spec_does_not_change_what_the_present_resource_costs() -> None:
    record = VmRecord(id="p", name="n", status="running", gpu_model_id="h100", gpu_count=8)
    asked: JsonValue = {"modelId": "b200", "count": 1}
    assert GpuPods().untold(made(GpuPod, image="i", gpu=asked), record) == Capacity("h100", 8)
    assert GpuVms().untold(made(GpuVm, resourceSize="small"), record) == Capacity("h100", 8, "small")
    large = VmRecord(id="v", name="n", status="running", gpu_count=0, resource_size="large")
    assert GpuVms().untold(made(GpuVm, resourceSize="small"), large) == Capacity(size="large")
    told = {"id": "d", "status": "running", "replicasDesired": 2, "gpuModelId": "h100", "gpuCountPerReplica": 8}
    assert SERVING.untold(serving(2), Seen(Deployment.model_validate(told))) == Capacity("h100", 8, replicas=2)


def test_a_cluster_is_what_all_its_replicas_are() -> None:
    assert CLUSTERS.capacity(cluster(gpu=H100), "h100") == Capacity("h100", 2, "", 3)
    assert CLUSTERS.capacity(cluster(resourceSize="small"), "") == Capacity("", 0, "small", 3)


def test_of_a_cluster_counts_what_the_cloud_has_and_else_what_is_asked_for() -> None:
    assert CLUSTERS.untold(cluster(gpu=H100), seen(5)) == Capacity("h100", 2, "", 5)
    assert CLUSTERS.untold(cluster({"gpuCount": 4}, gpu=H100), seen(5)) == Capacity("h100", 4, "", 5)
    assert CLUSTERS.untold(cluster({"gpuCount": 0, "resourceSize": "big"}), seen(None)) == Capacity("h100", 0, "big", 3)


def test_what_starts_or_grows_costs_what_it_has_with_all_replicas_that_the_cloud_starts() -> None:
    assert GpuPods().grown(
        made(GpuPod, image="i", gpu=H100), VmRecord(id="p", name="n", status="s", gpu_model_id="b200")
    ) == Capacity("b200", 2)
    assert CLUSTERS.grown(cluster(replicas=1, gpu=H100), seen(10)) == Capacity("h100", 2, "", 10)
    assert CLUSTERS.grown(cluster(replicas=12, gpu=H100), seen(10)) == Capacity("h100", 2, "", 12)


@pytest.mark.parametrize(
    ("status", "desired", "replicas"), [("running", 2, 4), ("degraded", 6, 6), ("stopped", 2, 2), ("stopped", 6, 6)]
)
def test_a_stopped_deployment_starts_with_the_replicas_that_are_asked_for_and_a_running_one_keeps_those_it_has(
    status: str, desired: int, replicas: int
) -> None:
    row = Deployment.model_validate(
        {"id": "d", "status": status, "replicasDesired": 4, "gpuModelId": "b200", "replicas": []}
    )
    assert SERVING.grown(serving(desired), Seen(row)) == Capacity("b200", 2, "", replicas)


@pytest.mark.parametrize(("price", "has", "untold"), [(7, 3, None), (None, 3, 3), (None, None, 2), (7, None, 2)])
def test_a_deployment_whose_price_the_cloud_leaves_out_costs_what_the_catalog_says(
    price: int | None, has: int | None, untold: int | None
) -> None:
    row = Deployment.model_validate(
        {"id": "d", "status": "running", "replicasDesired": has, "gpuModelId": "b200", "pricePerHourCents": price}
    )
    assert SERVING.untold(serving(2), Seen(row)) == (None if untold is None else Capacity("b200", 2, "", untold))
    assert ("price_per_hour_cents" in SERVING.told(serving(2), Seen(row))) is (price is not None and has is not None)


@pytest.mark.parametrize(("has", "pays"), [(2, True), (5, False)])
def test_only_scaling_up_costs_more(has: int, pays: bool) -> None:
    (change,) = CLUSTERS.changes(cluster(gpu=H100), seen(has), running=True)
    assert (change.name, change.pays) == ("scale", pays)


@pytest.mark.parametrize(
    ("status", "has", "sent"), [("provisioning", 5, True), ("provisioning", 2, False), ("stopped", 5, False)]
)
def test_a_cluster_whose_replicas_load_is_only_made_smaller(status: str, has: int, sent: bool) -> None:
    assert bool(CLUSTERS.changes(cluster(gpu=H100), seen(has, status), running=True)) is sent
    assert CLUSTERS.changes(cluster(gpu=H100), seen(has, status), running=False) == ()


@pytest.mark.parametrize(
    ("desired", "status", "has", "pays"), [(3, "running", 2, True), (1, "running", 2, False), (2, "stopped", 2, True)]
)
def test_a_deployment_costs_more_if_it_grows_or_starts(desired: int, status: str, has: int, pays: bool) -> None:
    row = {"id": "d", "status": status, "replicasDesired": has, "replicasMin": 0, "replicasMax": 9, "replicas": []}
    (change,) = SERVING.changes(serving(desired), Seen(Deployment.model_validate(row)), running=True)
    assert change.pays is pays
    assert SERVING.capacity(serving(desired), "h100") == Capacity("h100", 2, "", desired)


def test_a_record_costs_nothing() -> None:
    assert [is_priced(kind) for kind in (GpuPods(), CLUSTERS, SERVING, SshKeys(PARTS))] == [True, True, True, False]

"""Which objects may adopt, and how the cloud's answers are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from relay_cli.adopt import adopt, cluster_as_seen, deployment_as_seen, how_to_look, vm_as_seen
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl, parsed
from relay_cli.objects import CloudObject
from relay_wire.clusters import ClusterSummary
from relay_wire.serving import Deployment
from relay_wire.vms import VmRecord
from tests.unit.client.scripted import Reply, ScriptedServer


def _object(kind: str = "GpuPod", **status: Any) -> CloudObject:
    return parsed(
        CloudObject, {"kind": kind, "metadata": {"name": "x", "namespace": "ml"}, "spec": {}, "status": status}
    )


def test_an_object_that_has_a_resource_adopts_no_other() -> None:
    with pytest.raises(Failure, match=r"^GpuPod/ml/x has pod_1 in the cloud already") as failed:
        how_to_look(_object(id="pod_1"), "pod_2")
    assert failed.value.status is Status.FOUND_WRONG


def test_a_kind_that_cannot_be_looked_up_is_a_misuse() -> None:
    with pytest.raises(Failure, match=r"^cannot look up ApiKey objects; these kinds work: GpuPod, ") as failed:
        how_to_look(_object("ApiKey"), "key_1")
    assert failed.value.status is Status.MISUSED


def test_what_the_cloud_shows_is_told_in_a_line() -> None:
    pod = VmRecord(id="a", name="by-hand", status="running", gpu_model_id="l40s", gpu_count=2, price_per_hour_cents=158)
    assert vm_as_seen(pod) == "by-hand, running, 2 l40s, $1.58 an hour"
    assert vm_as_seen(VmRecord(id="a")) == "without a name"
    cluster = ClusterSummary(id="a", organization_id="o", name="llm", status="running", replica_count=2)
    assert cluster_as_seen(cluster) == "llm, running, 2 replicas"
    assert cluster_as_seen(cluster.model_copy(update={"replica_count": None})) == "llm, running"
    deployment = Deployment(id="a", public_model_id="llama", status="running", replicas_desired=0, gpu_model_id="h100")
    assert deployment_as_seen(deployment) == "llama, running, 0 replicas, h100"


async def test_the_command_that_shows_the_outcome_is_for_the_same_cluster(
    cloud: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = json.loads((tmp_path / "gvm").read_text())
    (tmp_path / "gvm").write_text(json.dumps(box | {"status": {}}))
    cloud.will(Reply(200, b'{"id": "vm_1", "name": "by-hand"}'))
    kubectl = Kubectl(namespace="ml", context="there", kubeconfig="my config")
    await adopt(kubectl, "gvm/box", "vm_1", cloud.url)
    command = "kubectl describe gvm/box --namespace=ml --context=there '--kubeconfig=my config'"
    assert capsys.readouterr().out == (
        f"vm_1: by-hand\nGpuVm/ml/box adopts it if its spec matches; to see the outcome: {command}\n"
    )

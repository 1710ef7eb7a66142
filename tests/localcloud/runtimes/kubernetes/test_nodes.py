"""What Nodes say, and what strangers leave on them."""

from __future__ import annotations

from typing import Any

import pytest

from relay_localcloud.kernel.instants import parse_timestamp
from relay_localcloud.runtimes.kubernetes.names import CORDONED_BY
from relay_localcloud.runtimes.kubernetes.nodes import Gpu, NodeSeen, NodeSilent, NotOffered, are_closed, of_node
from relay_localcloud.runtimes.kubernetes.observed import Node, Pod
from relay_localcloud.runtimes.kubernetes.runs import Machine

MADE = "2026-11-24T10:00:00Z"
NVIDIA = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
H100 = Gpu("h100", {PRODUCT: "NVIDIA-H100-80GB-HBM3"})
MI300X = Gpu("mi300x", {"amd.com/gpu.family": "mi300x"}, "amd.com/gpu")
GIB = 1024**3
MINE = "mine"
WHOLE = {NVIDIA: "8", "cpu": "95200m", "memory": "800Gi"}


def node(labels: dict[str, str] | None = None, allocatable: dict[str, str] | None = None, **changed: Any) -> Node:
    """A Node that is ready, with eight H100."""
    raw = {
        "metadata": {
            "name": "gpu-1",
            "uid": "1",
            "creationTimestamp": MADE,
            "labels": {**H100.labels, "topology.kubernetes.io/region": "eu"} if labels is None else labels,
        },
        "status": {
            "allocatable": WHOLE if allocatable is None else allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return Node.model_validate(raw | changed)


def asks(**resources: str) -> dict[str, Any]:
    """A container; `gpu` stands for the resource of NVIDIA."""
    return {
        "name": "one",
        "resources": {"requests": {NVIDIA if name == "gpu" else name: resources[name] for name in resources}},
    }


def pod(*containers: dict[str, Any], phase: str = "Running", on: str = "gpu-1", **spec: Any) -> Pod:
    """A Pod on the node."""
    metadata = {"name": "p", "uid": "2", "creationTimestamp": MADE}
    return Pod.model_validate(
        {"metadata": metadata, "spec": {"nodeName": on, "containers": containers, **spec}, "status": {"phase": phase}}
    )


def left(*pods: Pod) -> Machine:
    """What the cloud has of the node beside these Pods of others."""
    seen = of_node(node(), pods, [H100], MINE)
    assert isinstance(seen, NodeSeen)
    return seen.machine


def test_a_node_that_reports_says_what_it_has_and_where_it_is() -> None:
    seen = of_node(node(), [], [MI300X, H100], MINE)
    machine = Machine("gpu-1", NVIDIA, 8, 95_200, 800 * GIB)
    assert seen == NodeSeen(machine, "h100", region="eu", location="", cordoned=False)


def test_another_vendor_is_another_row_of_the_table() -> None:
    labels = {"amd.com/gpu.family": "mi300x", "topology.kubernetes.io/zone": "eu-1"}
    seen = of_node(node(labels, {"amd.com/gpu": "4", "cpu": "8", "memory": "1Gi"}), [], [H100, MI300X], MINE)
    assert seen == NodeSeen(Machine("gpu-1", "amd.com/gpu", 4, 8000, GIB), "mi300x", "", "eu-1", cordoned=False)


def test_a_cordoned_node_is_seen_as_such() -> None:
    seen = of_node(node(spec={"unschedulable": True}), [], [H100], MINE)
    assert isinstance(seen, NodeSeen)
    assert seen.cordoned


def test_a_cordon_of_the_clouds_own_is_none_of_an_administrators() -> None:
    ours = {"name": "gpu-1", "uid": "1", "creationTimestamp": MADE, "annotations": {CORDONED_BY: MINE}}
    spec, metadata = {"unschedulable": True}, {**ours, "labels": H100.labels}
    for instance, cordoned in ((MINE, False), ("another", True)):
        seen = of_node(node(spec=spec, metadata=metadata), [], [H100], instance)
        assert isinstance(seen, NodeSeen)
        assert seen.cordoned is cordoned


def test_a_node_that_is_not_ready_is_silent_in_its_own_words() -> None:
    away = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    silent = of_node(node(status={"conditions": [{**away, "lastTransitionTime": MADE}]}), [], [H100], MINE)
    assert silent == NodeSilent("gpu-1", "Kubelet stopped posting node status.", parse_timestamp(MADE))


def test_a_node_that_never_reported_is_silent() -> None:
    assert of_node(node(status={}), [], [H100], MINE) == NodeSilent("gpu-1", "Its kubelet never reported.")


def test_a_node_without_a_row_is_not_offered_and_says_which_label_it_has() -> None:
    other = of_node(node({PRODUCT: "Tesla-T4"}), [], [H100, MI300X], MINE)
    assert other == NotOffered("gpu-1", f"Its label {PRODUCT} is 'Tesla-T4', which no entry of gpuModels has.")
    none = of_node(node({}), [], [H100], MINE)
    assert none == NotOffered("gpu-1", "Its labels match no entry of gpuModels.")


@pytest.mark.parametrize("labels", [{}, {PRODUCT: "Tesla-T4"}])
def test_a_node_that_loses_the_labels_of_its_model_keeps_that_and_takes_nothing_on(labels: dict[str, str]) -> None:
    seen = of_node(node(labels), [], [MI300X, H100], MINE, "h100")
    assert isinstance(seen, NodeSeen)
    assert (seen.machine.gpu_count, seen.gpu_model_id, seen.cordoned) == (8, "h100", True)
    assert seen.unlabelled
    assert isinstance(of_node(node(labels), [], [MI300X], MINE, "h100"), NotOffered)
    away = of_node(node(labels, status={}), [], [H100], MINE, "h100")
    assert isinstance(away, NodeSilent)


def test_a_node_has_all_labels_of_its_row() -> None:
    ours = Gpu("h100", {**H100.labels, "pool": "ours"})
    assert isinstance(of_node(node(), [], [ours], MINE), NotOffered)
    assert isinstance(of_node(node({**ours.labels}), [], [ours], MINE), NodeSeen)


def test_a_node_whose_device_plugin_is_away_has_no_gpu() -> None:
    seen = of_node(node(allocatable={"cpu": "8", "memory": "1Gi"}), [], [H100], MINE)
    assert isinstance(seen, NodeSeen)
    assert seen.machine.gpu_count == 0


def test_what_strangers_ask_for_is_not_left() -> None:
    stranger = pod(asks(gpu="2", cpu="1200m", memory="100Gi"), asks(cpu="1"))
    assert left(stranger) == Machine("gpu-1", NVIDIA, 6, 93_000, 700 * GIB)


def test_what_is_over_or_elsewhere_takes_nothing() -> None:
    over = [pod(asks(gpu="2"), phase=phase) for phase in ("Succeeded", "Failed")]
    assert left(*over, pod(asks(gpu="2"), on="gpu-2")).gpu_count == 8


def test_a_node_never_has_less_than_nothing() -> None:
    assert left(pod(asks(gpu="6")), pod(asks(gpu="6"))).gpu_count == 0


def test_what_runs_before_a_pod_counts_if_it_needs_more_than_the_pod() -> None:
    before: dict[str, Any] = {"initContainers": [asks(gpu="3"), asks(gpu="1")]}
    assert left(pod(asks(gpu="2"), **before)).gpu_count == 5
    assert left(pod(asks(gpu="2"), asks(gpu="2"), **before)).gpu_count == 4


def test_what_is_started_before_and_stays_counts_beside_the_pod_and_beside_what_comes_later() -> None:
    sidecar = {**asks(gpu="1"), "restartPolicy": "Always"}
    assert left(pod(asks(gpu="2"), initContainers=[sidecar])).gpu_count == 5
    assert left(pod(asks(gpu="2"), initContainers=[sidecar, asks(gpu="4")])).gpu_count == 3
    assert left(pod(asks(gpu="2"), initContainers=[asks(gpu="3"), sidecar])).gpu_count == 5


def test_what_a_sandbox_costs_counts() -> None:
    assert left(pod(asks(cpu="1"), overhead={"cpu": "200m"})).cpu_millis == 94_000


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
CORDONED: dict[str, Any] = {"spec": {"unschedulable": True, "taints": [CORDON]}}


@pytest.mark.parametrize(
    ("nodes", "closed"),
    [
        ([], False),
        ([node()], False),
        ([node(**CORDONED)], True),
        ([node(**CORDONED), node()], False),
        ([node(**CORDONED), node(spec={"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]})], False),
        ([node(**CORDONED), node(spec={"taints": [CONTROL_PLANE]})], True),
        ([node(spec={"taints": [CONTROL_PLANE]})], False),
        ([node(**CORDONED), node({"other": "node"})], True),
        ([node({"other": "node"}, **CORDONED)], False),
    ],
)
def test_cordons_close_a_cluster_to_what_could_run_on_no_other_node(nodes: list[Node], closed: bool) -> None:
    assert are_closed(nodes, H100.labels) is closed

"""Facts about Nodes: what a Node reports, and which of its resources are left for the cloud. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from relay_localcloud.runtimes.kubernetes.names import CORDON, CORDONED_BY
from relay_localcloud.runtimes.kubernetes.observed import OVER, Container, Node, Pod, condition
from relay_localcloud.runtimes.kubernetes.quantities import amount
from relay_localcloud.runtimes.kubernetes.runs import Machine, Room

REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A row of the administrator's table: Nodes that have all these labels have GPUs of this model."""

    model_id: str
    labels: Mapping[str, str]
    resource: str = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A Node that reports: what it has for the cloud, where it is, and whether others than the cloud cordoned it.

    `unlabelled` says why its labels name no model on sale; then it has the one that it had, and is cordoned.
    """

    machine: Machine
    gpu_model_id: str
    region: str
    location: str
    cordoned: bool
    unlabelled: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSilent:
    """A Node whose kubelet does not report, or reports that it is not ready; `since` is by the machines' clocks."""

    name: str
    words: str
    since: int | None = None


@dataclass(frozen=True, slots=True)
class NotOffered:
    """A Node that the cloud does not use, and why."""

    name: str
    words: str


NodeFact: TypeAlias = NodeSeen | NodeSilent | NotOffered


def of_node(
    node: Node, strangers: Iterable[Pod], table: Sequence[Gpu], instance: str, model_id: str | None = None
) -> NodeFact:
    """The fact about a Node for this instance; `strangers` are the Pods on it that its cloud does not know.

    `model_id` is the model that the cloud knows it by: the labels that say so disappear while drivers are replaced.
    """
    name, labels = node.metadata.name, node.metadata.labels
    labelled = next((row for row in table if row.labels.items() <= labels.items()), None)
    gpu = labelled or next((row for row in table if row.model_id == model_id), None)
    unlabelled = None if labelled is not None else _no_row(labels, table)
    if gpu is None:
        return NotOffered(name, unlabelled or "")
    ready = condition(node.status.conditions, "Ready")
    if ready is None:
        return NodeSilent(name, "Its kubelet never reported.")
    if ready.status != "True":
        return NodeSilent(name, ready.message, ready.last_transition_time)
    running = [pod for pod in strangers if _takes_from(pod, node)]

    def left(resource: str) -> Decimal:
        taken = sum((_requested(pod, resource) for pod in running), Decimal(0))
        return max(Decimal(0), amount(node.status.allocatable.get(resource, "0")) - taken)

    machine = Machine(name, gpu.resource, int(left(gpu.resource)), int(left("cpu") * 1000), int(left("memory")))
    cordoned = unlabelled is not None or (node.spec.unschedulable and not is_marked(node, instance))
    return NodeSeen(machine, gpu.model_id, labels.get(REGION, ""), labels.get(ZONE, ""), cordoned, unlabelled)


def are_closed(nodes: Iterable[Node], selector: Mapping[str, str]) -> bool:
    """Whether cordons alone keep a Pod off every Node with these labels, if the Pod tolerates no taint."""
    may_have_it = [node for node in nodes if selector.items() <= node.metadata.labels.items() and not _repels(node)]
    return bool(may_have_it) and all(node.spec.unschedulable for node in may_have_it)


def is_marked(node: Node, instance: str) -> bool:
    """Whether this instance cordoned the Node, for a hold that it has not seen end; somebody may have uncordoned it."""
    return node.metadata.annotations.get(CORDONED_BY) == instance


def free_on(machine: Machine, pods: Sequence[Pod]) -> Room:
    """What these Pods of the cloud leave of what it has on a Node."""

    def left(whole: int, resource: str, units: int = 1) -> int:
        return max(0, int(whole - units * sum((_requested(pod, resource) for pod in pods), Decimal(0))))

    return Room(
        left(machine.gpu_count, machine.resource),
        left(machine.cpu_millis, "cpu", units=1000),
        left(machine.memory_bytes, "memory"),
    )


def _repels(node: Node) -> bool:
    return any(taint.effect != "PreferNoSchedule" and taint.key != CORDON for taint in node.spec.taints)


def _takes_from(pod: Pod, node: Node) -> bool:
    return pod.spec.node_name == node.metadata.name and pod.status.phase not in OVER


def _requested(pod: Pod, resource: str) -> Decimal:
    """The request of a Pod as the scheduler counts it: the containers together, or an init stage that needs more."""
    beside = sum((_of_container(each, resource) for each in pod.spec.containers), Decimal(0))
    most = sidecars = Decimal(0)
    for each in pod.spec.init_containers:
        asked = _of_container(each, resource)
        if each.restart_policy == "Always":
            sidecars += asked
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + asked)
    return max(beside + sidecars, most) + amount(pod.spec.overhead.get(resource, "0"))


def _of_container(container: Container, resource: str) -> Decimal:
    return amount(container.resources.requests.get(resource, "0"))


def _no_row(labels: Mapping[str, str], table: Sequence[Gpu]) -> str:
    for label in dict.fromkeys(label for row in table for label in row.labels):
        if label in labels and labels[label] not in [row.labels.get(label) for row in table]:
            return f"Its label {label} is {labels[label]!r}, which no entry of gpuModels has."
    return "Its labels match no entry of gpuModels."

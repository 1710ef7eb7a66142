"""The rows of a cloud on a cluster that a test makes up: its Nodes and Pods are what the test says, at its times."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from relay_localcloud import app
from relay_localcloud.capacity import nodes
from relay_localcloud.clusters import admission, clusters, moves
from relay_localcloud.clusters.moves import REPLICAS
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Store
from relay_localcloud.money.ledger import USAGE
from relay_localcloud.runtimes.kubernetes import fleet, turns
from relay_localcloud.runtimes.kubernetes.holdings import OnKubernetes
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, START, name_of
from relay_localcloud.runtimes.kubernetes.nodes import NodeSeen, NodeSilent
from relay_localcloud.runtimes.kubernetes.observed import Event, Pod, PodSpec, PodStatus
from relay_localcloud.runtimes.kubernetes.runs import Machine
from relay_localcloud.runtimes.kubernetes.situations import labelled
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.turns import Offer, Seen, Turn
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.serving import admission as serving
from relay_localcloud.serving.moves import REPLICAS as ENGINES
from relay_localcloud.workloads import moves as workload_moves
from relay_localcloud.workloads.pod_routes import make_pod
from relay_localcloud.workloads.vm_routes import make_vm
from relay_localcloud.workloads.workloads import WORKLOADS
from relay_wire.clusters import ClusterCreate, ClusterStatus
from relay_wire.pods import PodCreate
from relay_wire.serving import DeploymentCreate
from relay_wire.vms import VmCreate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from relay_localcloud.kernel.store import Tx
    from relay_localcloud.replicas.rows import Replica
    from relay_localcloud.runtimes.kubernetes.nodes import NodeFact
    from relay_localcloud.runtimes.runtime import Labelled
    from relay_localcloud.workloads.transitions import Trigger
    from relay_localcloud.workloads.workloads import Workload

GPU = "nvidia.com/gpu"
MACHINE = Machine("gpu-1", GPU, 8, 96_000, 800 * 1024**3)
OTHER = replace(MACHINE, name="gpu-2")
IMAGE = "docker.io/library/ubuntu:24.04"
DISK_IMAGE = "docker://quay.io/containerdisks/ubuntu:24.04"
"""Of VMs of that image."""
UNSCHEDULABLE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
OWN_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "


@dataclass
class Rows:
    """A cloud with an organization; `pods` are its Pods by name, `machines` the Nodes that report, by name."""

    store: Store
    offer: Offer
    organization_id: str
    now: int
    cloud: Any
    pods: dict[str, Pod] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    cordoned: frozenset[str] = frozenset()
    closed: bool = False
    """Whether every Node is cordoned on which what has no node of the cloud could run."""
    away_since: int | None = None
    """When a former process of this cloud last followed the cluster, if this is the first turn since then."""
    may_run: Callable[[str, str, str], bool] = lambda _, __, ___: False
    events: list[Event] = field(default_factory=list)
    """Those about each of its Pods."""
    ahead: int = 0
    """How far the cloud's clock is ahead of the machines'; negative if it lags behind."""

    def changed(self, holder_id: str) -> None:
        """Nothing: turns are the test's."""

    def nodes_changed(self) -> None:
        """Nothing: looks at Nodes are the test's."""

    def snapshots_changed(self) -> None:
        """Nothing: looks at snapshots are the test's."""

    def labelled(self) -> Iterator[Labelled]:
        """Those of its Pods that bear the mark of the cloud."""
        return labelled("cluster", self.pods.values(), self.offer.terms.instance)

    def wall(self) -> int:
        """The time by the machines' clocks, as the cluster writes it."""
        return self.now - self.ahead

    @contextmanager
    def tx(self) -> Iterator[Tx]:
        """A transaction at the present time."""
        with self.store.transaction(at=self.now) as tx:
            yield tx

    def node(
        self,
        machine: Machine = MACHINE,
        *,
        model: str = "h100",
        reports: bool = True,
        since: int | None = None,
        cordoned: bool = False,
    ) -> None:
        """The only Node reports what it has, or nothing, since an instant of the machines' clock."""
        silent = NodeSilent(machine.name, "Kubelet stopped posting node status.", since)
        self.look(NodeSeen(machine, model, "eu", "eu-1", cordoned) if reports else silent)

    def look(self, *facts: NodeFact) -> None:
        """These are the facts about all Nodes."""
        seen = [fact for fact in facts if isinstance(fact, NodeSeen)]
        self.machines = {fact.machine.name: fact.machine for fact in seen}
        self.cordoned = frozenset(fact.machine.name for fact in seen if fact.cordoned)
        with self.tx() as tx:
            fleet.look(tx, "cluster", facts, ahead=turns.ahead(tx, self.wall()))

    def cluster(self, **fields: Any) -> str:
        """The id of a new cluster of one replica."""
        body = ClusterCreate.model_validate({"name": "llm", "imageUrl": "app:1", "gpuModelId": "h100", **fields})
        with self.tx() as tx:
            return admission.create(tx, self.cloud.vault, self.organization_id, body, 1.0).id

    def pod(self, **fields: Any) -> str:
        """The id of a new pod."""
        body = PodCreate.model_validate({"image": "app:1", "gpuModelId": "h100", **fields})
        with self.tx() as tx:
            return make_pod(tx, self.organization_id, body).id

    def vm(self, **fields: Any) -> str:
        """The id of a new VM of two H100."""
        body = {"name": "vm", "imageUrl": IMAGE, "gpuModelId": "h100", "gpuCount": 2, **fields}
        with self.tx() as tx:
            return make_vm(tx, self.cloud.vault, self.organization_id, VmCreate.model_validate(body)).id

    def workload(self, pod_id: str) -> Workload:
        """A pod's row."""
        with self.tx() as tx:
            found = WORKLOADS.find(tx, id=pod_id)
        assert found is not None
        return found

    def move(self, pod_id: str, trigger: Trigger) -> None:
        """Do something to a pod."""
        with self.tx() as tx:
            found = WORKLOADS.find(tx, id=pod_id)
            assert found is not None
            workload_moves.apply(tx, found, trigger)

    def free(self) -> int:
        """How many H100 are free."""
        with self.tx() as tx:
            free, _ = nodes.free_by_model(tx.connection, self.organization_id)["h100"]
        return free

    def billed(self, holder_id: str) -> list[tuple[int, int | None]]:
        """When each billed stint of a holder began and ended."""
        with self.tx() as tx:
            return [(each.started_at, each.ended_at) for each in USAGE.all(tx, holder_id=holder_id)]

    def deployment(self) -> str:
        """The id of a new deployment of one replica behind `echo`."""
        model = {"publicModelId": "echo", "servedModelId": "echo", "engine": "vllm", "engineImage": "engine:1"}
        counts = {"gpuCountPerReplica": 1, "replicasMin": 0, "replicasMax": 4, "replicasDesired": 1}
        body = {"organizationId": self.organization_id, "gpuModelId": "h100", **model, **counts}
        with self.tx() as tx:
            return serving.create(tx, DeploymentCreate.model_validate(body), 1.0).id

    def end(self, cluster_id: str) -> None:
        """Terminate a cluster."""
        self._apply(cluster_id, ClusterTrigger.TERMINATE)

    def stop(self, cluster_id: str) -> None:
        """Stop a cluster."""
        self._apply(cluster_id, ClusterTrigger.STOP)

    def _apply(self, cluster_id: str, trigger: ClusterTrigger) -> None:
        with self.tx() as tx:
            cluster = clusters.find(tx, cluster_id)
            assert cluster is not None
            moves.apply(tx, cluster, trigger)

    def status(self, cluster_id: str) -> ClusterStatus:
        """The status of a cluster."""
        with self.tx() as tx:
            cluster = clusters.find(tx, cluster_id)
        assert cluster is not None
        return cluster.status

    def settle(self) -> None:
        """Do what fell due until now."""
        self.cloud.clock.state = self.cloud.clock.state.model_copy(update={"cloud": self.now})
        with self.store.transaction():
            pass

    def replicas(self, cluster_id: str) -> list[Replica]:
        """Its live replicas."""
        with self.tx() as tx:
            return REPLICAS.of(tx, cluster_id)

    def engines(self, deployment_id: str) -> list[Replica]:
        """The live replicas of a deployment."""
        with self.tx() as tx:
            return ENGINES.of(tx, deployment_id)

    def replica(self, cluster_id: str) -> Replica:
        """Its only replica."""
        (replica,) = self.replicas(cluster_id)
        return replica

    def turn(self, holder_id: str) -> Turn:
        """What a turn decides."""
        pods = (lambda _, name: self.pods.get(name)), self._pods_on, lambda _, __: self.events
        seen = Seen(self.machines, *pods, self.may_run, self.wall, self.cordoned, self.closed, self.away_since)
        with self.tx() as tx:
            turn = turns.take(tx, holder_id, seen, self.offer)
        assert turn is not None
        return turn

    def _pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == node]

    def refused(
        self, holder_id: str, words: str | None = "Forbidden: exceeded quota", *, is_final: bool = True, after: int = 0
    ) -> None:
        """The cluster refuses what a turn decides, or fails at it, after so long; without words, it does not answer."""
        turn = self.turn(holder_id)
        self.now += after
        with self.tx() as tx:
            if words is None:
                turns.unanswered(tx, turn)
            else:
                turns.refused(tx, turn, words, is_final=is_final)

    def runs(self, holder_id: str, start: int = 1, asks: Mapping[str, str] | None = None, **metadata: Any) -> None:
        """Its container runs in a Pod, healthy, and the cloud has seen it."""
        self.pods[name_of(holder_id)] = self.running(holder_id, start, asks, **metadata)
        self.turn(holder_id)

    def ends(self, holder_id: str, reason: str, **state: Any) -> Turn:
        """The kubelet ended its Pod for this reason; returns what a turn decides then."""
        container = {"name": "main", "state": state}
        words = OWN_LIMIT if reason == "Evicted" else ""
        status = {"phase": "Failed", "reason": reason, "message": words, "containerStatuses": [container]}
        pod = self.running(holder_id).model_copy(update={"status": PodStatus.model_validate(status)})
        self.pods[name_of(holder_id)] = pod
        return self.turn(holder_id)

    def unplaced(self, holder_id: str) -> None:
        """Its Pod was made now, and the scheduler finds no node for it."""
        said = {"type": "PodScheduled", "status": "False", "message": UNSCHEDULABLE}
        changed = {"spec": PodSpec(), "status": PodStatus.model_validate({"conditions": [said]})}
        self.pods[name_of(holder_id)] = self.running(holder_id).model_copy(update=changed)

    def running(self, holder_id: str, start: int = 1, asks: Mapping[str, str] | None = None, **metadata: Any) -> Pod:
        """Its Pod, if its container runs and is healthy, with these requests."""
        at = timestamp(self.wall())
        labels = {INSTANCE: self.offer.terms.instance, CLOUD_ID: holder_id}
        named = {"name": name_of(holder_id), "uid": "u", "creationTimestamp": at, "labels": labels}
        container = {"name": "main", "ready": True, "state": {"running": {"startedAt": at}}}
        status = {"phase": "Running", "podIP": "10.0.0.9", "startTime": at, "containerStatuses": [container]}
        spec = {"nodeName": MACHINE.name, "containers": [{"resources": {"requests": asks or {}}}]}
        raw = {"metadata": {**named, "annotations": {START: str(start)}, **metadata}, "spec": spec, "status": status}
        return Pod.model_validate(raw)


def rows() -> Rows:
    """A cloud with one node of eight H100."""
    store = Store.ephemeral()
    cloud = app.open_cloud(store, app.Options(first_mode="frozen"), "http://localhost", "http://localhost")
    with store.transaction() as tx:
        founded, _ = organizations.seed(tx)
    offer = Offer(Terms("mine"), Gateway(), [GPU], cloud.vault)
    own = Rows(store, offer, founded.organization_id, cloud.clock.now(), cloud)
    store.runtime_of = lambda tx: OnKubernetes(tx, own, {})
    own.node()
    return own

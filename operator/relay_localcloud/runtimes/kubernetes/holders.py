"""Holders of Pods and VMs: a pod, a VM, or a replica of a cluster or of a serving deployment.

A holder applies facts about its Pod or VM to its row, and says what is to run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from relay_localcloud.capacity.catalog import CPU_SIZES, DISK_IMAGES
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.moves import REPLICAS as CLUSTER_REPLICAS
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.runtimes.kubernetes import replica_reports, reports, runs
from relay_localcloud.runtimes.kubernetes.facts import Fact
from relay_localcloud.runtimes.kubernetes.runs import Boot, Machine, Run, Share
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.serving.moves import REPLICAS as DEPLOYMENT_REPLICAS
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.tooling import registry_credentials
from relay_localcloud.workloads.ssh_keys import ATTACHED, KEYS
from relay_localcloud.workloads.workloads import POD, WORKLOADS, Workload
from relay_wire.vms import VmCreate

NO_VOLUMES: Final = "Volumes are not offered here: the administrator of this cloud has named no storage class."
_NO_IMAGE: Final = "It names no image, so there is nothing to run."


class Impossible(Exception):
    """Nothing can run for a holder; the message says why."""


class Holder(Protocol):
    """A row for which a Pod runs."""

    @property
    def organization_id(self) -> str: ...
    @property
    def node_id(self) -> str | None:
        """The node of the cloud that it was placed on; None if the scheduler may choose any."""
        ...

    def tell(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Apply the facts, whose times are on the cloud's clock."""
        ...

    def run(self, tx: Tx, machine: Machine | None, start: int, terms: Terms, vault: Vault) -> Run:
        """What is to run, on its node if it has one. Raises Impossible."""
        ...


@dataclass(frozen=True, slots=True)
class PodHolder:
    """A pod."""

    workload: Workload

    @property
    def organization_id(self) -> str:
        """The organization that owns the pod."""
        return self.workload.organization_id

    @property
    def node_id(self) -> str | None:
        """The node that has its volume."""
        return self.workload.node_id

    def tell(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Apply the facts as in `reports.py`."""
        reports.tell(tx, self.workload, facts)

    def run(self, tx: Tx, machine: Machine | None, start: int, terms: Terms, vault: Vault) -> Run:
        """The pod's container, with the SSH keys attached to it. Raises Impossible without a storage class."""
        assert machine is not None, "a pod has a node"
        if terms.storage_class is None:
            raise Impossible(NO_VOLUMES)
        return runs.of_pod(self.workload, machine, self._attached(tx), start)

    def _attached(self, tx: Tx) -> Sequence[str]:
        attached = {each.ssh_key_id for each in ATTACHED.all(tx, workload_id=self.workload.id)}
        known = KEYS.all(tx, organization_id=self.workload.organization_id)
        return [key.public_key for key in known if key.id in attached]


@dataclass(frozen=True, slots=True)
class VmHolder(PodHolder):
    """A VM; without GPUs it has no node."""

    def run(self, tx: Tx, machine: Machine | None, start: int, terms: Terms, vault: Vault) -> Run:
        """The VM, with the SSH keys attached to it. Raises Impossible without a storage class or a disk image."""
        vm = self.workload
        if terms.storage_class is None:
            raise Impossible(NO_VOLUMES)
        disk_image = DISK_IMAGES.get(vm.image or "")
        if disk_image is None:
            raise Impossible(f"The administrator of this cloud has removed the image {vm.image} for VMs.")
        boot = Boot(disk_image, VmCreate.model_validate_json(vm.request).cloud_init)
        share = _share(machine, vm.gpu_count, vm.resource_size)
        return runs.of_vm(vm, share, boot, self._attached(tx), start)


@dataclass(frozen=True, slots=True)
class ClusterHolder:
    """A replica of a cluster."""

    cluster: Cluster
    replica: Replica

    @property
    def organization_id(self) -> str:
        """The organization that owns the cluster."""
        return self.cluster.organization_id

    @property
    def node_id(self) -> str | None:
        """The node that has its GPUs; None if it uses none."""
        return self.replica.node_id

    def tell(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Apply the facts as in `replica_reports.py`."""
        replica_reports.tell(tx, CLUSTER_REPLICAS, self.cluster, self.replica, facts)

    def run(self, tx: Tx, machine: Machine | None, start: int, terms: Terms, vault: Vault) -> Run:
        """The replica's container, with the login of its registry credential if that can be used.

        Raises Impossible without an image, and for a size that is no longer on sale.
        """
        cluster = self.cluster
        share = _share(machine, cluster.gpus_per_replica, cluster.resource_size)
        credential_id = cluster.created_as.registry_credential_id
        login = registry_credentials.login(tx, vault, cluster.organization_id, credential_id)
        run = runs.of_cluster(cluster, self.replica, share, start, login)
        if run is None:
            raise Impossible(_NO_IMAGE)
        return run


@dataclass(frozen=True, slots=True)
class DeploymentHolder:
    """A replica of a serving deployment."""

    deployment: Deployment
    replica: Replica

    @property
    def organization_id(self) -> str:
        """The organization that owns the deployment."""
        return self.deployment.organization_id

    @property
    def node_id(self) -> str | None:
        """The node that has its GPUs."""
        return self.replica.node_id

    def tell(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Apply the facts as in `replica_reports.py`."""
        replica_reports.tell(tx, DEPLOYMENT_REPLICAS, self.deployment, self.replica, facts)

    def run(self, tx: Tx, machine: Machine | None, start: int, terms: Terms, vault: Vault) -> Run:
        """The replica's container, with the image of its own row. Raises Impossible without one."""
        assert machine is not None, "a replica of a deployment has GPUs"
        run = runs.of_deployment(self.deployment, self.replica, machine, start)
        if run is None:
            raise Impossible(_NO_IMAGE)
        return run


def _share(machine: Machine | None, gpu_count: int, size_name: str | None) -> Share:
    """GPUs of a Node, or without one a size. Raises Impossible for a size that is no longer on sale."""
    if machine is not None:
        return runs.gpu_share(machine, gpu_count)
    size = CPU_SIZES.get(size_name or "")
    if size is None:
        raise Impossible(f"The administrator of this cloud has removed the size {size_name}.")
    return runs.cpu_share(size)


def _pod_or_vm(tx: Tx, holder_id: str) -> PodHolder | None:
    workload = WORKLOADS.find(tx, id=holder_id)
    if workload is None:
        return None
    return PodHolder(workload) if workload.kind == POD else VmHolder(workload)


def _cluster_replica(tx: Tx, holder_id: str) -> ClusterHolder | None:
    replica = CLUSTER_REPLICAS.get(tx, holder_id)
    cluster = None if replica is None else CLUSTER_REPLICAS.find(tx, replica.group_id)
    return None if replica is None or cluster is None else ClusterHolder(cluster, replica)


def _deployment_replica(tx: Tx, holder_id: str) -> DeploymentHolder | None:
    replica = DEPLOYMENT_REPLICAS.get(tx, holder_id)
    deployment = None if replica is None else DEPLOYMENT_REPLICAS.find(tx, replica.group_id)
    return None if replica is None or deployment is None else DeploymentHolder(deployment, replica)


_SORTS: Final[Sequence[Callable[[Tx, str], Holder | None]]] = (_pod_or_vm, _cluster_replica, _deployment_replica)


def find(tx: Tx, holder_id: str) -> Holder | None:
    """The holder with this id, as its row is now; None if it ended and its row is deleted."""
    return next((found for sort in _SORTS if (found := sort(tx, holder_id)) is not None), None)

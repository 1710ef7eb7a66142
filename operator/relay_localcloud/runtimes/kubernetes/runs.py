"""What is to run, read from rows, in one shape for pods and for replicas of clusters and of deployments.

Assumed: each engine answers `/health`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from relay_localcloud.capacity.catalog import CpuSize
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.routes import DEFAULT_PORT
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.serving.rows import ENGINE_PORTS, Deployment
from relay_localcloud.tooling.registry_credentials import Login
from relay_localcloud.workloads.workloads import Workload
from relay_wire.pods import PodCreate

MIB: Final = 1024 * 1024
HEALTH: Final = "/health"
SHM_GB_A_GPU: Final = 2
"""The shared memory of a pod that has only some of its Node's GPUs and asks for no size (section 2, `shmSizeGb`)."""


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs, CPU and memory of a Node."""

    gpu_count: int
    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A Node, with the GPUs, CPU and memory that other Pods leave for the cloud."""

    name: str
    resource: str  # such as nvidia.com/gpu
    gpu_count: int
    cpu_millis: int
    memory_bytes: int
    free: Room | None = None  # of these, what the cloud's own Pods leave, if that is known
    held: bool = False  # by its owner, so that the cloud cordons it


@dataclass(frozen=True, slots=True)
class Share:
    """The resources of one container; `machine` is None if it may run on any Node."""

    machine: Machine | None
    gpu_count: int
    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Probe:
    """The health check of a container: a GET of the path, or a TCP connection if the path is None."""

    port: int
    path: str | None


@dataclass(frozen=True, slots=True)
class Boot:
    """What a VM boots: the URL of its disk's image, and the script that runs at the first boot of the disk."""

    disk_image: str
    script: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """A wanted container or VM and its environment; `cloud_id` is the pod, the cluster or the deployment.

    `start` counts the holder's wanted starts: the container of an earlier start is outdated.
    """

    id: str
    cloud_id: str
    organization_id: str
    image: str
    share: Share
    port: int
    disk_gb: int | None = None  # as requested
    command: Sequence[str] = ()
    arguments: Sequence[str] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    public_keys: Sequence[str] = ()
    shm_gb: int | None = None  # None: as much as the memory of its share
    volume_gb: int | None = None
    probe: Probe | None = None
    privileged: bool = False
    credential_id: str | None = None
    login: Login | None = field(default=None, repr=False)  # of the credential; None if that cannot be used
    start: int = 1
    boot: Boot | None = None  # of a VM


def gpu_share(machine: Machine, gpu_count: int) -> Share:
    """GPUs of a Node, and the same fraction of its free CPU and memory as of its free GPUs.

    If too little is free, as long as another Pod leaves, it is the fraction of the whole Node. A Node offers fewer GPUs
    than run on it while its device plugin is down; even then no share exceeds the Node.
    """
    of: Room | Machine = machine
    free = machine.free
    if free is not None and free.gpu_count >= gpu_count and free.cpu_millis and free.memory_bytes:
        of = free
    whole = max(gpu_count, of.gpu_count)
    return Share(machine, gpu_count, of.cpu_millis * gpu_count // whole, of.memory_bytes * gpu_count // whole)


def cpu_share(size: CpuSize) -> Share:
    """The share of a container without GPUs, on any Node."""
    return Share(None, 0, size.vcpu * 1000, size.ram_mb * MIB)


def of_pod(pod: Workload, machine: Machine, public_keys: Sequence[str], start: int) -> Run:
    """A pod's container on its Node; `public_keys` are those attached to the pod, besides those of its create."""
    asked = PodCreate.model_validate_json(pod.request)
    return Run(
        id=pod.id,
        cloud_id=pod.id,
        organization_id=pod.organization_id,
        image=asked.image,
        share=gpu_share(machine, pod.gpu_count),
        port=pod.http_port,
        environment=asked.env_vars or {},
        public_keys=[*dict.fromkeys([*(asked.ssh_keys or ()), *public_keys])],
        shm_gb=asked.shm_size_gb or _usual_shm_gb(pod.gpu_count, machine),
        volume_gb=pod.volume_gb,
        start=start,
    )


def _usual_shm_gb(gpu_count: int, machine: Machine) -> int | None:
    """The shared memory of a pod that asks for no size; None, its whole memory, if it has all GPUs of its Node.

    A Node that offers fewer GPUs than the pod has, as while its device plugin is down, may have others.
    """
    return None if gpu_count == machine.gpu_count else SHM_GB_A_GPU * gpu_count


def of_vm(vm: Workload, share: Share, boot: Boot, public_keys: Sequence[str], start: int) -> Run:
    """A VM with its share of a Node; `public_keys` are those attached to it."""
    return Run(
        id=vm.id,
        cloud_id=vm.id,
        organization_id=vm.organization_id,
        image=vm.image or "",
        share=share,
        port=vm.http_port,
        public_keys=public_keys,
        volume_gb=vm.disk_size_gb,
        start=start,
        boot=boot,
    )


def of_cluster(cluster: Cluster, replica: Replica, share: Share, start: int, login: Login | None = None) -> Run | None:
    """The container of a cluster's replica; None if the cluster names no image, so that there is nothing to run."""
    asked = cluster.created_as
    if asked.image_url is None:
        return None
    port = asked.container_port or DEFAULT_PORT
    checked = asked.health_check_path or asked.health_check_port or asked.health_checks
    return Run(
        id=replica.id,
        cloud_id=cluster.id,
        organization_id=cluster.organization_id,
        image=asked.image_url,
        share=share,
        port=port,
        disk_gb=asked.disk_size_gb,
        command=asked.container_command or (),
        environment=asked.env_vars or {},
        probe=Probe(asked.health_check_port or port, asked.health_check_path) if checked else None,
        privileged=bool(asked.privileged),
        credential_id=asked.registry_credential_id,
        login=login,
        start=start,
    )


def of_deployment(deployment: Deployment, replica: Replica, machine: Machine, start: int) -> Run | None:
    """The container of a serving deployment's replica, with the image in the replica's row; None if it has none."""
    if replica.engine_image is None:
        return None
    port = ENGINE_PORTS[deployment.spec.engine]
    return Run(
        id=replica.id,
        cloud_id=deployment.id,
        organization_id=deployment.organization_id,
        image=replica.engine_image,
        share=gpu_share(machine, deployment.spec.gpu_count_per_replica),
        port=port,
        arguments=deployment.spec.extra_args or (),
        environment=deployment.spec.env or {},
        probe=Probe(port, HEALTH),
        start=start,
    )

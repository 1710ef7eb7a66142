"""The VMs of a cluster as the rest of the runtime sees Pods: VirtualMachines of KubeVirt and their instances.

An instance (VirtualMachineInstance) has the name of its VirtualMachine and exists from its start to its stop; KubeVirt
makes another one if the guest ends. A VirtualMachine that is stopped is, as a Pod, as if it were absent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from pydantic import Field

from relay_kube.kube import JsonObject, Kube, ResourceType
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.discovery import Discovery
from relay_localcloud.runtimes.kubernetes.facts import NEVER
from relay_localcloud.runtimes.kubernetes.names import CONTAINER, INSTANCE, START
from relay_localcloud.runtimes.kubernetes.observed import (
    OVER,
    Condition,
    ContainerStatus,
    Instant,
    Metadata,
    Observed,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    State,
    Terminated,
    Waiting,
    condition,
)
from relay_localcloud.runtimes.kubernetes.virtual_machines import HALTED

VIRTUAL_MACHINES: Final = ResourceType("virtualmachines", "kubevirt.io")
VM_INSTANCES: Final = ResourceType("virtualmachineinstances", "kubevirt.io")
IMPORT_SOURCES: Final = ResourceType("volumeimportsources", "cdi.kubevirt.io", "v1beta1")
CONSOLE: Final = "guest-console-log"
"""The container of KubeVirt's Pod that prints what the guest writes to its serial console."""
_NEVER_RAN: Final = "Its VM ended before its guest ran."


class _Annotated(Observed):
    annotations: Mapping[str, str] = {}


class _Template(Observed):
    metadata: _Annotated = _Annotated()


class _Spec(Observed):
    run_strategy: str = ""
    template: _Template = _Template()


class _Status(Observed):
    printable_status: str = ""
    conditions: Sequence[Condition] = ()


class VirtualMachine(Observed):
    """What is wanted of a VM, and what KubeVirt has done about it."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def rests(self) -> bool:
        """Whether it is stopped, and KubeVirt has seen to that."""
        asked = self.spec.run_strategy == HALTED and self.status.printable_status == "Stopped"
        return asked and self.metadata.deletion_timestamp is None


class _Transition(Observed):
    phase: str = ""
    at: Instant = Field(alias="phaseTransitionTimestamp")


class _InstanceStatus(Observed):
    phase: str = ""
    reason: str = ""
    node_name: str | None = None
    conditions: Sequence[Condition] = ()
    phase_transition_timestamps: Sequence[_Transition] = ()


class VmInstance(Observed):
    """A VM from one start to its end."""

    metadata: Metadata
    status: _InstanceStatus = _InstanceStatus()

    def entered(self, phase: str) -> int | None:
        """When it entered a phase."""
        return next((each.at for each in self.status.phase_transition_timestamps if each.phase == phase), None)


def as_pod(vm: VirtualMachine | None, running: VmInstance | None, cloud_instance: str) -> Pod | None:
    """A VM as a Pod with one container, its guest; None without a VM, or for a stopped one of this cloud.

    It has no address: what an instance says of its addresses comes from an agent in the guest, who could name any.
    """
    if vm is None:
        if running is None:
            return None
        vm = VirtualMachine(metadata=running.metadata)  # somebody deleted it, and left what runs
    if running is None and vm.rests and vm.metadata.labels.get(INSTANCE) == cloud_instance:
        return None
    annotations = (vm.spec.template if running is None else running).metadata.annotations
    there = vm.metadata if running is None else running.metadata
    leaves_at = vm.metadata.deletion_timestamp or there.deletion_timestamp
    if leaves_at is None and vm.spec.run_strategy == HALTED:
        leaves_at = there.creation_timestamp
    changed = {
        "uid": there.uid,  # so that connections end with what they lead to
        "annotations": {START: annotations.get(START, "")},
        "creation_timestamp": there.creation_timestamp,
        "deletion_timestamp": leaves_at,
    }
    status, node = (_unborn(vm), None) if running is None else (_status(running), running.status.node_name)
    spec = PodSpec().model_copy(update={"node_name": node})
    return Pod(metadata=vm.metadata.model_copy(update=changed), spec=spec, status=status)


def _unborn(vm: VirtualMachine) -> PodStatus:
    """The status of a VM that has no instance yet, with KubeVirt's words if it cannot have one."""
    failure = condition(vm.status.conditions, "Failure")
    if failure is None or failure.status != "True":
        return PodStatus()
    waiting = _waiting(failure.reason, failure.message)
    return PodStatus().model_copy(update={"start_time": failure.last_transition_time, "container_statuses": [waiting]})


def _status(running: VmInstance) -> PodStatus:
    said, ran_since = running.status, running.entered("Running")
    synchronized = condition(said.conditions, "Synchronized")
    fault = synchronized if synchronized is not None and synchronized.status == "False" else None
    reason, message = ("", "") if fault is None else (fault.reason, fault.message)
    phase, guest = "Pending", _waiting(reason, message)
    if said.phase in OVER:
        phase = "Failed" if ran_since is None else "Running"  # a guest that ran is started again by KubeVirt
        guest = _ended(running, ran_since, message)
    elif said.phase == "Running":
        phase, guest = "Running", _guest(running=Running().model_copy(update={"started_at": ran_since}))
    status = {
        "phase": phase,
        "reason": said.reason or said.phase,
        "message": message or _NEVER_RAN,
        "start_time": running.metadata.creation_timestamp,
        "conditions": said.conditions,
        "container_statuses": [guest],
    }
    return PodStatus().model_copy(update=status)


def _ended(running: VmInstance, ran_since: int | None, message: str) -> ContainerStatus:
    phase = running.status.phase
    how = {"exitCode": int(phase == "Failed"), "reason": running.status.reason or phase, "message": message}
    times = {"started_at": NEVER if ran_since is None else ran_since, "finished_at": running.entered(phase)}
    return _guest(terminated=Terminated.model_validate(how).model_copy(update=times))


def _waiting(reason: str, message: str) -> ContainerStatus:
    return _guest(waiting=Waiting(reason=reason, message=message))


def _guest(**state: object) -> ContainerStatus:
    ready, said = "running" in state, State().model_copy(update=state)
    return ContainerStatus(name=CONTAINER, ready=ready, state=said)


class Vms:
    """The VMs of a cluster, if it has KubeVirt and CDI; `changed` gets each that appears, changes or disappears."""

    def __init__(self, kube: Kube, cloud_instance: str, changed: Callable[[Pod], None]) -> None:
        self._kube = kube
        self._cloud_instance = cloud_instance
        self._changed = changed
        self._machines = Mirror(kube, VIRTUAL_MACHINES, VirtualMachine.model_validate, self._moved)
        self._instances = Mirror(kube, VM_INSTANCES, VmInstance.model_validate, self._moved)
        self._discovery = Discovery(kube, (VIRTUAL_MACHINES, VM_INSTANCES, IMPORT_SOURCES))

    @property
    def are_listed(self) -> bool:
        """Whether the cluster has listed its VMs: before, nothing is known of any."""
        return self._machines.is_listed and self._instances.is_listed

    @property
    def are_offered(self) -> bool:
        """Whether the cluster can run VMs now, as far as this cloud knows."""
        return self._discovery.are_served and self.are_listed

    @property
    def missing_since(self) -> float | None:
        """As that of a `Mirror`."""
        return self._machines.missing_since or self._instances.missing_since

    def __iter__(self) -> Iterator[Pod]:
        names = [(vm.metadata.namespace, vm.metadata.name) for vm in self._machines]
        return (pod for name in names if (pod := self.get(*name)) is not None)

    def get(self, namespace: str, name: str) -> Pod | None:
        """The VM of this name as a Pod; None if it rests or is absent."""
        return as_pod(self._machines.get(namespace, name), self._instances.get(namespace, name), self._cloud_instance)

    def wrote(self, answer: JsonObject) -> None:
        """Apply the answer to an own write of a VirtualMachine."""
        self._machines.wrote(answer)

    async def run(self) -> NoReturn:
        """Follow the VMs from when the cluster has what they need, until cancelled."""
        await self._discovery.run(self._machines.run, self._instances.run)

    def _moved(self, each: VirtualMachine | VmInstance) -> None:
        self._changed(Pod(metadata=each.metadata))

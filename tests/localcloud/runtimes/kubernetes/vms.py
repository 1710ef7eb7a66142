"""VMs as KubeVirt's controllers have them: what they write into a VirtualMachine and its instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.runtimes.kubernetes.kubevirt import VirtualMachine, VmInstance, as_pod
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, START, name_of

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.situations import Step
    from tests.localcloud.runtimes.kubernetes.rows import Rows

RUNNING = ("Pending", "Scheduling", "Scheduled", "Running")
UNSCHEDULABLE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def machine(
    vm_id: str,
    at: int,
    *,
    start: int = 1,
    strategy: str = "Always",
    printable: str = "",
    mine: str = "mine",
    **more: Any,
) -> VirtualMachine:
    """The VirtualMachine of a VM, made at `at`; `more` is of its status."""
    metadata = {
        "name": name_of(vm_id),
        "namespace": "relay-org-a",
        "uid": "machine",
        "creationTimestamp": timestamp(at),
        "labels": {INSTANCE: mine, CLOUD_ID: vm_id},
    }
    template = {"metadata": {"annotations": {START: str(start)}}}
    spec = {"runStrategy": strategy, "template": template}
    return VirtualMachine.model_validate(
        {"metadata": metadata, "spec": spec, "status": {"printableStatus": printable, **more}}
    )


def instance(vm_id: str, at: int, *phases: str, start: int = 1, deleted: bool = False, **more: Any) -> VmInstance:
    """Its instance, which entered one phase a second since `at`; `more` is of its status."""
    metadata = {
        "name": name_of(vm_id),
        "namespace": "relay-org-a",
        "uid": "instance",
        "creationTimestamp": timestamp(at),
        "annotations": {START: str(start)},
        "deletionTimestamp": timestamp(at) if deleted else None,
    }
    entered = [
        {"phase": phase, "phaseTransitionTimestamp": timestamp(at + number * SECOND)}
        for number, phase in enumerate(phases)
    ]
    node = {"nodeName": "gpu-1"} if "Running" in phases else {}
    status = {"phase": phases[-1], "phaseTransitionTimestamps": entered, **node, **more}
    return VmInstance.model_validate({"metadata": metadata, "status": status})


def seen(room: Rows, vm_id: str, *phases: str, start: int = 1, strategy: str = "Always", printable: str = "") -> Step:
    """KubeVirt has this; returns what a turn decides."""
    vm = machine(vm_id, room.now, start=start, strategy=strategy, printable=printable)
    pod = as_pod(vm, instance(vm_id, room.now, *phases, start=start) if phases else None, "mine")
    room.pods.pop(name_of(vm_id), None)
    if pod is not None:
        room.pods[name_of(vm_id)] = pod
    return room.turn(vm_id).step

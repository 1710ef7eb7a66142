"""What the runtime reads from a VirtualMachine and its instance, as KubeVirt's controllers write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.kernel.instants import HOUR, MINUTE, SECOND, timestamp
from relay_localcloud.runtimes.kubernetes import facts
from relay_localcloud.runtimes.kubernetes.facts import (
    SCHEDULED_WITHIN,
    START_WITHIN,
    CannotStart,
    Exited,
    Failed,
    Healthy,
    Pending,
    Started,
    TakenOff,
)
from relay_localcloud.runtimes.kubernetes.kubevirt import as_pod
from tests.localcloud.runtimes.kubernetes.vms import UNSCHEDULABLE, instance, machine

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.facts import Fact
    from relay_localcloud.runtimes.kubernetes.kubevirt import VirtualMachine, VmInstance

VM = "vm_1"
AT = 1000 * HOUR
STARTING = ("Pending", "Scheduling", "Scheduled")
RAN = AT + 3 * SECOND
LIBVIRT = "server error. command SyncVMI failed: the GPU is in use"


def unsynchronized(reason: str, message: str) -> dict[str, Any]:
    said = {"type": "Synchronized", "status": "False", "reason": reason, "message": message, "lastTransitionTime": None}
    return {"conditions": [said]}


def told(running: VmInstance | None, now: int = AT, vm: VirtualMachine | None = None) -> list[Fact]:
    return facts.of_pod(as_pod(vm or machine(VM, AT - HOUR), running, "mine"), [], [], now)


def test_it_has_started_when_its_guest_runs_and_not_when_its_launcher_does() -> None:
    assert told(instance(VM, AT, *STARTING)) == []
    assert told(instance(VM, AT, *STARTING, "Running")) == [Started(RAN), Healthy()]


@pytest.mark.parametrize("said", [[], [{"name": "default"}], [{"ipAddress": "10.96.0.1"}]])
def test_what_a_guest_says_of_its_addresses_is_not_believed_and_it_has_started_without_any(said: Any) -> None:
    running = instance(VM, AT, *STARTING, "Running", interfaces=said)
    assert told(running) == [Started(RAN), Healthy()]
    pod = as_pod(machine(VM, AT), running, "mine")
    assert pod is not None
    assert pod.status.pod_ip is None


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_a_guest_that_ends_is_told_of_as_an_exit_and_starts_again(phase: str, code: int) -> None:
    ended = instance(VM, AT, *STARTING, "Running", phase)
    assert told(ended) == [Exited(code, phase, "", RAN, RAN + SECOND)]
    pod = as_pod(machine(VM, AT), ended, "mine")
    assert pod is not None
    assert pod.status.phase == "Running"  # so that nobody but KubeVirt starts it again


def test_an_instance_that_ends_before_its_guest_ran_is_to_be_recreated() -> None:
    assert told(instance(VM, AT, "Pending", "Failed")) == [TakenOff("Failed: Its VM ended before its guest ran.")]


def test_why_no_node_takes_it_is_said_and_that_fails_it_in_time_from_this_start_on() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": UNSCHEDULABLE}
    waiting = instance(VM, AT, "Pending", "Scheduling", conditions=[said])
    assert told(waiting) == [Pending(UNSCHEDULABLE)]
    assert told(waiting, AT + SCHEDULED_WITHIN) == [Failed(UNSCHEDULABLE, AT)]


def test_why_it_does_not_start_is_said_in_kubevirts_words_and_fails_it_in_time() -> None:
    stuck = instance(VM, AT, *STARTING, **unsynchronized("Synchronizing with the Domain failed.", LIBVIRT))
    assert told(stuck) == [CannotStart(LIBVIRT)]
    assert told(stuck, AT + START_WITHIN) == [Failed(LIBVIRT, AT)]


def test_why_there_is_no_instance_is_said_and_fails_it_in_time() -> None:
    words = "admission webhook denied the request: HostDevice nvidia.com/X is not permitted"
    said = {"type": "Failure", "status": "True", "reason": "FailedCreate", "message": words}
    vm = machine(VM, AT - HOUR, conditions=[{**said, "lastTransitionTime": timestamp(AT)}])
    assert told(None, AT + MINUTE, vm) == [CannotStart(words)]
    assert told(None, AT + START_WITHIN, vm) == [Failed(words, AT - HOUR)]


def test_a_vm_that_rests_is_absent_only_once_kubevirt_has_seen_to_it_and_if_it_is_this_clouds() -> None:
    halted = machine(VM, AT, strategy="Halted", printable="Stopping")
    ending = as_pod(halted, instance(VM, AT, *STARTING, "Running"), "mine")
    unseen = as_pod(halted, None, "mine")
    for leaving in (ending, unseen):
        assert leaving is not None
        assert leaving.metadata.deletion_timestamp is not None
    rests = machine(VM, AT, strategy="Halted", printable="Stopped")
    assert as_pod(rests, None, "mine") is None
    assert as_pod(rests, instance(VM, AT, *STARTING, "Running"), "mine") is not None
    assert as_pod(rests, None, "another") is not None
    assert as_pod(None, None, "mine") is None


def test_what_runs_without_its_virtual_machine_is_still_seen_to_run() -> None:
    pod = as_pod(None, instance(VM, AT, *STARTING, "Running"), "mine")
    assert facts.of_pod(pod, [], [], AT) == [Started(RAN), Healthy()]


def test_it_is_another_one_for_connections_whenever_its_guest_is() -> None:
    running = as_pod(machine(VM, AT), instance(VM, AT, *STARTING, "Running"), "mine")
    assert running is not None
    assert running.metadata.uid == "instance"


def test_the_start_of_what_runs_counts_and_not_the_one_that_is_wanted_next() -> None:
    pod = as_pod(machine(VM, AT, start=2), instance(VM, AT, *STARTING, "Running", start=1), "mine")
    assert pod is not None
    assert list(pod.metadata.annotations.values()) == ["1"]

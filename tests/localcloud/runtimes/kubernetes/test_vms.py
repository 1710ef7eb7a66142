"""A VM's turns, from its create to its end, on a cluster whose KubeVirt the test plays."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.capacity import catalog
from relay_localcloud.capacity.catalog_routes import gpu_availability
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.instants import HOUR, MINUTE, SECOND
from relay_localcloud.runtimes.kubernetes import turns
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodStatus
from tests.localcloud.runtimes.kubernetes.rows import IMAGE
from tests.localcloud.runtimes.kubernetes.vms import RUNNING, seen

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows

CPU_VM = {"gpuModelId": None, "gpuCount": None, "resourceSize": "small"}


pytestmark = pytest.mark.usefixtures("sold")


def status(room: Rows, vm_id: str) -> PodStatus:
    return room.workload(vm_id).status


@pytest.mark.parametrize("fields", [{}, CPU_VM])
def test_it_runs_stops_starts_on_its_disk_and_ends(room: Rows, fields: dict[str, object]) -> None:
    vm_id = room.vm(cloudInit="#!/bin/sh\necho hi\n", **fields)
    made = room.turn(vm_id)
    (secret,) = [each for each in made.manifests if each["kind"] == "Secret"]
    assert "echo hi" in b64decode(str(dict(secret["data"])["userdata"])).decode()  # type: ignore[arg-type]
    assert "echo hi" not in str(made)
    kinds = ["VolumeImportSource", "PersistentVolumeClaim", "Secret", "VirtualMachine"]
    assert (made.step, [each["kind"] for each in made.manifests]) == (Step.MAKE, kinds)
    room.now += MINUTE
    assert seen(room, vm_id, "Pending") is Step.NOTHING
    assert status(room, vm_id) is PodStatus.DEPLOYING
    room.now += MINUTE
    assert seen(room, vm_id, *RUNNING) is Step.NOTHING
    assert status(room, vm_id) is PodStatus.RUNNING
    room.now += HOUR
    room.move(vm_id, Trigger.STOP)
    assert room.turn(vm_id).step is Step.END
    assert seen(room, vm_id, *RUNNING, strategy="Halted", printable="Stopping") is Step.NOTHING
    assert status(room, vm_id) is PodStatus.STOPPING
    assert seen(room, vm_id, strategy="Halted", printable="Stopped") is Step.SWEEP
    assert (status(room, vm_id), room.free()) == (PodStatus.STOPPED, 8)
    ((began, ended),) = room.billed(vm_id)
    assert ended == room.now
    assert ended - began == HOUR
    room.move(vm_id, Trigger.RESTART)
    again = room.turn(vm_id)
    assert (again.step, again.holding.start, again.holding.had_pod) == (Step.MAKE, 2, True)
    assert seen(room, vm_id, *RUNNING, start=2) is Step.NOTHING
    assert status(room, vm_id) is PodStatus.RUNNING
    room.move(vm_id, Trigger.TERMINATE)
    assert room.turn(vm_id).step is Step.END
    assert seen(room, vm_id, strategy="Halted", printable="Stopped") is Step.SWEEP


def test_a_restart_ends_the_instance_and_then_starts_another_one(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    room.move(vm_id, Trigger.RESTART)
    assert room.turn(vm_id).step is Step.END
    assert seen(room, vm_id, *RUNNING, strategy="Halted", printable="Stopping") is Step.NOTHING
    assert seen(room, vm_id, strategy="Halted", printable="Stopped") is Step.MAKE
    assert status(room, vm_id) is PodStatus.RUNNING


def test_what_somebody_stops_in_the_cluster_starts_again(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    assert seen(room, vm_id, *RUNNING, strategy="Halted", printable="Stopping") is Step.NOTHING
    assert seen(room, vm_id, strategy="Halted", printable="Stopped") is Step.MAKE


def test_what_somebody_starts_in_the_cluster_stops_again_and_is_not_billed(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    room.move(vm_id, Trigger.STOP)
    seen(room, vm_id, strategy="Halted", printable="Stopped")
    room.now += HOUR
    assert seen(room, vm_id, *RUNNING) is Step.END
    assert [ended is not None for _, ended in room.billed(vm_id)] == [True]


def test_a_guest_that_powers_off_is_said_to_have_and_stays_running(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    room.now += 10 * SECOND
    assert seen(room, vm_id, *RUNNING, "Succeeded") is Step.NOTHING
    vm = room.workload(vm_id)
    assert (vm.status, vm.status_reason) == (PodStatus.RUNNING, "CONTAINER_EXITED: exit code 0 (Succeeded)")


def test_a_vm_without_gpus_that_a_restored_state_has_as_stopped_runs_on(room: Rows) -> None:
    vm_id = room.vm(**CPU_VM)
    seen(room, vm_id, *RUNNING)
    room.move(vm_id, Trigger.STOP)
    seen(room, vm_id, strategy="Halted", printable="Stopped")
    seen(room, vm_id, *RUNNING, start=2)
    assert status(room, vm_id) is PodStatus.DEPLOYING
    assert seen(room, vm_id, *RUNNING, start=2) is Step.NOTHING
    assert status(room, vm_id) is PodStatus.RUNNING


def test_what_is_on_the_cluster_without_a_record_is_an_orphan_while_it_runs(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    with room.tx() as tx:
        HOLDINGS.remove(tx, id=vm_id)
        pod = room.pods[name_of(vm_id)]
        (orphan,) = tx.runtime.orphans()
    assert (orphan.id, orphan.start, pod.metadata.name) == (vm_id, 1, name_of(vm_id))


def test_an_image_that_was_removed_fails_the_next_start_in_words(room: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    vm_id = room.vm()
    monkeypatch.delitem(catalog._DISK_IMAGES, IMAGE)
    assert room.turn(vm_id).step is Step.NOTHING
    vm = room.workload(vm_id)
    assert (vm.status, IMAGE in (vm.status_reason or "")) == (PodStatus.FAILED, True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"imageUrl": "app:1"}, f"imageUrl: there is no 'app:1' for VMs; there are {IMAGE}."),
        ({"imageUrl": None}, "imageUrl: there is no ''"),
        ({"envVars": {"A": "b"}}, "envVars: "),
        ({"containerCommand": ["sh"]}, "containerCommand: "),
        ({"healthCheckPort": 80}, "healthCheckPort: "),
        ({"privileged": True}, "privileged: "),
        ({"kernelModules": ["nvidia"]}, "kernelModules: "),
    ],
)
def test_what_a_disk_image_cannot_be_given_is_refused_in_words(
    room: Rows, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        room.vm(**fields)
    assert refused.value.status == 422


def test_vms_need_a_storage_class_and_pods_a_model_for_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not {Noun.VM, Noun.POD} & turns.lacking(Terms("mine", "fast")).keys()
    assert "storage class" in turns.lacking(Terms("mine"))[Noun.VM]
    for model in catalog.GPU_MODELS.values():
        monkeypatch.setitem(catalog._GPU_MODELS, model.id, replace(model, in_containers=False))
    assert "passed through to VMs" in turns.lacking(Terms("mine", "fast"))[Noun.POD]


def test_gpus_are_for_vms_or_for_containers(room: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catalog.GPU_MODELS["h100"]

    def offered() -> tuple[int, int]:
        """How many nodes the catalog has for VMs, and for containers."""
        caller = Principal("api_key", room.organization_id, ())
        with room.tx() as tx:
            items: Any = gpu_availability(caller, tx)["items"]
        (found,) = [each for each in items if each["gpuModelId"] == "h100"]
        return len(found["vm"]["nodes"]), len(found["cluster"]["nodes"])

    monkeypatch.setitem(catalog._GPU_MODELS, "h100", replace(model, vm_tiles=()))
    with pytest.raises(ApiError, match="gpuModelId: there is no 'h100'"):
        room.vm()
    assert offered() == (0, 1)
    monkeypatch.setitem(catalog._GPU_MODELS, "h100", replace(model, in_containers=False))
    for make in (room.pod, room.cluster, room.deployment, lambda: room.pod(gpuModelId=None)):
        with pytest.raises(ApiError):
            make()
    assert offered() == (1, 0)
    assert room.vm()

"""VmSnapshots: made, waited for, adopted, deleted; a name that is taken is nobody's to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import STOP_VM, TERMINATE_VM, count
from tests.cluster.conftest import BRISK
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, gpu_vm, ready, relay_object, stalls, tells

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import StartOperator
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

KIND = "VmSnapshot"
CREATE, LIST = "POST /v1/vms/{id}/snapshots/create", "GET /v1/vms/{id}/snapshots"
DELETE = "DELETE /v1/vms/{id}/snapshots/{snapshotId}"
UNTIL_READY = 10
"""Seconds of the cloud's clock."""


def _shot(called: str = "nightly", **spec: object) -> Manifest:
    fields = {"vmRef": {"name": "box"}, "name": called, **spec}
    return relay_object(KIND, called) | {"spec": {name: value for name, value in fields.items() if value is not None}}


def _is(state: str) -> Callable[[Manifest | None], bool]:
    return lambda item: (item or {})["status"].get("state") == state


async def _vm(workspace: Workspace, **spec: object) -> str:
    """In a cloud whose clock stands still: VMs need no time, and a snapshot is ready once the test has advanced it."""
    control = workspace.cloud.control
    await control.settings(placementSeconds=0, startSeconds=0, stopSeconds=0)
    await control.clock(mode="frozen")
    await workspace.apply(gpu_vm() | {"spec": gpu_vm()["spec"] | spec})
    cloud_id: str = (await workspace.becomes("GpuVm", "box"))["status"]["id"]
    return cloud_id


async def _listed(workspace: Workspace, vm_id: str) -> list[Json]:
    items: list[Json] = (await workspace.organization.call("GET", f"/v1/vms/{vm_id}/snapshots"))["items"]
    return items


async def _by_hand(workspace: Workspace, vm_id: str, name: str) -> str:
    made = await workspace.organization.call("POST", f"/v1/vms/{vm_id}/snapshots/create", {"name": name})
    cloud_id: str = made["id"]
    return cloud_id


async def test_a_snapshot_waits_for_its_vm_is_made_and_goes_with_its_object(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await workspace.apply(_shot())
    await workspace.becomes(KIND, "nightly", tells("ReferenceNotFound"))
    assert await count(workspace, CREATE) == 0
    vm_id = await _vm(workspace, diskSizeGb=50)
    making = await workspace.becomes(KIND, "nightly", _is("creating"))
    assert condition(making, "Ready")["reason"] == "Creating"
    await workspace.cloud.control.advance(UNTIL_READY)
    status = (await workspace.becomes(KIND, "nightly"))["status"]
    (row,) = await _listed(workspace, vm_id)
    assert (row["id"], row["name"], row["vmId"]) == (status["id"], status["cloudName"], status["partOf"])
    assert (row["name"], row["vmId"], status["state"], status["sizeGb"]) == ("nightly", vm_id, "ready", 50)
    assert "references" not in status
    await workspace.kube.delete(KIND, "nightly")
    await workspace.is_gone(KIND, "nightly")
    assert await _listed(workspace, vm_id) == []
    assert (await count(workspace, CREATE), await count(workspace, DELETE)) == (1, 1)


async def test_its_vm_is_neither_stopped_nor_ended_while_it_is_being_made(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _vm(workspace)
    await workspace.apply(_shot("one"))
    await workspace.becomes(KIND, "one", _is("creating"))
    await workspace.apply(gpu_vm(powerState="Stopped"))
    held = await workspace.becomes("GpuVm", "box", tells("InUse"))
    assert "VmSnapshot one, being made of it" in condition(held, "Ready")["message"]
    assert await count(workspace, STOP_VM) == 0
    await workspace.cloud.control.advance(UNTIL_READY)
    await workspace.becomes("GpuVm", "box", lambda item: ready(item) and _is("stopped")(item))
    await workspace.becomes(KIND, "one")

    await workspace.apply(_shot("two"))
    await workspace.becomes(KIND, "two", _is("creating"))
    await workspace.kube.delete("GpuVm", "box")
    await workspace.becomes("GpuVm", "box", tells("InUse"))
    assert await count(workspace, TERMINATE_VM) == 0
    await workspace.cloud.control.advance(UNTIL_READY)
    await workspace.is_gone("GpuVm", "box")
    for name in ("one", "two"):  # the local cloud ends them with their VM
        await workspace.becomes(KIND, name, stalls("TerminatedExternally"))
        await workspace.kube.delete(KIND, name)
        await workspace.is_gone(KIND, name)
    assert (await count(workspace, CREATE), await count(workspace, TERMINATE_VM)) == (2, 1)


async def test_what_is_deleted_while_it_is_being_made_holds_nobody(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    vm_id = await _vm(workspace)
    await workspace.apply(_shot())
    await workspace.becomes(KIND, "nightly", _is("creating"))
    await workspace.kube.delete(KIND, "nightly")
    await workspace.kube.delete("GpuVm", "box")
    await workspace.is_gone("GpuVm", "box")
    await workspace.is_gone(KIND, "nightly")
    assert (await workspace.organization.vm(vm_id))["status"] == "terminated"


async def test_a_name_that_is_taken_is_adopted_only_if_people_say_so(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    vm_id = await _vm(workspace)
    by_hand = await _by_hand(workspace, vm_id, "nightly")
    await workspace.apply(_shot())
    told = await workspace.becomes(KIND, "nightly", stalls("AlreadyExists"))
    assert f"gpurelay.dev/adopt-id={by_hand}" in condition(told, "Stalled")["message"]
    assert await count(workspace, CREATE) == 1
    await workspace.obey(condition(told, "Stalled")["message"])
    await workspace.cloud.control.advance(UNTIL_READY)
    assert (await workspace.becomes(KIND, "nightly"))["status"]["id"] == by_hand
    await workspace.apply(_shot("again", name="nightly"))
    told = await workspace.becomes(KIND, "again", stalls("AlreadyExists"))
    assert f"{by_hand} belongs to {KIND}" in condition(told, "Stalled")["message"]
    another = _shot("other")
    another["metadata"]["annotations"] = {"gpurelay.dev/adopt-id": by_hand}
    await workspace.apply(another)
    await workspace.becomes(KIND, "other", stalls("AdoptionRefused"))
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [by_hand]


async def test_a_conflict_is_told_and_adopts_nothing(brisk_private_workspace: Workspace) -> None:
    """The list, as it was read, does not have the name; the cloud answers 409."""
    workspace = brisk_private_workspace
    vm_id = await _vm(workspace)
    refusal = {"status": 409, "body": {"error": "The name is taken.", "code": "conflict"}}
    fault = await workspace.cloud.control.fault(CREATE, refusal, organizationId=workspace.organization.id)
    await workspace.apply(_shot())
    told = await workspace.becomes(KIND, "nightly", tells("Conflict"))
    assert condition(told, "Ready")["message"] == "The name is taken."
    await workspace.kube.annotate(KIND, "nightly", {"gpurelay.dev/paused": "true"})
    await workspace.becomes(KIND, "nightly", lambda item: condition(item, "Paused"))
    await workspace.cloud.control.end_fault(fault)
    by_hand = await _by_hand(workspace, vm_id, "nightly")
    await workspace.kube.annotate(KIND, "nightly", {"gpurelay.dev/paused": None})
    told = await workspace.becomes(KIND, "nightly", stalls("AlreadyExists"))
    assert "id" not in told["status"]
    await workspace.kube.delete(KIND, "nightly")
    await workspace.is_gone(KIND, "nightly")
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [by_hand]


async def test_a_lost_answer_leads_to_one_snapshot_which_is_the_objects(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    vm_id = await _vm(workspace)
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, count=1, organizationId=workspace.organization.id)
    await workspace.apply(_shot())
    await workspace.becomes(KIND, "nightly", _is("creating"))
    await workspace.apply(gpu_vm(powerState="Stopped"))
    await workspace.becomes("GpuVm", "box", tells("InUse"))
    await workspace.cloud.control.advance(UNTIL_READY)
    status = (await workspace.becomes(KIND, "nightly"))["status"]
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [status["id"]]
    assert await count(workspace, CREATE) == 1


async def test_one_that_was_never_made_is_made_once_that_is_sure(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await start_operator(workspace, **BRISK, absence_after_unknown_seconds="2")
    vm_id = await _vm(workspace)
    control = workspace.cloud.control
    lost = await control.fault(CREATE, {"drop": "before"}, organizationId=workspace.organization.id)
    await workspace.apply(_shot())
    await workspace.becomes(KIND, "nightly", lambda item: condition(item, "CreateOutcomeUnknown"))
    await control.end_fault(lost)
    making = await workspace.becomes(KIND, "nightly", _is("creating"))
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [making["status"]["id"]]
    assert await count(workspace, CREATE) >= 2


async def test_a_create_that_outlives_its_operator_is_found_by_the_next(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    first = await start_operator(workspace, **BRISK)
    vm_id = await _vm(workspace)
    await workspace.cloud.control.fault(CREATE, {"drop": "after"}, organizationId=workspace.organization.id)
    after_the_look = {"skip": 1, "organizationId": workspace.organization.id}
    await workspace.cloud.control.fault(LIST, {"status": 503}, **after_the_look)
    await workspace.apply(_shot())
    await eventually(lambda: count(workspace, CREATE), lambda creates: creates == 1)
    await first.kill()
    await workspace.cloud.control.clear_faults()
    await start_operator(workspace, **BRISK)
    making = await workspace.becomes(KIND, "nightly", lambda item: (item or {})["status"].get("id"))
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [making["status"]["id"]]
    assert await count(workspace, CREATE) == 1


async def test_one_that_fails_says_why(brisk_private_workspace: Workspace) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.settings(interruptionGraceSeconds=5)
    vm_id = await _vm(workspace)
    await workspace.apply(_shot())
    await workspace.becomes(KIND, "nightly", _is("creating"))
    node = await control.node_of(vm_id)
    await control.change_node(node["id"], reporting=False)
    await control.advance(UNTIL_READY)
    failed = await workspace.becomes(KIND, "nightly", stalls("Failed"))
    assert "stopped reporting" in failed["status"]["statusReason"]
    assert "references" not in failed["status"]


async def test_one_that_is_kept_is_told_by_its_account(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    vm_id = await _vm(workspace)
    await workspace.apply(_shot(deletionPolicy="Orphan"))
    await workspace.becomes(KIND, "nightly", _is("creating"))
    await workspace.cloud.control.advance(UNTIL_READY)
    status = (await workspace.becomes(KIND, "nightly"))["status"]
    await workspace.kube.delete(KIND, "nightly")
    await workspace.is_gone(KIND, "nightly")
    assert [row["id"] for row in await _listed(workspace, vm_id)] == [status["id"]]

    def told(item: Manifest | None) -> bool:
        return [each["id"] for each in (item or {})["status"].get("kept", [])] == [status["id"]]

    await workspace.becomes("CloudAccount", "default", told)
    before = await count(workspace, LIST)
    await eventually(lambda: count(workspace, LIST), lambda lists: lists >= before + 3)
    assert told(await workspace.kube.get("CloudAccount", "default"))
    await workspace.organization.call("DELETE", f"/v1/vms/{vm_id}/snapshots/{status['id']}")
    await workspace.becomes("CloudAccount", "default", lambda item: not (item or {})["status"].get("kept"))


@pytest.mark.parametrize("status", [404, 405])
async def test_a_cloud_without_the_list_makes_none_and_without_the_end_keeps_it(
    brisk_private_workspace: Workspace, status: int
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    unserved = {"status": status, "body": {"error": "no such route", "code": "not_found"}}
    own = workspace.organization.id
    vm_id = await _vm(workspace)
    no_list = await control.fault(LIST, unserved, organizationId=own)
    await workspace.apply(_shot())
    told = await workspace.becomes(KIND, "nightly", stalls("NotServed"))
    assert "the cloud has no list" in condition(told, "Stalled")["message"]
    assert await count(workspace, CREATE) == 0
    await control.end_fault(no_list)
    await workspace.becomes(KIND, "nightly", _is("creating"))
    await control.advance(UNTIL_READY)
    cloud_id = (await workspace.becomes(KIND, "nightly"))["status"]["id"]
    no_list = await control.fault(LIST, unserved, organizationId=own)
    told = await workspace.becomes(KIND, "nightly", stalls("NotServed"))
    assert condition(told, "Ready")["status"] == "True"
    no_end = await control.fault(DELETE, unserved, organizationId=own)
    await workspace.kube.delete(KIND, "nightly")
    await control.end_fault(no_list)

    def by_hand(item: Manifest | None) -> bool:
        return f"no call that deletes {cloud_id}" in condition(item, "Stalled").get("message", "")

    await workspace.becomes(KIND, "nightly", by_hand)
    await control.end_fault(no_end)
    await workspace.organization.call("DELETE", f"/v1/vms/{vm_id}/snapshots/{cloud_id}")
    await workspace.is_gone(KIND, "nightly")


async def test_a_kind_that_is_switched_off_asks_nothing_and_says_where_the_switch_is(workspace: Workspace) -> None:
    await workspace.apply(_shot())
    told = await workspace.becomes(KIND, "nightly", stalls("KindDisabled"))
    assert "add VmSnapshot to RELAY_ASSUMED_KINDS" in condition(told, "Stalled")["message"]
    assert await count(workspace, CREATE, LIST) == 0
    await workspace.kube.delete(KIND, "nightly")
    await workspace.is_gone(KIND, "nightly")


async def test_what_exists_is_ended_though_its_kind_is_switched_off(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    first = await start_operator(workspace, **BRISK)
    vm_id = await _vm(workspace)
    for name in ("done", "begun"):
        await workspace.apply(_shot(name))
        await workspace.becomes(KIND, name, _is("creating"))
        if name == "done":
            await workspace.cloud.control.advance(UNTIL_READY)
            await workspace.becomes(KIND, name)
    await first.stop()
    await start_operator(workspace, **(BRISK | {"assumed_kinds": ""}))
    off = await workspace.becomes(KIND, "done", stalls("KindDisabled"))
    assert condition(off, "Ready")["status"] == "True"
    await workspace.becomes(KIND, "begun", tells("KindDisabled"))
    await workspace.apply(gpu_vm(powerState="Stopped"))  # nobody would tell when it is made
    await workspace.becomes("GpuVm", "box", lambda item: ready(item) and _is("stopped")(item))
    for name in ("done", "begun"):
        await workspace.kube.delete(KIND, name)
        await workspace.is_gone(KIND, name)
    assert await _listed(workspace, vm_id) == []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"name": None}, "spec.name"),
        ({"vmRef": None}, "spec.vmRef"),
        ({"name": ""}, "spec.name"),
        ({"name": "x" * 64}, "spec.name"),
        ({"name": "a\nb"}, "spec.name"),
        ({"name": " a"}, "spec.name"),
        ({"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(_shot("nightly", **spec), dry_run=True)
    assert says in refused.value.message


async def test_an_object_stays_with_its_vm_and_its_name(workspace: Workspace) -> None:
    await workspace.apply(_shot())
    for change, says in (({"name": "other"}, "name cannot be changed"), ({"vmRef": {"name": "b"}}, "vmRef cannot be")):
        with pytest.raises(KubeError) as refused:
            await workspace.kube.patch(KIND, "nightly", {"spec": change})
        assert says in refused.value.message

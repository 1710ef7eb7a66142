"""A VM of the cloud is a VirtualMachine of a cluster with KubeVirt's CRDs; its controllers are played."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from relay_localcloud.capacity import catalog
from relay_localcloud.runtimes.kubernetes import discovery
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.turns import NO_VMS
from relay_localcloud.runtimes.runtime import Noun
from tests.cluster.kubernetes_runtime import kubevirt
from tests.cluster.kubernetes_runtime.stage import GPU, Stage
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.controlplane import ControlPlane

IMAGE, DISK_IMAGE = "docker.io/library/ubuntu:24.04", "docker://quay.io/containerdisks/ubuntu:24.04"


@pytest_asyncio.fixture
async def alone(
    private_controlplane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """A cloud with an image for VMs, on a cluster that has no KubeVirt yet."""
    monkeypatch.setitem(catalog._DISK_IMAGES, IMAGE, DISK_IMAGE)
    monkeypatch.setattr(discovery, "ASKED_EVERY", 0.5)
    async with Kube(private_controlplane.kubeconfig) as kube:
        own = Stage(kube, private_controlplane.kubeconfig, tmp_path / "state")
        await own.node()
        await own.start()
        await own.has_room()
        yield own
        await own.close()


async def post(stage: Stage, **fields: Any) -> str:
    body = {"name": "vm", "imageUrl": IMAGE, "gpuModelId": "h100", "gpuCount": 2, "public": True, **fields}
    made = await stage.organization.call("POST", f"/v1/orgs/{stage.organization.id}/vms/create", body)
    return str(made["id"])


async def offered(stage: Stage) -> bool:
    """Whether the catalog has a node for VMs."""
    items = (await stage.organization.call("GET", "/v1/gpu-availability"))["items"]
    (h100,) = [each for each in items if each["gpuModelId"] == "h100"]
    return bool(h100["vm"]["nodes"])


async def kinds(stage: Stage, vm_id: str) -> set[str]:
    """What the cluster has of it."""
    every = ("VirtualMachine", "VolumeImportSource", "PersistentVolumeClaim", "Secret")
    return {kind for kind in every if await stage.kube.find(kind, name_of(vm_id), stage.namespace)}


async def address(stage: Stage, vm_id: str) -> str | None:
    """Where the gateway reaches its port 22; None while it is nowhere."""
    way = stage.regions.way(stage.organization.id, vm_id, 22)
    return None if way is None else way.url


async def test_a_vm_is_offered_once_the_cluster_can_run_it_and_lives_until_nothing_is_left(alone: Stage) -> None:
    with pytest.raises(CloudRefusal) as refused:
        await post(alone)
    assert (refused.value.status, NO_VMS in str(refused.value)) == (422, True)
    assert not await offered(alone)
    await kubevirt.installed(alone.kube)
    await eventually(lambda: offered(alone), what="VMs are offered")

    vm_id = await post(alone, cloudInit="#!/bin/sh\necho hi\n")
    made = await kubevirt.machine(alone, vm_id)
    assert [each["deviceName"] for each in made["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]] == [GPU, GPU]
    disk = await alone.kube.get("PersistentVolumeClaim", name_of(vm_id), alone.namespace)
    assert disk["spec"]["dataSourceRef"]["kind"] == "VolumeImportSource"
    await kubevirt.controller_starts(alone, vm_id)
    await alone.becomes(vm_id, "running")
    assert await alone.free() == 6
    look = partial(address, alone, vm_id)
    await eventually(look, lambda url: url == f"http://{alone.address}:22", what="it has the address of its Pod")
    through = alone.regions._running(alone.organization.id, vm_id).through
    assert through.metadata.name == f"virt-launcher-{name_of(vm_id)}"

    await alone.act(vm_id, "stop")
    await kubevirt.machine(alone, vm_id, "Halted")
    assert (await alone.organization.vm(vm_id))["status"] == "stopping"
    await kubevirt.controller_stops(alone, vm_id)
    await alone.becomes(vm_id, "stopped")
    kept = {"VirtualMachine", "PersistentVolumeClaim"}
    await eventually(lambda: kinds(alone, vm_id), lambda found: found == kept, what="the disk stays, and what it is of")
    assert await alone.free() == 8

    await alone.act(vm_id, "restart")
    await kubevirt.machine(alone, vm_id, start=2)
    await kubevirt.controller_starts(alone, vm_id)
    await alone.becomes(vm_id, "running")
    again = await alone.kube.get("PersistentVolumeClaim", name_of(vm_id), alone.namespace)
    assert again["metadata"]["uid"] == disk["metadata"]["uid"]

    await alone.act(vm_id, "restart")
    await kubevirt.machine(alone, vm_id, "Halted", start=2)
    await kubevirt.controller_stops(alone, vm_id)
    await kubevirt.machine(alone, vm_id, start=3)
    assert (await alone.organization.vm(vm_id))["status"] == "running"
    await kubevirt.controller_starts(alone, vm_id)

    await alone.act(vm_id, "terminate")
    await kubevirt.machine(alone, vm_id, "Halted", start=3)
    await kubevirt.controller_stops(alone, vm_id)
    await alone.gone("PersistentVolumeClaim", vm_id)
    protected = {"PersistentVolumeClaim"}
    await eventually(lambda: kinds(alone, vm_id), lambda found: found <= protected, what="nothing is left")


async def offers_snapshots(stage: Stage) -> bool:
    with stage.store.transaction() as tx:
        return tx.runtime.lacks(Noun.SNAPSHOT) is None


async def told(stage: Stage, vm_id: str, snapshot_id: str, status: str) -> Any:
    """The snapshot, once it has this status."""
    path = f"/v1/vms/{vm_id}/snapshots/{snapshot_id}"
    get = partial(stage.organization.call, "GET", path)
    return await eventually(get, lambda found: found["status"] == status, what=f"it is {status}")


async def taken(stage: Stage, vm_id: str, name: str, **status: Any) -> str:
    """The id of a snapshot for which the cluster has a VolumeSnapshot with this status."""
    made = await stage.organization.call("POST", f"/v1/vms/{vm_id}/snapshots/create", {"name": name})
    look = stage.kube.looking_at("VolumeSnapshot", name_of(made["id"]), stage.namespace)
    found = await eventually(look, what="there is a VolumeSnapshot")
    assert found is not None
    assert found["spec"] == {"source": {"persistentVolumeClaimName": name_of(vm_id)}}
    await stage.kube.patch("VolumeSnapshot", name_of(made["id"]), {"status": status}, stage.namespace)
    return str(made["id"])


async def test_a_snapshot_is_ready_once_it_can_be_used_and_goes_when_it_or_its_vm_ends(alone: Stage) -> None:
    await kubevirt.installed(alone.kube)
    await eventually(lambda: offered(alone), what="VMs are offered")
    vm_id = await post(alone)
    await kubevirt.machine(alone, vm_id)
    await kubevirt.controller_starts(alone, vm_id)
    await alone.becomes(vm_id, "running")
    await eventually(lambda: offers_snapshots(alone), what="snapshots are offered")
    one = await taken(alone, vm_id, "one", readyToUse=True)
    assert (await told(alone, vm_id, one, "ready")).get("statusReason") is None
    two = await taken(alone, vm_id, "two", readyToUse=False, error={"message": "no class"})

    async def words() -> str | None:
        said = (await told(alone, vm_id, two, "creating")).get("statusReason")
        return said if said is None else str(said)

    await eventually(words, lambda said: said == "no class", what="it says why it is not ready")
    await alone.organization.call("DELETE", f"/v1/vms/{vm_id}/snapshots/{one}")
    await alone.gone("VolumeSnapshot", one)
    await alone.end()
    await alone.start()
    await eventually(lambda: offered(alone), what="VMs are offered")
    await alone.act(vm_id, "terminate")
    await alone.gone("VolumeSnapshot", two)


async def test_a_kill_of_the_cloud_loses_no_vm_and_makes_none_twice(alone: Stage) -> None:
    await kubevirt.installed(alone.kube)
    await eventually(lambda: offered(alone), what="VMs are offered")
    vm_id = await post(alone)
    made = await kubevirt.machine(alone, vm_id)
    await alone.end()
    await kubevirt.controller_starts(alone, vm_id)
    await alone.start()
    await alone.becomes(vm_id, "running")
    await alone.act(vm_id, "stop")
    await alone.end()
    await alone.start()
    halted = await kubevirt.machine(alone, vm_id, "Halted")
    assert halted["metadata"]["uid"] == made["metadata"]["uid"]
    await kubevirt.controller_stops(alone, vm_id)
    await alone.becomes(vm_id, "stopped")

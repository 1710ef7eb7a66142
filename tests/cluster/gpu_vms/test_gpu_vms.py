"""GpuVms: created, changed, deleted, adopted, refused; the SSH keys that they refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import RESTART_VM, SET_VISIBILITY, STOP_VM, TERMINATE_VM, asked, changes, count
from tests.cluster.wording import worded
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import adopting, condition, gpu_pod, gpu_vm, in_state, ready, relay_object, stalled, tells

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.workspace import Workspace

CREATE_VM, ATTACH = "POST /v1/orgs/{orgId}/vms/create", "POST /v1/vms/{id}/ssh-keys/attach"
READ_USAGE = "GET /v1/orgs/{orgId}/billing/usage"
KEYS = {
    "ada": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
    "bob": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIG2N9j80sbaY1nmljEToRcN55XktyW4TR4LTP2exYzp",
}


def _key(name: str) -> Manifest:
    return relay_object("SshKey", name, publicKey=KEYS[name])


def _refs(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def _opened(item: Manifest | None) -> bool:
    return in_state("running")(item) and (item or {})["status"]["public"] is True


def _has_two(item: Manifest | None) -> bool:
    return ready(item) and len((item or {})["status"]["references"]) == 2


async def test_a_vm_is_made_stopped_started_opened_and_ended(brisk_workspace: Workspace) -> None:
    script = "#!/bin/sh\necho hello\n"
    await brisk_workspace.apply(gpu_vm(cloudInit=script, diskSizeGb=50))
    status = (await brisk_workspace.becomes("GpuVm", "box"))["status"]
    record = await brisk_workspace.organization.vm(status["id"])
    assert (record["serviceType"], record["name"], record["diskSizeGb"]) == ("vm", status["cloudName"], 50)
    (sent,) = await asked(brisk_workspace, CREATE_VM)
    assert sent["status"] == 200
    await brisk_workspace.apply(gpu_vm(cloudInit=script, diskSizeGb=50, powerState="Stopped"))
    await brisk_workspace.becomes("GpuVm", "box", in_state("stopped"))
    await brisk_workspace.apply(gpu_vm(cloudInit=script, diskSizeGb=50, public=True))
    await brisk_workspace.becomes("GpuVm", "box", _opened)
    await brisk_workspace.apply(gpu_vm(cloudInit=script, diskSizeGb=80, public=True))
    held = await brisk_workspace.becomes("GpuVm", "box", lambda item: stalled(item) == "ImmutableFieldChanged")
    assert "diskSizeGb: asked 80, has 50" in condition(held, "Stalled")["message"]
    await brisk_workspace.kube.delete("GpuVm", "box")
    await brisk_workspace.is_gone("GpuVm", "box")
    assert (await brisk_workspace.organization.vm(status["id"]))["status"] == "terminated"
    done = await changes(brisk_workspace)
    assert (done[0], done[-1], sorted(done[1:-1])) == (
        CREATE_VM,
        TERMINATE_VM,
        sorted([STOP_VM, RESTART_VM, SET_VISIBILITY]),
    )


async def test_a_vm_waits_for_its_keys_and_they_wait_for_its_end(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_vm(sshKeyRefs=_refs("ada")))
    await brisk_workspace.becomes("GpuVm", "box", tells("ReferenceNotFound"))
    assert await count(brisk_workspace, CREATE_VM) == 0
    await brisk_workspace.apply(_key("ada"))
    status = (await brisk_workspace.becomes("GpuVm", "box"))["status"]
    ada = (await brisk_workspace.becomes("SshKey", "ada"))["status"]["id"]
    assert status["references"] == [{"kind": "SshKey", "name": "ada", "id": ada}]
    assert await count(brisk_workspace, ATTACH) == 0

    await brisk_workspace.apply(_key("bob"))
    await brisk_workspace.apply(gpu_vm(sshKeyRefs=_refs("ada", "bob")))
    await brisk_workspace.becomes("GpuVm", "box", _has_two)
    assert await count(brisk_workspace, ATTACH) == 1
    await brisk_workspace.apply(gpu_vm(sshKeyRefs=_refs("bob")))
    held = await brisk_workspace.becomes("GpuVm", "box", lambda item: stalled(item) == "ImmutableFieldChanged")
    assert "has ada, which cannot be taken off" in condition(held, "Stalled")["message"]

    await brisk_workspace.kube.delete("SshKey", "ada")
    kept = await brisk_workspace.becomes("SshKey", "ada", tells("InUse"))
    assert "in use by GpuVm box" in condition(kept, "Ready")["message"]
    await brisk_workspace.kube.delete("GpuVm", "box")
    await brisk_workspace.is_gone("GpuVm", "box")
    await brisk_workspace.is_gone("SshKey", "ada")
    assert await count(brisk_workspace, CREATE_VM) == 1


async def test_a_vm_that_exists_is_adopted_and_a_pod_is_not(brisk_workspace: Workspace) -> None:
    path = f"/v1/orgs/{brisk_workspace.organization.id}/vms/create"
    body = {"name": "by-hand", "gpuModelId": "l40s", "gpuCount": 1, "imageUrl": "ubuntu:24.04"}
    by_hand = await brisk_workspace.organization.call("POST", path, body)
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await brisk_workspace.apply(adopting(gpu_vm("thief"), pod["status"]["id"]))
    await brisk_workspace.becomes("GpuVm", "thief", lambda item: stalled(item) == "AdoptionRefused")
    await brisk_workspace.apply(adopting(gpu_pod("pod", image="ubuntu:24.04"), by_hand["id"]))
    refused = await brisk_workspace.becomes("GpuPod", "pod", lambda item: stalled(item) == "AdoptionRefused")
    assert "kind: it is a vm" in condition(refused, "Stalled")["message"]
    await brisk_workspace.apply(adopting(gpu_vm(), by_hand["id"]))
    assert (await brisk_workspace.becomes("GpuVm", "box"))["status"]["id"] == by_hand["id"]
    assert await count(brisk_workspace, CREATE_VM) == 1


async def test_a_script_of_a_config_map_must_begin_with_a_shebang(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_vm(cloudInitFrom={"configMapKeyRef": {"name": "init", "key": "run.sh"}}))
    await brisk_workspace.becomes("GpuVm", "box", tells("EnvMissing"))
    source: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "init"}}
    await brisk_workspace.apply(source | {"data": {"run.sh": "#cloud-config\n"}})

    def warned(item: Manifest | None) -> bool:
        return "shebang" in condition(item, "Ready").get("message", "")

    await brisk_workspace.becomes("GpuVm", "box", warned)
    await brisk_workspace.apply(source | {"data": {"run.sh": "#!/bin/sh\ntrue\n"}})
    await brisk_workspace.becomes("GpuVm", "box")
    assert await count(brisk_workspace, CREATE_VM) == 1


async def test_pods_and_vms_of_one_account_are_nobodys_orphans(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.apply(gpu_vm())
    for kind, name in (("GpuPod", "trainer"), ("GpuVm", "box")):
        await brisk_workspace.becomes(kind, name)
    looks = await count(brisk_workspace, READ_USAGE)
    await eventually(lambda: count(brisk_workspace, READ_USAGE), lambda now: now >= looks + 2, what="a whole sweep")
    told = await brisk_workspace.kube.get("CloudAccount", "default")
    assert (told["status"]["inUse"]["gpuPods"], told["status"]["inUse"]["gpuVms"]) == (1, 1)
    assert not told["status"].get("orphans")
    assert not told["status"].get("unclaimed")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"cloudInit": "#cloud-config\n"}, "must begin with a shebang"),
        (
            {"cloudInit": "#!/bin/sh", "cloudInitFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
            "set cloudInit or cloudInitFrom, not both",
        ),
        ({"gpu": {"count": 17}}, "gpu.count in body should be less than or equal to 16"),
        ({"cloudInit": "#!" + "x" * 16_383}, "may not be more than 16384"),
    ],
)
async def test_what_no_vm_takes_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(relay_object("GpuVm", "box", **spec), dry_run=True)
    assert says in worded(refused.value.message)

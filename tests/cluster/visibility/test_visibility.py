"""Opening and closing a pod's endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_POD, SET_VISIBILITY, changes
from tests.support.manifests import gpu_pod, ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _shown(public: bool) -> Callable[[Manifest | None], bool]:
    def shown(pod: Manifest | None) -> bool:
        return ready(pod) and (pod or {})["status"]["public"] is public

    return shown


async def test_the_endpoint_is_opened_and_closed_in_place(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    cloud_id = (await brisk_workspace.becomes("GpuPod", "trainer", _shown(public=False)))["status"]["id"]
    for public in (True, False):
        await brisk_workspace.apply(gpu_pod(public=public))
        await brisk_workspace.becomes("GpuPod", "trainer", _shown(public=public))
        assert (await brisk_workspace.organization.vm(cloud_id))["public"] is public
    assert await changes(brisk_workspace) == [CREATE_POD, SET_VISIBILITY, SET_VISIBILITY]


async def test_an_endpoint_opened_by_somebody_else_is_closed_at_the_next_look(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    cloud_id = (await brisk_workspace.becomes("GpuPod", "trainer"))["status"]["id"]
    await brisk_workspace.organization.call("POST", f"/v1/vms/{cloud_id}/visibility", {"public": True})
    await brisk_workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": "opened"})

    def looked(pod: Manifest | None) -> bool:
        return _shown(public=False)(pod) and (pod or {})["status"].get("reconcileAt") == "opened"

    await brisk_workspace.becomes("GpuPod", "trainer", looked)
    assert (await brisk_workspace.organization.vm(cloud_id))["public"] is False


async def test_a_pod_made_public_is_public_from_the_start(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod(public=True))
    await brisk_workspace.becomes("GpuPod", "trainer", _shown(public=True))
    assert await changes(brisk_workspace) == [CREATE_POD]

"""A test's corner is its own and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import LocalCloud, Ports
from tests.support.manifests import gpu_pod
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.controlplane import Cluster


async def test_a_namespace_with_finalizers_goes_away_without_an_operator(
    unattended_workspace: Workspace, cluster: Cluster
) -> None:
    async with Kube(cluster.kubeconfig) as kube:
        second = await Workspace.create(kube, unattended_workspace.cloud, "left-alone")
        held = gpu_pod("held") | {"metadata": {"name": "held", "finalizers": ["gpurelay.dev/cloud-resource"]}}
        await second.apply(held)
        await second.remove(attended=False, namespace_too=True)
        look = kube.looking_at("Namespace", second.namespace)
        await eventually(look, lambda found: found is None, what="the namespace is gone")
    assert await unattended_workspace.kube.get("CloudAccount", "default")


async def test_a_killed_local_cloud_comes_back_with_its_organizations(tmp_path: Path) -> None:
    cloud = LocalCloud(tmp_path, Ports.free(), forks=True)
    await cloud.start()
    organization = await cloud.control.create_organization("kept")
    await cloud.process.kill()
    await cloud.start()
    assert (await organization.call("GET", "/v1/whoami"))["organizationName"] == "kept"
    await cloud.process.stop()

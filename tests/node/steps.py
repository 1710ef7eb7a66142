"""What people do again and again, in whatever namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.release import TEAM
from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod, ready

if TYPE_CHECKING:
    from tests.node.release import Release
    from tests.support.kube import Manifest


def within(namespace: str, manifest: Manifest) -> Manifest:
    """The manifest, in this namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


async def becomes_ready(release: Release, name: str, namespace: str = TEAM) -> Manifest:
    """Waits until the GpuPod is Ready."""
    look = release.kube.looking_at("GpuPod", name, namespace)
    return await eventually(look, ready, what=f"the GpuPod {name} is Ready") or {}


async def works(release: Release, name: str) -> None:
    """A GpuPod becomes Ready, and goes when it is deleted."""
    await release.kube.apply(within(TEAM, gpu_pod(name)))
    await becomes_ready(release, name)
    await release.kube.delete("GpuPod", name, TEAM)
    gone = release.kube.looking_at("GpuPod", name, TEAM)
    await eventually(gone, lambda item: item is None, what="it is gone")

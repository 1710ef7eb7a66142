"""One node for all of these tests, with the images of this very source; it takes Linux and root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hack.node import image
from hack.node.node import Node
from tests.conftest import session_fixture
from tests.node.release import OPERATOR, Release, cloud_is_up
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@session_fixture
async def node() -> AsyncIterator[Node]:
    """Ready, with the operator's and the cloud's images."""
    images = [image.built(target) for target in image.TARGETS]
    started = await Node.start(f"test-{os.getpid()}", images)
    yield started
    await started.stop()


@session_fixture
async def release(node: Node) -> AsyncIterator[Release]:
    """Installed, with two replicas, beside a cloud."""
    kubectl = Kubectl(node.kubeconfig)
    async with Kube(node.kubeconfig) as kube:
        installed = Release(node, kube, kubectl)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR, "labels": RESTRICTED}}
        await kube.apply(namespace)
        await cloud_is_up(node)
        await installed.install()
        await installed.leads_soon()
        yield installed


@session_fixture
async def examples(release: Release) -> Release:
    """The same, with examples/ applied."""
    await release.apply_examples()
    return release

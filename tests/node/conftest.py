"""One node for all of these tests, with the images of this very source; it takes Linux and root.

With RELAY_TEST_KUBECONFIG, a cluster that has these images is used instead, such as the one of `make kind`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_asyncio

from hack.node import image
from hack.node.node import Node
from tests.conftest import QUICK, session_fixture
from tests.node.cloud.workload_image import workload_image
from tests.node.cloud_pod import CloudPod
from tests.node.release import OPERATOR, Release
from tests.support.controlplane import Cluster
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@session_fixture
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Ready, with the images of the operator, of the cloud, and of a workload."""
    given = os.environ.get("RELAY_TEST_KUBECONFIG")
    if given:
        yield Cluster(Path(given), tmp_path_factory.mktemp("cluster"))
        return
    images = [*(image.built(target) for target in image.TARGETS), workload_image()]
    started = await Node.start(f"test-{os.getpid()}", images)
    yield started
    await started.stop()


@session_fixture
async def kubectl(cluster: Cluster) -> Kubectl:
    """The administrator's."""
    return Kubectl(cluster.kubeconfig)


@session_fixture
async def cloud(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CloudPod]:
    """The cloud's Pod."""
    reached = CloudPod(cluster.kubeconfig, tmp_path_factory.mktemp("cloud"))
    await reached.start()
    await reached.control.settings(**QUICK)
    yield reached
    await reached.process.stop()


@session_fixture
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """The administrator's."""
    async with Kube(cluster.kubeconfig) as connected:
        yield connected


@session_fixture
async def release(cluster: Cluster, kube: Kube, kubectl: Kubectl, cloud: CloudPod) -> Release:
    """Installed, with two replicas, beside a cloud; the operator's namespace enforces restricted Pods."""
    installed = Release(cluster, kube, kubectl, cloud)
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR, "labels": RESTRICTED}})
    await installed.install()
    await installed.leads_soon()
    return installed


@session_fixture
async def examples(release: Release) -> Release:
    """The same, with examples/ applied."""
    await release.apply_examples()
    return release


@pytest_asyncio.fixture(loop_scope="session")
async def team(release: Release) -> AsyncIterator[Workspace]:
    """A namespace and an organization of one test's own, in which the release's operator works."""
    async with Kube(release.cluster.kubeconfig) as connected:
        made = await Workspace.create(connected, release.cloud, "team")
        yield made
        await made.remove()

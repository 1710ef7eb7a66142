"""From the first release to this one: its objects go on, under the same ids."""

from __future__ import annotations

import io
import secrets
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.cluster.batch_side import CREATE_BATCH, batch, complete, put_prompts, record
from tests.cluster.cloud_log import CREATES, count
from tests.node.release import OPERATOR
from tests.support.chart import RELEASE
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.manifests import api_key_secret, gpu_cluster, gpu_pod, ready, relay_object
from tests.support.operator import Operator
from tests.support.packages import packages_of
from tests.support.toolchain import REPOSITORY
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.node.release import Release

pytestmark = pytest.mark.asyncio(loop_scope="session")
FIRST = "6d58973346188572200b128fa7601550230f0e41"
_KINDS = {"one": "GpuPod", "resting": "GpuPod", "two": "GpuCluster"}


@pytest.fixture(scope="session")
def first_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the first release; skipped if this clone's history does not reach so far back."""
    command = ["git", "archive", FIRST, "charts", "operator", "requirements"]
    archived = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    if archived.returncode:
        pytest.skip(f"the first release is not in this clone's history: {archived.stderr.decode()}")
    folder = tmp_path_factory.mktemp("first-release")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as source:
        source.extractall(folder, filter="data")
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def first_operator(first_source: Path, release: Release, tmp_path: Path) -> AsyncIterator[Operator]:
    """It runs under the rights of its chart, which is installed with its CRDs.

    As a process, since its image never started in a Pod: the chart's own Pods are given an image that is nowhere.
    """
    await release.uninstall()
    try:
        chart = first_source / "charts" / "relay-operator"
        await release.helm("install", RELEASE, str(chart), "--set", "image.tag=never-started")
        operator = await _first_operator(first_source, release, tmp_path)
        await operator.start()
        yield operator
        await operator.stop()
    finally:
        await release.install()


async def _first_operator(source: Path, release: Release, folder: Path) -> Operator:
    """With the packages that it was released with; some of them are no longer among those of this one."""
    management, inference = release.cloud.ports.urls()
    settings = {"default_base_url": management, "default_inference_url": inference, "webhook_public_url": ""}
    packages = packages_of(source / "requirements" / "operator.txt")
    return Operator(
        folder,
        await release.cluster.service_account_kubeconfig(OPERATOR, RELEASE),
        OPERATOR,
        (),
        settings | {"watch_namespaces": "first"},
        under=("env", f"PYTHONPATH={source / 'operator'}:{packages}"),
    )


@pytest_asyncio.fixture(loop_scope="session")
async def first_team(release: Release) -> AsyncIterator[Workspace]:
    """Its account names no URLs: it has those that the operator was installed with."""
    async with Kube(release.cluster.kubeconfig, "first") as kube:
        organization = await release.cloud.control.create_organization(f"first-{secrets.token_hex(3)}")
        await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
        await kube.apply(api_key_secret(organization.api_key))
        reference = {"name": "relay-api-key", "key": "api-key"}
        await kube.apply(relay_object("CloudAccount", "default", apiKeySecretRef=reference))
        made = Workspace(kube, release.cloud, organization)
        yield made
        await made.remove()


async def test_objects_of_the_first_release_go_on_under_this_one(
    first_operator: Operator, first_team: Workspace, release: Release
) -> None:
    team = first_team
    await put_prompts(team, [record("1")])
    for manifest in (gpu_pod("one"), gpu_pod("resting", powerState="Stopped"), gpu_cluster("two"), batch("three")):
        await team.apply(manifest)
    before = {name: await _becomes_ready(team, name) for name in _KINDS}
    asked = await eventually(team.kube.looking_at("InferenceBatch", "three"), complete, what="it is complete")
    await first_operator.stop()

    await release.install()
    await release.leads_soon()
    await team.kube.patch("GpuPod", "one", {"spec": {"powerState": "Stopped"}})
    await team.kube.patch("GpuPod", "resting", {"spec": {"powerState": "Running"}})
    await team.kube.patch("GpuCluster", "two", {"spec": {"replicas": 3}})
    after = {name: await team.becomes(kind, name) for name, kind in _KINDS.items()}
    assert {name: item["status"]["id"] for name, item in after.items()} == before
    assert after["two"]["status"]["readyReplicas"] == 3
    finished = await team.becomes("InferenceBatch", "three", complete)
    assert finished["status"]["batchId"] == (asked or {})["status"]["batchId"]
    assert await count(team, *CREATES) == len(_KINDS)
    assert await count(team, CREATE_BATCH) == 1


async def _becomes_ready(team: Workspace, name: str) -> str:
    """Its id in the cloud."""
    look = team.kube.looking_at(_KINDS[name], name)
    item = await eventually(look, ready, what=f"{name} is Ready under the first release")
    return str((item or {})["status"]["id"])

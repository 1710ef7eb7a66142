"""A cloud of two clusters, each a region: what runs where, and that neither waits for the other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest_asyncio

from relay_localcloud.runtimes.kubernetes.names import REPLICA_ID, name_of
from tests.cluster.kubernetes_runtime import groups
from tests.cluster.kubernetes_runtime.served import Served
from tests.cluster.kubernetes_runtime.stage import Stage
from tests.conftest import session_fixture
from tests.support.binaries import server_binaries
from tests.support.controlplane import ControlPlane
from tests.support.eventually import eventually
from tests.support.kube import Kube

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.support.controlplane import Cluster

StageT = TypeVar("StageT", bound=Stage)


@session_fixture
async def abroad(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """The other cluster."""
    plane = await ControlPlane.start(tmp_path_factory.mktemp("abroad") / "controlplane", server_binaries())
    yield plane
    await plane.stop()


@pytest_asyncio.fixture
async def us(abroad: ControlPlane, tmp_path: Path) -> AsyncIterator[Stage]:
    """The other cluster as its kubelets see it, with a Node; nothing is served there."""
    async with Kube(abroad.kubeconfig) as kube:
        own = Stage(kube, abroad.kubeconfig, tmp_path / "nothing", address="10.1.0.9")
        await own.node()
        yield own
        await own.close()


@asynccontextmanager
async def over_both(own: StageT, us: Stage) -> AsyncIterator[StageT]:
    """The cloud of a stage whose other cluster is `us`, served and with room."""
    await own.node()
    await own.start()
    us.organization, us.namespace = own.organization, own.namespace
    await own.has_room()
    yield own
    await own.close()


@pytest_asyncio.fixture
async def stage(cluster: Cluster, kube: Kube, us: Stage, tmp_path: Path) -> AsyncIterator[Stage]:
    """A cloud of both, whose Nodes have the same name."""
    state, others = tmp_path / "state", {"us": us.kubeconfig}
    async with over_both(Stage(kube, cluster.kubeconfig, state, others=others, product=us.product), us) as own:
        yield own


@pytest_asyncio.fixture
async def served(cluster: Cluster, kube: Kube, us: Stage, tmp_path: Path) -> AsyncIterator[Served]:
    """The same as a process."""
    state, others = tmp_path / "state", {"us": us.kubeconfig}
    async with over_both(Served(kube, cluster.kubeconfig, state, others=others, product=us.product), us) as own:
        yield own


async def regions_of(stage: Stage) -> set[str]:
    """The regions of the catalog, once the other cluster is one of several."""

    async def look() -> set[str]:
        return {each["region"] for each in (await stage.organization.call("GET", "/v1/locations"))["items"]}

    return await eventually(look, lambda found: {"us"} < found, what="both regions are offered")


async def in_region(served: Served, region: str) -> tuple[str, str]:
    """The ids of a new cluster in a region and of its only replica."""
    cluster_id = await groups.post(served, name=f"in-{region}", preferredRegions=[region], allowFallback=False)
    (replica,) = (await groups.detail(served, cluster_id))["replicas"]
    return cluster_id, str(replica["id"])


async def test_a_replica_runs_in_the_region_that_is_preferred_and_is_never_made_in_another(
    served: Served, us: Stage
) -> None:
    assert await regions_of(served) == {"eu", "us"}
    cluster_id, replica_id = await in_region(served, "us")
    await us.pod(replica_id)
    await served.killed_and_started()
    await groups.serves(us, replica_id)
    await groups.becomes(served, cluster_id, "running")
    assert not await served.kube.list("Pod", served.namespace)
    await groups.act(served, cluster_id, "terminate")
    await us.leaves(replica_id)
    await us.kubelet_removes(name_of(replica_id))
    for kind in ("Pod", "Secret"):
        await us.gone(kind, replica_id)


async def test_a_cluster_over_both_answers_from_both_and_is_stopped_when_neither_has_a_pod(
    stage: Stage, us: Stage
) -> None:
    await regions_of(stage)
    cluster_id = await groups.post(stage, gpusPerReplica=8, replicaCount=2, envVars={"A": "b"})
    ids = [each["id"] for each in (await groups.detail(stage, cluster_id))["replicas"]]
    for replica_id in ids:
        here = await eventually(partial(_there, replica_id, stage, us), what="a Pod of the replica is somewhere")
        assert here is not None
        await groups.serves(here, replica_id)
    await groups.becomes(stage, cluster_id, "running")
    ways = [stage.regions.way(stage.organization.id, cluster_id, 80) for _ in ids]
    assert {each.url for each in ways if each} == {"http://10.0.0.9:80", "http://10.1.0.9:80"}
    await groups.act(stage, cluster_id, "stop")
    for here in (us, stage):
        assert (await groups.detail(stage, cluster_id))["status"] == "stopping"
        (pod,) = await here.kube.list("Pod", stage.namespace)
        await here.kubelet_removes(pod["metadata"]["name"])
        await here.gone("Secret", pod["metadata"]["labels"][REPLICA_ID])  # only once the cloud saw that
    await groups.becomes(stage, cluster_id, "stopped")


async def test_a_region_that_is_away_holds_up_no_other(served: Served, us: Stage, abroad: ControlPlane) -> None:
    await regions_of(served)
    theirs, replica_id = await in_region(served, "us")
    await us.pod(replica_id)
    await served.end()
    await abroad.apiserver.kill()
    try:
        await served.start()
        ours, here = await in_region(served, "eu")
        await served.pod(here)
        await groups.serves(served, here)
        await groups.becomes(served, ours, "running")
    finally:
        await abroad.apiserver.start()
    await groups.serves(us, replica_id)
    await groups.becomes(served, theirs, "running")


async def _there(replica_id: str, *stages: Stage) -> Stage | None:
    for each in stages:
        if await each.kube.find("Pod", name_of(replica_id), each.namespace):
            return each
    return None

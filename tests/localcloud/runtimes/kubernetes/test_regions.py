"""Several clusters behind one cloud: which of them a holder is on, and what becomes of it if that changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import text

from relay_kube.kube import ApiAccess, Kube
from relay_localcloud.capacity.nodes import NODES
from relay_localcloud.runtimes.kubernetes import fleet, holdings, turns
from relay_localcloud.runtimes.kubernetes.fleet import KNOWN
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.nodes import NodeSeen
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.regions import Region, Regions
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.turns import Seen, Turn
from relay_wire.clusters import ClusterStatus
from tests.localcloud.runtimes.kubernetes.rows import MACHINE, Rows, rows
from tests.localcloud.support.gateway import Upstream
from tests.support.eventually import eventually
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay_localcloud.runtimes.kubernetes.observed import Pod

EVERYWHERE = ("eu", "us")
WITHOUT_GPUS = {"gpuModelId": None, "resourceSize": "small"}


@dataclass
class World:
    """A cloud of two clusters that have a Node of the same name each, with eight H100."""

    room: Rows
    pods: dict[str, dict[str, Pod]] = field(default_factory=lambda: {name: {} for name in EVERYWHERE})
    unknown: set[str] = field(default_factory=set)
    """Clusters that have not listed their Pods."""

    def turn(self, holder_id: str, cluster: str) -> Turn | None:
        """What a turn decides on a cluster."""
        pods = self.pods[cluster]
        machines, room = {MACHINE.name: MACHINE}, self.room
        seen = Seen(machines, lambda _, name: pods.get(name), lambda _: (), lambda _, __: (), self.may_run, room.wall)
        with self.room.tx() as tx:
            return turns.take(tx, holder_id, seen, replace(self.room.offer, cluster=cluster, first="eu"))

    def may_run(self, cluster: str, _: str, name: str) -> bool:
        return cluster in self.unknown or name in self.pods[cluster]

    def steps(self, holder_id: str) -> dict[str, Step]:
        """What each cluster that the holder concerns is to do."""
        found = {name: self.turn(holder_id, name) for name in EVERYWHERE}
        return {name: turn.step for name, turn in found.items() if turn is not None}

    def runs(self, holder_id: str, cluster: str) -> None:
        """Its container runs on a cluster, and the cloud has seen it."""
        self.pods[cluster][name_of(holder_id)] = self.room.running(holder_id)
        self.turn(holder_id, cluster)


@pytest.fixture
def world() -> Iterator[World]:
    room = rows()
    with room.tx() as tx:
        tx.connection.execute(text("DELETE FROM nodes"))
        KNOWN.remove(tx)
        for name in EVERYWHERE:
            fleet.look(tx, name, [NodeSeen(MACHINE, "h100", "labelled", "", cordoned=False)], is_region=True)
    yield World(room)
    room.store.close()


def test_a_node_belongs_to_the_region_of_its_cluster_whatever_its_name_and_labels(world: World) -> None:
    with world.room.tx() as tx:
        assert {(each.region, each.location, each.gpu_count) for each in NODES.all(tx)} == {
            ("eu", "eu", 8),
            ("us", "us", 8),
        }


def test_a_replica_is_made_on_the_cluster_of_its_node_alone(world: World) -> None:
    replica = world.room.replica(world.room.cluster(preferredRegions=["us"]))
    assert world.steps(replica.id) == {"us": Step.MAKE}
    world.runs(replica.id, "us")
    assert world.steps(replica.id) == {"us": Step.NOTHING}


def test_what_needs_no_node_is_made_on_the_first_cluster(world: World) -> None:
    replica = world.room.replica(world.room.cluster(**WITHOUT_GPUS))
    assert world.steps(replica.id) == {"eu": Step.MAKE}


def test_a_replica_whose_node_is_on_another_cluster_by_now_leaves_the_former_one_first(world: World) -> None:
    replica = world.room.replica(world.room.cluster(preferredRegions=["us"]))
    world.turn(replica.id, "us")
    world.runs(replica.id, "us")
    with world.room.tx() as tx:
        (other,) = KNOWN.all(tx, cluster="eu")
        change = text("UPDATE replicas SET node_id = :node WHERE id = :id")
        tx.connection.execute(change, {"node": other.node_id, "id": replica.id})
    assert world.steps(replica.id) == {"us": Step.END}
    world.pods["us"].clear()
    assert world.steps(replica.id) == {"us": Step.SWEEP}
    with world.room.tx() as tx:
        holdings.left(tx, replica.id, "us")
    assert world.steps(replica.id) == {"eu": Step.MAKE}


def test_a_cluster_is_stopped_once_no_cluster_can_have_a_pod_of_it(world: World) -> None:
    cluster_id = world.room.cluster(preferredRegions=["us"])
    replica = world.room.replica(cluster_id)
    world.turn(replica.id, "us")
    world.runs(replica.id, "us")
    world.room.stop(cluster_id)

    def status() -> ClusterStatus:
        assert world.steps(cluster_id) == {}
        return world.room.status(cluster_id)

    assert status() is ClusterStatus.STOPPING
    world.pods["us"].clear()
    world.unknown = {"us"}
    assert status() is ClusterStatus.STOPPING
    world.unknown = {"eu"}  # the first one, which takes no turns then
    assert world.turn(cluster_id, "us") is None
    assert world.room.status(cluster_id) is ClusterStatus.STOPPED


def test_the_state_of_a_cloud_of_one_cluster_belongs_to_the_first(world: World) -> None:
    room = world.room
    replica = room.replica(room.cluster(preferredRegions=["us"]))
    world.turn(replica.id, "us")
    with room.tx() as tx:
        tx.connection.execute(text("UPDATE kubernetes_holdings SET cluster = NULL"))
        tx.connection.execute(text("CREATE TABLE kubernetes_nodes (name PRIMARY KEY, node_id, cordoned)"))
        tx.connection.execute(text("INSERT INTO kubernetes_nodes VALUES ('gpu-9', 'node_9', 1)"))
        for _ in range(2):
            fleet.name_cluster(tx, "asia")
            holdings.name_cluster(tx, "asia")
        (node,) = KNOWN.all(tx, cluster="asia")
        assert (node.name, node.node_id) == ("gpu-9", "node_9")
        holding = HOLDINGS.find(tx, id=replica.id)
    assert holding is not None
    assert holding.cluster == "asia"


def reporting(world: World) -> dict[str, bool]:
    """Whether the node of each region reports."""
    with world.room.tx() as tx:
        return {node.region: node.reporting for node in NODES.all(tx)}


def test_the_nodes_of_a_cluster_that_is_not_in_the_list_any_more_are_silent(world: World) -> None:
    with world.room.tx() as tx:
        fleet.look_at_none_but(tx, ["us"])
    assert reporting(world) == {"eu": False, "us": True}


async def gateway() -> Gateway:
    """Where requests come from, as no cluster says it."""
    return Gateway()


async def test_a_cluster_that_has_not_listed_its_pods_may_run_any_and_so_may_one_that_is_not_in_the_list(
    world: World,
) -> None:
    async with aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(f"http://127.0.0.1:{free_port()}", session))
        regions = Regions(world.room.store, {})
        reconciler = Reconciler(world.room.store, kube, world.room.offer, gateway, [], regions, is_region=True)
        regions.join("us", Region(kube, reconciler, None))
        assert [regions.may_run(cluster, "relay-org-a", "rep-1") for cluster in ("us", "asia")] == [True, True]


async def test_a_cluster_that_has_listed_its_pods_and_not_its_vms_may_run_any_vm(world: World) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.Event().wait()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with Upstream(respond) as server, aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(server.url, session))
        regions = Regions(world.room.store, {})
        reconciler = Reconciler(world.room.store, kube, world.room.offer, gateway, [], regions, is_region=True)
        regions.join("us", Region(kube, reconciler, None))
        running = asyncio.create_task(reconciler.run())

        async def may_run() -> list[bool]:
            return [regions.may_run("us", "relay-org-a", name) for name in ("pod-1", "rep-1", "vm-1")]

        await eventually(may_run, lambda now: now == [False, False, True], what="its Pods are known, and no VM")
        running.cancel()
        await asyncio.wait([running])


async def test_the_nodes_of_a_region_whose_api_server_is_away_are_silent(world: World) -> None:
    async def reports() -> dict[str, bool]:
        return reporting(world)

    async with aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(f"http://127.0.0.1:{free_port()}", session))
        offer = replace(world.room.offer, cluster="us", first="eu")
        regions = Regions(world.room.store, {})
        reconciler = Reconciler(world.room.store, kube, offer, gateway, [], regions, is_region=True, away_seconds=0.1)
        assert await reports() == {"eu": True, "us": True}
        running = asyncio.create_task(reconciler.run())
        await eventually(reports, lambda now: now == {"eu": True, "us": False}, what="the region is silent")
        running.cancel()
        await asyncio.wait([running])

"""A cloud on another runtime: it says what is wanted, and takes nothing for done that was not reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud import app
from relay_localcloud.capacity.nodes import NewNode, add_node
from relay_localcloud.clusters import admission as cluster_admission
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import MINUTE
from relay_localcloud.kernel.store import Store
from relay_localcloud.providers import node_events
from relay_localcloud.replicas.states import ReplicaState, ReplicaTrigger
from relay_localcloud.runtimes.runtime import Expected, Facts, Noun, Wanted
from relay_localcloud.workloads import admission, moves, vm_logs, workloads
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.clusters import ClusterCreate, ClusterStatus
from relay_wire.pods import PodStatus
from relay_wire.vms import VmCreate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from relay_localcloud.cloud import Cloud
    from relay_localcloud.clusters.clusters import Cluster
    from relay_localcloud.kernel.store import Tx
    from relay_localcloud.runtimes.runtime import Labelled
    from relay_localcloud.workloads.workloads import Workload


@dataclass
class Silent:
    """Notes what is wanted, promises nothing and reports nothing."""

    wants: list[tuple[str, Wanted]] = field(default_factory=list)
    reports_by_itself: bool = True

    def lacks(self, noun: Noun) -> str | None:
        words = {Noun.PRIVILEGE: "privileged: not here.", Noun.KERNEL_MODULE: "There are no modules here."}
        return words.get(noun)

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        self.wants.append((holder_id, wanted))
        return Expected()

    def lingers(self, holder_id: str) -> bool:
        return False

    def holds_changed(self) -> None:
        """Do nothing: it has no nodes of its own."""

    def take_snapshot(self, due: str, snapshot_id: str, vm_id: str) -> None:
        """Do nothing: it is never taken."""

    def drop_snapshot(self, due: str, snapshot_id: str) -> None:
        """Do nothing."""

    def orphans(self) -> Sequence[Labelled]:
        return []

    def end_orphan(self, holder_id: str) -> bool:
        return False

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        return []


@dataclass(frozen=True)
class Room:
    """A cloud with one node, on a runtime of the test's own."""

    cloud: Cloud
    runtime: Silent
    tx: Tx
    organization_id: str
    node_id: str

    def vm(self) -> Workload:
        body = VmCreate(name="one", cloud_init="#!/bin/sh")
        room = admission.visible_node(self.tx, self.node_id, self.organization_id)
        words = dict.fromkeys(("tier", "capability_tier"), "standard")
        sized = {"volume_gb": 0, "disk_size_gb": 50, "http_port": 80}
        priced = {"gpu_model_id": room.gpu_model_id, "price_per_hour_cents": 1}
        fields: dict[str, Any] = {**words, **sized, **priced}
        return admission.create(self.tx, body, self.organization_id, room, 1, **fields)

    def cluster(self) -> Cluster:
        body = ClusterCreate(name="one", image_url="app:1", gpu_model_id="h100", replica_count=2)
        return cluster_admission.create(self.tx, self.cloud.vault, self.organization_id, body, 1.0)

    def started_cluster(self) -> Cluster:
        cluster = self.cluster()
        self.start(cluster)
        return self.found(cluster)

    def start(self, cluster: Cluster) -> None:
        for replica in cluster_moves.REPLICAS.of(self.tx, cluster.id):
            cluster_moves.REPLICAS.apply(self.tx, cluster, replica, ReplicaTrigger.STARTED)
        cluster_moves.settle(self.tx, self.found(cluster))

    def statuses(self, cluster: Cluster) -> list[ReplicaState]:
        return [replica.status for replica in cluster_moves.REPLICAS.of(self.tx, cluster.id)]

    def found(self, cluster: Cluster) -> Cluster:
        found = clusters.find(self.tx, cluster.id)
        assert found is not None
        return found

    def of(self, workload: Workload) -> Workload:
        found = workloads.find(self.tx, workload.id)
        assert found is not None
        return found


@pytest.fixture
def room() -> Iterator[Room]:
    store, runtime = Store.ephemeral(), Silent()
    cloud = app.open_cloud(store, app.Options(first_mode="frozen"), "http://localhost", "http://localhost")
    store.runtime_of = lambda _: runtime
    with store.transaction() as tx:
        founded, _ = organizations.seed(tx)
        node_id = add_node(tx, NewNode("h100", 8, "ams1", "eu-west", 512))
        yield Room(cloud, runtime, tx, founded.organization_id, node_id)
    store.close()


def test_a_vm_is_what_its_runtime_reports(room: Room) -> None:
    tx, vm = room.tx, room.vm()
    assert (vm.status, vm.placed_at, vm.due_at) == (PodStatus.DEPLOYING, None, None)
    moves.apply(tx, vm, Trigger.STARTED)
    stopping = moves.apply(tx, room.of(vm), Trigger.STOP)
    assert (stopping.status, stopping.due_at) == (PodStatus.STOPPING, None)
    assert moves.apply(tx, stopping, Trigger.STOPPED).status is PodStatus.STOPPED
    moves.apply(tx, room.of(vm), Trigger.TERMINATE)
    assert room.runtime.wants == [
        (vm.id, Wanted.STARTED),
        (vm.id, Wanted.STOPPED),
        (vm.id, Wanted.GONE),
        (vm.id, Wanted.DELETED),
    ]
    assert not due.is_scheduled(tx.connection, moves.TIMER, vm.id)


def test_a_vm_that_deploys_has_not_started_because_its_node_returned(room: Room) -> None:
    vm = room.vm()
    node_events.fell_silent(room.tx, room.node_id)
    node_events.returned(room.tx, room.node_id)
    assert room.of(vm).status is PodStatus.DEPLOYING


def test_what_is_interrupted_is_still_wanted_until_the_cloud_ends_it(room: Room) -> None:
    vm = room.vm()
    moves.apply(room.tx, vm, Trigger.NODE_LOST)
    assert room.of(vm).due_at == room.tx.now + moves.RETENTION
    assert due.is_scheduled(room.tx.connection, moves.TIMER, vm.id)
    assert room.runtime.wants == [(vm.id, Wanted.STARTED)]
    moves.apply(room.tx, room.of(vm), Trigger.TERMINATE)
    assert room.runtime.wants[1:] == [(vm.id, Wanted.DELETED)]
    assert not due.is_scheduled(room.tx.connection, moves.TIMER, vm.id)


def test_what_was_interrupted_runs_once_that_is_reported(room: Room) -> None:
    tx, vm = room.tx, room.vm()
    moves.apply(tx, vm, Trigger.STARTED)
    node_events.fell_silent(tx, room.node_id)
    moves.apply(tx, room.of(vm), Trigger.NODE_LOST)
    node_events.returned(tx, room.node_id)
    assert (room.of(vm).status, room.of(vm).due_at) == (PodStatus.DEPLOYING, None)
    assert not due.is_scheduled(tx.connection, moves.TIMER, vm.id)
    assert room.runtime.wants == [(vm.id, Wanted.STARTED)]
    assert moves.apply(tx, room.of(vm), Trigger.STARTED).status is PodStatus.RUNNING


def test_what_came_back_and_cannot_start_has_failed(room: Room) -> None:
    vm = room.vm()
    moves.apply(room.tx, vm, Trigger.NODE_LOST)
    node_events.returned(room.tx, room.node_id)
    failed = moves.apply(room.tx, room.of(vm), Trigger.FAILED, "no such image")
    assert (failed.status, failed.status_reason) == (PodStatus.FAILED, "no such image")


def test_a_running_vm_that_restarts_wants_its_container_again(room: Room) -> None:
    vm = room.vm()
    moves.apply(room.tx, vm, Trigger.STARTED)
    moves.apply(room.tx, room.of(vm), Trigger.CONTAINER_EXITED)
    assert moves.apply(room.tx, room.of(vm), Trigger.RESTART).status is PodStatus.RUNNING
    assert room.runtime.wants == [(vm.id, Wanted.STARTED), (vm.id, Wanted.RESTARTED)]


def test_a_lost_replica_serves_once_that_is_reported(room: Room) -> None:
    tx, cluster = room.tx, room.started_cluster()
    node_events.fell_silent(tx, room.node_id)
    assert room.statuses(cluster) == [ReplicaState.LOST] * 2
    node_events.returned(tx, room.node_id)
    assert room.statuses(cluster) == [ReplicaState.PROVISIONING] * 2
    room.start(cluster)
    assert room.statuses(cluster) == [ReplicaState.HEALTHY] * 2


def test_a_healthy_replica_that_restarts_wants_its_container_again_and_stays_as_it_is(room: Room) -> None:
    cluster = room.started_cluster()
    before = cluster_moves.REPLICAS.of(room.tx, cluster.id)
    room.runtime.wants.clear()
    room.tx.now += MINUTE
    cluster_moves.apply(room.tx, room.found(cluster), ClusterTrigger.RESTART)
    assert cluster_moves.REPLICAS.of(room.tx, cluster.id) == before
    assert room.runtime.wants == [(replica.id, Wanted.RESTARTED) for replica in before]


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"image_url": None}, "imageUrl: "), ({"privileged": True}, "privileged: "), ({"kernel_modules": ["nfs"]}, "no ")],
)
def test_a_cluster_that_cannot_run_as_it_is_asked_for_is_refused(room: Room, asked: dict[str, Any], words: str) -> None:
    body = ClusterCreate(name="one", image_url="app:1").model_copy(update=asked)
    with pytest.raises(ApiError, match=words):
        cluster_admission.create(room.tx, room.cloud.vault, room.organization_id, body, 1.0)


def test_no_boot_is_made_up(room: Room) -> None:
    vm = room.vm()
    moves.apply(room.tx, vm, Trigger.STARTED)
    assert vm_logs.lines_of(room.tx, vm.id) == []


def test_a_cluster_is_what_the_runtime_of_its_replicas_reports(room: Room) -> None:
    tx, cluster = room.tx, room.cluster()
    one, other = (replica.id for replica in cluster_moves.REPLICAS.of(tx, cluster.id))
    room.start(cluster)
    running = room.found(cluster)
    assert running.status is ClusterStatus.RUNNING
    stopping = cluster_moves.apply(tx, running, ClusterTrigger.STOP)
    cluster_moves.apply(tx, stopping, ClusterTrigger.STOPPED)
    assert room.runtime.wants == [
        (one, Wanted.STARTED),
        (other, Wanted.STARTED),
        (one, Wanted.STOPPED),
        (other, Wanted.STOPPED),
        (cluster.id, Wanted.STOPPED),
        (one, Wanted.DELETED),
        (other, Wanted.DELETED),
    ]

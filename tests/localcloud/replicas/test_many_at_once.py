"""Replicas to which the same happens at one instant: what concerns all of them is done once, not for each."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.capacity import claims, nodes, vacancies
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.clusters import moves
from relay_localcloud.clusters.clusters import CLUSTERS, Cluster
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.money import billing
from relay_localcloud.replicas import filling
from relay_localcloud.replicas.states import ReplicaTrigger
from relay_localcloud.runtimes.simulated import Simulated
from relay_wire.clusters import ClusterCreate, ClusterStatus
from tests.localcloud.support.statements import statements_of

if TYPE_CHECKING:
    from relay_localcloud.kernel.due import DueItem
    from relay_localcloud.kernel.store import Tx

COUNT = 40
NOW = 1_800_000_000 * SECOND
SHAPE = {"gpu_model_id": None, "gpus_per_replica": 0, "resource_size": "small", "replica_price_cents": 5}


def _create(tx: Tx, organization_id: str) -> Cluster:
    return CLUSTERS.insert(
        tx,
        **SHAPE,
        id="cluster_1",
        organization_id=organization_id,
        name="many",
        status=ClusterStatus.PROVISIONING,
        replica_count=COUNT,
        active_replicas=0,
        tier="standard",
        label="cluster-1",
        deploy_token="dt",
        created_as=ClusterCreate(name="many"),
        created_at=tx.now,
        updated_at=tx.now,
    )


def test_a_cluster_is_settled_once_after_all_its_replicas_started() -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    settled: list[int] = []

    def settle(tx: Tx, cluster: Cluster) -> Cluster:
        after = moves.settle(tx, cluster)
        settled.append(after.active_replicas)
        return after

    handlers = replace(moves.REPLICAS, settle=settle).handlers()
    with store.transaction(at=NOW) as tx:
        moves.settle(tx, _create(tx, organizations.found(tx, "o", 10**6, ()).organization_id))
    while (item := _next(store)) is not None and item.due_at < NOW + 60 * SECOND:
        with store.transaction(at=item.due_at) as tx:
            due.remove(tx.connection, item.id)
            if item.kind in handlers:
                handlers[item.kind](tx, item)
    assert settled == [COUNT]


@pytest.mark.parametrize("trigger", [ReplicaTrigger.STOP, ReplicaTrigger.TERMINATE])
def test_replicas_that_end_together_are_counted_together(trigger: ReplicaTrigger) -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    with store.transaction(at=NOW) as tx:
        cluster = moves.settle(tx, _create(tx, organizations.found(tx, "o", 10**6, ()).organization_id))
        moves.REPLICAS.to_all(tx, cluster, ReplicaTrigger.STARTED)
        assert billing.account(tx, cluster.organization_id).meter.burn == 5 * COUNT
    with store.transaction(at=NOW + SECOND) as tx:
        with statements_of(tx) as ran:
            moves.REPLICAS.to_all(tx, cluster, trigger)
        written = [said for said in ran if re.match(r"(INSERT INTO|UPDATE) (accounts|usage_days)", said)]
        assert len(written) == 2
        assert billing.account(tx, cluster.organization_id).meter.burn == 0


def _next(store: Store) -> DueItem | None:
    with store.transaction(at=NOW) as tx:
        return due.next_transition(tx.connection)


def test_of_those_who_wait_for_room_one_is_served_in_a_transaction_and_who_has_none_is_not_settled() -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    with store.transaction(at=NOW) as tx:
        organization_id = organizations.found(tx, "o", 10**6, ()).organization_id
        of_one = Demand(organization_id, "h100", 1)
        demands = {"large": Demand(organization_id, "h100", 8), **{f"small-{number}": of_one for number in range(3)}}
        for number, name in enumerate(demands, 1):
            vacancies.CLUSTERS.join(tx, number, name, "h100")
        nodes.add_node(tx, NewNode("h100", 2, "somewhere", "us", 1024))
        vacancies.announce_vacancy(tx, "h100")
    settled: list[list[str]] = []

    def settle(name: str) -> None:
        room = claims.find_room(tx.connection, demands[name])
        assert room is not None
        claims.claim(tx, room, demands[name].gpu_count, name, name)
        settled[-1].append(name)

    while (item := _next(store)) is not None and item.due_at <= NOW:
        with store.transaction(at=NOW) as tx:
            due.remove(tx.connection, item.id)
            if item.kind == vacancies.CLUSTERS.fill:
                settled.append([])
                waits = {name: _Waits(demand, name) for name, demand in demands.items()}
                filling.serve(tx, item, vacancies.CLUSTERS, waits.__getitem__, lambda each: settle(each.name))
    assert settled == [["small-0"], ["small-1"], []]


@dataclass(frozen=True)
class _Waits:
    demand: Demand
    name: str

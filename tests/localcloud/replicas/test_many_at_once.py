"""Replicas to which the same happens at one instant: what concerns all of them is done once, not for each."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.clusters import moves
from relay_localcloud.clusters.clusters import CLUSTERS, Cluster
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.money import billing
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

"""What becomes of a node while its Node is cordoned, or others use its GPUs, and afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from relay_localcloud.capacity.availability import by_model
from relay_localcloud.capacity.nodes import NODES
from relay_localcloud.capacity.reservations import UNITS
from relay_localcloud.http.errors import ApiError
from relay_localcloud.providers import node_events
from relay_localcloud.runtimes.kubernetes import fleet
from relay_localcloud.runtimes.kubernetes.nodes import NodeSeen
from relay_localcloud.workloads.workloads import POD, WORKLOADS
from relay_wire.clusters import ClusterStatus
from relay_wire.pods import PodStatus
from tests.localcloud.runtimes.kubernetes.rows import MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay_localcloud.capacity.nodes import Node
    from relay_localcloud.kernel.store import Tx
    from relay_wire.provider import NodeStatus
    from tests.localcloud.runtimes.kubernetes.rows import Rows


def node(room: Rows) -> Node:
    """The only node."""
    with room.tx() as tx:
        (found,) = NODES.all(tx)
    return found


def set_by_owner(room: Rows, status: NodeStatus) -> None:
    node_id = node(room).id
    with room.tx() as tx:
        node_events.set_by_owner(tx, node_id, status)


def test_who_waits_for_room_is_served_once_the_node_is_uncordoned(room: Rows) -> None:
    other = room.cluster(gpusPerReplica=4)
    waiting = room.cluster(name="other", gpusPerReplica=4, replicaCount=2)
    room.node(cordoned=True)
    room.end(other)
    room.settle()
    assert len(room.replicas(waiting)) == 1
    room.node()
    room.settle()
    assert len(room.replicas(waiting)) == 2


def test_gpus_that_others_release_after_the_first_look_serve_who_waits(room: Rows) -> None:
    late = replace(MACHINE, name="gpu-2")
    room.node(replace(late, gpu_count=6))
    waiting = room.cluster(gpusPerReplica=4, replicaCount=2)
    assert len(room.replicas(waiting)) == 1
    room.node(late)
    room.settle()
    assert len(room.replicas(waiting)) == 2
    with pytest.raises(ApiError, match="No node has 1 x h100 free now"):
        room.cluster(name="other")


def test_gpus_that_others_take_later_are_not_placed_on(room: Rows) -> None:
    room.cluster(gpusPerReplica=4)
    room.node(replace(MACHINE, gpu_count=4))
    with pytest.raises(ApiError, match="No node has 1 x h100 free now"):
        room.cluster(name="other")
    room.node(replace(MACHINE, gpu_count=5))
    assert len(room.replicas(room.cluster(name="other"))) == 1


@pytest.mark.parametrize(("left", "total", "free"), [(8, 8, 6), (6, 6, 4), (1, 2, 0)])
def test_availability_counts_what_is_free_or_claimed_and_not_what_others_take(
    room: Rows, left: int, total: int, free: int
) -> None:
    room.cluster(gpusPerReplica=2)
    room.node(replace(MACHINE, gpu_count=left))
    with room.tx() as tx:
        modes = by_model(tx.connection, room.organization_id)["h100"]
    for (shown,) in (modes.vm, modes.cluster):
        assert (shown.total_gpus, shown.free_gpus) == (total, free)


def test_holders_keep_their_gpus_while_a_node_offers_none_and_nobody_is_placed_on_it(room: Rows) -> None:
    first, second = (room.cluster(name=name, gpusPerReplica=4) for name in ("first", "second"))
    room.node(replace(MACHINE, gpu_count=0))  # its device plugin starts again
    room.end(second)
    room.settle()
    with pytest.raises(ApiError, match="No node has 1 x h100 free now"):
        room.cluster(name="other")
    assert len(room.replicas(first)) == 1
    room.node()
    assert (node(room).gpu_count, node(room).free_count) == (8, 4)
    room.end(first)
    assert node(room).free_count == 8


@pytest.mark.parametrize("hold", ["maintenance", "draining"])
def test_a_hold_that_the_owner_set_outlives_a_cordon(room: Rows, hold: NodeStatus) -> None:
    set_by_owner(room, hold)
    room.node(cordoned=True)
    room.node()
    assert node(room).status == hold


@pytest.mark.parametrize("hold", ["maintenance", "draining"])
def test_a_hold_that_the_owner_set_during_a_cordon_outlives_it(room: Rows, hold: NodeStatus) -> None:
    room.node(cordoned=True)
    assert node(room).status == "draining"
    set_by_owner(room, hold)
    room.node()
    assert node(room).status == hold


def test_a_cordon_lasts_whatever_the_owner_releases(room: Rows) -> None:
    room.node(cordoned=True)
    set_by_owner(room, "online")
    assert (node(room).status, node(room).schedulable) == ("draining", False)
    room.node(cordoned=True)
    assert node(room).status == "draining"
    room.node()
    assert (node(room).status, node(room).schedulable) == ("online", True)


@pytest.mark.parametrize(("cordoned", "status"), [(True, "online"), (False, "draining")])
def test_a_cordon_of_a_state_from_before_they_had_a_name_ends_and_a_hold_of_its_owner_stays(
    room: Rows, cordoned: bool, status: str
) -> None:
    set_by_owner(room, "draining")
    with room.tx() as tx:
        tx.connection.execute(text("ALTER TABLE cluster_nodes ADD COLUMN cordoned BOOLEAN NOT NULL DEFAULT 0"))
        tx.connection.execute(text(f"UPDATE cluster_nodes SET cordoned = {cordoned}"))
        for _ in range(2):
            fleet.name_cordons(tx)
    room.node()
    assert node(room).status == status


def test_a_node_that_nothing_uses_is_of_the_model_that_its_labels_say_now(room: Rows) -> None:
    four = replace(MACHINE, gpu_count=4)
    room.node(four, model="l40s")
    assert (node(room).gpu_model_id, node(room).gpu_count, node(room).free_count) == ("l40s", 4, 4)
    assert len(room.replicas(room.cluster(gpuModelId="l40s"))) == 1


def a_stopped_pod(tx: Tx, organization_id: str, node_id: str) -> None:
    kept: dict[str, Any] = {"kind": POD, "status": PodStatus.STOPPED, "changed_at": 0, "created_at": 0, "gpu_count": 1}
    sold = {"price_per_hour_cents": 1, "http_port": 80, "tier": "", "capability_tier": "", "compute_class": ""}
    named = {"id": "pod_1", "name": "trainer", "label": "trainer", "public": False, "request": "{}"}
    WORKLOADS.insert(tx, organization_id=organization_id, node_id=node_id, **kept, **sold, **named)


def a_reserved_unit(tx: Tx, _: str, node_id: str) -> None:
    UNITS.insert(tx, node_id=node_id, unit=0, reservation_id="reservation_1", lent=False, free=True)


@pytest.mark.parametrize("use", [a_stopped_pod, a_reserved_unit])
def test_a_node_keeps_the_model_of_what_was_sold_on_it_even_if_that_does_not_run(
    room: Rows, use: Callable[[Tx, str, str], None]
) -> None:
    node_id = node(room).id
    with room.tx() as tx:
        use(tx, room.organization_id, node_id)
    room.node(model="l40s")
    assert (node(room).gpu_model_id, node(room).status) == ("h100", "draining")


def test_a_node_keeps_the_model_with_which_it_was_sold_and_takes_nothing_on_until_that_has_ended(
    room: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    cluster_id = room.cluster()
    for _ in range(2):
        room.node(model="l40s")
        assert (node(room).gpu_model_id, node(room).status) == ("h100", "draining")
    (said,) = caplog.messages
    assert "its labels say l40s, but what is on it was sold as h100" in said
    room.node()
    assert node(room).status == "online"
    room.node(model="l40s")
    room.end(cluster_id)
    room.node(model="l40s")
    assert (node(room).gpu_model_id, node(room).status) == ("l40s", "online")


def test_what_runs_on_a_node_that_loses_its_labels_goes_on_and_nothing_starts_there(
    room: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    cluster_id = room.cluster()
    room.runs(room.replica(cluster_id).id)
    with room.tx() as tx:
        assert fleet.models(tx, "cluster") == {MACHINE.name: "h100"}
        assert fleet.models(tx, "another") == {}
    for _ in range(2):
        room.look(NodeSeen(MACHINE, "h100", "eu", "eu-1", cordoned=True, unlabelled="Its labels match no entry."))
    assert room.status(cluster_id) is ClusterStatus.RUNNING
    assert node(room).status == "draining"
    assert caplog.messages == ["gpu-1: Its labels match no entry. What is on it goes on, and nothing starts there"]
    room.node()
    assert node(room).status == "online"
    set_by_owner(room, "removed")
    with room.tx() as tx:
        assert fleet.models(tx, "cluster") == {}

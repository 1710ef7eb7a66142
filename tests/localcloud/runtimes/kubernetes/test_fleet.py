"""What becomes of a node while its Node is cordoned, and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.capacity.nodes import NODES
from relay_localcloud.providers import node_events

if TYPE_CHECKING:
    from relay_localcloud.capacity.nodes import Node
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


@pytest.mark.parametrize("hold", ["maintenance", "draining"])
def test_a_hold_that_the_owner_set_outlives_a_cordon(room: Rows, hold: NodeStatus) -> None:
    set_by_owner(room, hold)
    room.node(cordoned=True)
    room.node()
    assert node(room).status == hold


def test_a_hold_that_the_owner_set_during_a_cordon_outlives_it(room: Rows) -> None:
    room.node(cordoned=True)
    assert node(room).status == "draining"
    set_by_owner(room, "maintenance")
    room.node()
    assert node(room).status == "maintenance"


def test_a_cordoned_node_is_held_again_after_its_owner_releases_it(room: Rows) -> None:
    room.node(cordoned=True)
    set_by_owner(room, "online")
    room.node(cordoned=True)
    assert node(room).status == "draining"
    room.node()
    assert node(room).status == "online"

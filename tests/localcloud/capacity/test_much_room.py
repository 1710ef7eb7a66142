"""Finding room reads no more of a cloud with many nodes, or for many replicas, than it must."""

from __future__ import annotations

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.nodes import COMMUNITY, NewNode
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.kernel.store import Store
from tests.localcloud.support.statements import statements_of
from tests.localcloud.support.stints import steps

NODE = NewNode("h100", 8, "somewhere", "us", 1024)


@pytest.mark.parametrize("pool", [None, COMMUNITY, "none is in it"])
def test_room_is_found_among_many_nodes_as_fast_as_among_few(pool: str | None) -> None:
    took: list[int] = []
    for count in (10, 500):
        with Store.ephemeral().transaction(at=0) as tx:
            for _ in range(count):
                nodes.add_node(tx, NODE)
            demand = Demand("org", "h100", 1, node_pool=pool)
            assert claims.find_room(tx.connection, demand) is not None
            took.append(steps(tx, lambda: claims.find_room(tx.connection, demand)))  # noqa: B023 - called at once
    assert took[0] == pytest.approx(took[1], rel=0.2)


def test_a_node_is_filled_before_the_next_is_looked_for() -> None:
    with Store.ephemeral().transaction(at=0) as tx:
        for _ in range(3):
            nodes.add_node(tx, NODE)
        demand, room = Demand("org", "h100", 3), None
        found: list[str] = []
        with statements_of(tx) as ran:
            while (room := claims.next_room(tx.connection, demand, room)) is not None:
                claims.claim(tx, room, 3, f"holder-{len(found)}", "workload")
                found.append(room.id)
    assert [found.count(node) for node in dict.fromkeys(found)] == [2, 2, 2]
    assert sum("ORDER BY nodes.free_count" in said for said in ran) == 2 * 4

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
HOLDERS = [f"holder-{number}" for number in range(12)]


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
        with statements_of(tx) as ran:
            found = claims.claim_each(tx, Demand("org", "h100", 3), "workload", HOLDERS)
    assert [found.count(node) for node in dict.fromkeys(found)] == [2, 2, 2]
    assert sum("ORDER BY nodes.free_count" in said for said in ran) == 2 * 4


def test_the_units_of_a_node_are_read_once_however_many_take_them() -> None:
    with Store.ephemeral().transaction(at=0) as tx:
        nodes.add_node(tx, NODE)
        demand = Demand("org", "h100", 1)
        claims.claim_each(tx, demand, "another", ["holder"])
        with statements_of(tx) as ran:
            found = claims.claim_each(tx, demand, "workload", HOLDERS)
        assert [claim.holder_id for claim in claims.CLAIMS.all(tx)] == ["holder", *HOLDERS[:7]]
    assert len(found) == 7
    assert sum(said.startswith("SELECT claims.unit") for said in ran) == 1
    assert sum(said.startswith("UPDATE nodes") for said in ran) == 1


def test_what_is_released_at_once_is_returned_to_its_nodes_once() -> None:
    with Store.ephemeral().transaction(at=0) as tx:
        for _ in range(2):
            nodes.add_node(tx, NODE)
        claims.claim_each(tx, Demand("org", "h100", 1), "workload", HOLDERS)
        with statements_of(tx) as ran:
            claims.release(tx, *HOLDERS)
        assert sum(said.startswith("DELETE FROM claims") for said in ran) == len(HOLDERS)
        assert sum(said.startswith("UPDATE nodes") for said in ran) == 2
        assert [room.free_count for room in nodes.schedulable_rooms(tx.connection)] == [8, 8]

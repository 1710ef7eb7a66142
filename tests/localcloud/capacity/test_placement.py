"""Placement: its pure rules, and that no history of claims and releases gives a GPU to two."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from sqlalchemy import select

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.availability import NodeCapacity, availability
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.capacity.placement import Demand, NodeRoom, choose_node, choose_units
from relay_localcloud.kernel.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOM = NodeRoom("node_1", "h100", 8, 8, 800, "eu-west", "", schedulable=True)
DEMAND = Demand("org_1", "h100", 2)


def rooms() -> st.SearchStrategy[list[NodeRoom]]:
    room = st.builds(
        lambda number, model, count, taken, ram, region, owner, up: NodeRoom(
            f"node_{number}", model, count, max(0, count - taken), ram, region, owner, schedulable=up
        ),
        st.integers(0, 99),
        st.sampled_from(["h100", "a100"]),
        st.integers(1, 8),
        st.integers(0, 8),
        st.integers(8, 64),
        st.sampled_from(["eu", "us"]),
        st.sampled_from(["", "org_1", "org_2"]),
        st.booleans(),
    )
    return st.lists(room, max_size=8, unique_by=lambda room: room.id)


def demands() -> st.SearchStrategy[Demand]:
    return st.builds(
        Demand,
        st.just("org_1"),
        st.sampled_from(["h100", "a100"]),
        st.integers(1, 8),
        st.integers(0, 32),
        st.sampled_from([(), ("eu",), ("us", "eu")]),
        st.booleans(),
    )


def fits(room: NodeRoom, demand: Demand) -> bool:
    """What the specification asks of a node, written down once more."""
    return (
        room.schedulable
        and room.gpu_model_id == demand.gpu_model_id
        and room.organization_id in {"", demand.organization_id}
        and room.free_count >= demand.gpu_count
        and room.ram_gb * demand.gpu_count // room.gpu_count >= demand.shm_gb
        and (demand.allow_fallback or not demand.preferred_regions or room.region in demand.preferred_regions)
    )


@given(rooms(), demands())
def test_a_node_is_found_exactly_where_one_fits(candidates: list[NodeRoom], demand: Demand) -> None:
    chosen = choose_node(candidates, demand)
    if chosen is None:
        assert not any(fits(room, demand) for room in candidates)
    else:
        assert fits(chosen, demand)


@given(rooms(), demands())
def test_own_nodes_come_first(candidates: list[NodeRoom], demand: Demand) -> None:
    chosen = choose_node(candidates, demand)
    if chosen is not None and any(room.organization_id and fits(room, demand) for room in candidates):
        assert chosen.organization_id == demand.organization_id


def test_the_tightest_fit_keeps_whole_nodes_free() -> None:
    tight = replace(ROOM, id="node_2", free_count=2)
    loose = replace(ROOM, id="node_3", free_count=3)
    assert choose_node([ROOM, loose, tight], DEMAND) == tight


def test_regions_are_taken_in_the_order_of_preference() -> None:
    demand = replace(DEMAND, preferred_regions=("us-west", "eu-west"))
    west, east = replace(ROOM, id="node_2", region="us-west"), replace(ROOM, id="node_3", region="us-east")
    assert choose_node([ROOM, west, east], demand) == west
    assert choose_node([ROOM, east], demand) == ROOM
    assert choose_node([east], demand) == east
    assert choose_node([east], replace(demand, allow_fallback=False)) is None


def test_units_are_the_lowest_free_ones() -> None:
    assert choose_units((1, 3, 4, 5), 3) == (1, 3, 4)


def test_too_few_free_units_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 units wanted, 1 free"):
        choose_units((1,), 2)


@pytest.mark.parametrize(
    ("free", "tiles", "most", "counts"),
    [
        ([8, 3], None, 8, (1, 2, 3, 4, 5, 6, 7, 8)),
        ([5, 3], (1, 2, 4, 8), 4, (1, 2, 4)),
        ([0, 0], (1, 2, 4, 8), 0, ()),
        ([], None, 0, ()),
    ],
)
def test_availability_is_bound_by_the_best_single_node(
    free: list[int], tiles: Sequence[int] | None, most: int, counts: tuple[int, ...]
) -> None:
    now = availability([NodeCapacity(f"node_{number}", "eu", 8, count) for number, count in enumerate(free)], tiles)
    assert (now.total_gpus, now.free_gpus) == (8 * len(free), sum(free))
    assert (now.max_placeable_gpus, now.placeable_gpu_counts) == (most, counts)


@dataclass(frozen=True)
class Held:
    holder_id: str
    gpu_count: int


class History(RuleBasedStateMachine):
    """Any history of nodes that come, fall silent and return, and of holders that come and go."""

    holders = Bundle("holders")
    known_nodes = Bundle("known_nodes")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store.ephemeral()
        self.expected: dict[str, int] = {}
        self.made = 0

    def teardown(self) -> None:
        self.store.close()

    @initialize(target=known_nodes)
    def first_node(self) -> str:
        return self.add_node_of(4)

    @rule(target=known_nodes, gpu_count=st.integers(1, 8))
    def node_comes(self, gpu_count: int) -> str:
        return self.add_node_of(gpu_count)

    @rule(node_id=known_nodes, reporting=st.booleans())
    def node_reports(self, node_id: str, reporting: bool) -> None:
        with self.store.transaction() as tx:
            nodes.set_standing(tx, node_id, reporting=reporting)

    @rule(target=holders, gpu_count=st.integers(1, 8))
    def holder_comes(self, gpu_count: int) -> Held:
        self.made += 1
        held = Held(f"pod_{self.made}", gpu_count)
        demand = Demand("org_1", "h100", gpu_count)
        with self.store.transaction() as tx:
            every = nodes.rooms_for(tx.connection, demand)
            room = claims.find_room(tx.connection, demand)
            assert (room is None) == (choose_node(every, demand) is None), "the shortlist misses a node"
            if room is not None:
                claims.claim(tx, room, gpu_count, held.holder_id, held.holder_id)
                self.expected[held.holder_id] = gpu_count
        return held

    @rule(held=consumes(holders))
    def holder_goes(self, held: Held) -> None:
        with self.store.transaction() as tx:
            claims.release(tx, held.holder_id)
        self.expected.pop(held.holder_id, None)

    @rule(gpu_count=st.integers(1, 8))
    def holder_comes_but_its_transaction_fails(self, gpu_count: int) -> None:
        with suppress(ConnectionError), self.store.transaction() as tx:
            room = claims.find_room(tx.connection, Demand("org_1", "h100", gpu_count))
            if room is not None:
                claims.claim(tx, room, gpu_count, "pod_lost", "pod_lost")
            raise ConnectionError

    @invariant()
    def every_holder_has_its_units_on_one_node(self) -> None:
        with self.store.transaction() as tx:
            rows = tx.connection.execute(select(claims.claims)).mappings().all()
        held: dict[str, list[str]] = {}
        for row in rows:
            held.setdefault(row["holder_id"], []).append(row["node_id"])
        assert {holder: len(homes) for holder, homes in held.items()} == self.expected
        assert all(len(set(homes)) == 1 for homes in held.values())

    @invariant()
    def free_counts_agree_with_the_claims(self) -> None:
        with self.store.transaction() as tx:
            holders = claims.unit_holders(tx)
            for row in nodes.NODES.all(tx, removed_at=None):
                taken = [unit for node_id, unit in holders if node_id == row.id]
                assert row.free_count == row.gpu_count - len(taken)
                assert all(0 <= unit < row.gpu_count for unit in taken)

    def add_node_of(self, gpu_count: int) -> str:
        with self.store.transaction() as tx:
            return nodes.add_node(tx, NewNode("h100", gpu_count, "ams1", "eu-west", 512))


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=40, stateful_step_count=25)

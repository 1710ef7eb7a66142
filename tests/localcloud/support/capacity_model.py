"""Who may have which GPU, and how much of it is free: the rules of placement written down once more, unit by unit.

Nothing here asks the cloud: `holders` is what its nodes show, and all that follows from it is computed from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Unit = tuple[str, int]

VM_COUNTS = (1, 2, 4, 8)
"""What H100s can be passed through in."""


@dataclass
class Node:
    """A node; `owner` may reserve its units, `exclusive` says that nobody else has the others."""

    id: str
    gpu_count: int
    owner: str | None
    exclusive: bool
    reporting: bool = True
    held: bool = False

    @property
    def takes_on(self) -> bool:
        return self.reporting and not self.held

    def is_open_to(self, organization: str) -> bool:
        return not self.exclusive or self.owner == organization


@dataclass
class Reserved:
    """A reservation; instants are seconds since the example began."""

    id: str
    node_id: str
    units: frozenset[int]
    allowed: frozenset[str]
    managers: frozenset[str]
    start: int
    end: int | None
    released: bool = False

    def has_begun(self, now: int) -> bool:
        return self.start <= now and not self.is_over(now)

    def is_over(self, now: int) -> bool:
        return self.end is not None and self.end <= now

    def meets(self, start: int, end: int | None) -> bool:
        before = end is not None and end <= self.start
        after = self.end is not None and self.end <= start
        return not (before or after)


@dataclass(frozen=True)
class Wish:
    """What a workload asks for: so many units of one node, of this very one where it is named."""

    organization: str
    gpu_count: int
    spot: bool = False
    node_id: str | None = None


@dataclass(frozen=True)
class Counts:
    """Units of one node, as one organization sees them in one mode."""

    total: int
    free: int
    spot_free: int
    reserved_free: int


@dataclass
class Capacity:
    """Every node and reservation, and who holds which unit."""

    nodes: dict[str, Node] = field(default_factory=dict)
    reservations: dict[str, Reserved] = field(default_factory=dict)
    holders: dict[Unit, str] = field(default_factory=dict)
    now: int = 0

    def reservation_of(self, unit: Unit) -> Reserved | None:
        """The reservation that has the unit at this instant."""
        having = [
            reserved
            for reserved in self.reservations.values()
            if reserved.node_id == unit[0] and unit[1] in reserved.units and reserved.has_begun(self.now)
        ]
        assert len(having) < 2, "a unit is reserved twice"
        return having[0] if having else None

    def may_have(self, wish: Wish, unit: Unit) -> bool:
        """Whether the unit, were it free, is one that the wish could be given."""
        if wish.node_id not in {None, unit[0]}:
            return False
        reserved = self.reservation_of(unit)
        if reserved is None:
            return self.nodes[unit[0]].is_open_to(wish.organization)
        if reserved.released:
            return wish.spot
        return wish.node_id is not None and wish.organization in reserved.allowed

    def room(self, wish: Wish, node_id: str) -> int:
        """How many units of a node the wish could be given now."""
        return sum(self.may_have(wish, unit) for unit in self.units(node_id) if unit not in self.holders)

    def fits(self, wish: Wish) -> bool:
        """Whether some node has room for the wish now."""
        return any(node.takes_on and self.room(wish, node.id) >= wish.gpu_count for node in self.nodes.values())

    def sees(self, wish: Wish) -> bool:
        """Whether the node that the wish names is there for its organization."""
        node = self.nodes.get(wish.node_id or "")
        return node is not None and (
            node.is_open_to(wish.organization) or any(self.may_have(wish, unit) for unit in self.units(node.id))
        )

    def units(self, node_id: str) -> Iterator[Unit]:
        return ((node_id, number) for number in range(self.nodes[node_id].gpu_count))

    def availability(self, organization: str, mode: str) -> dict[str, object]:
        """What section 2 says of a model's capacity, as the organization must see it."""
        counts = {node.id: self._counts(organization, mode, node.id) for node in self.nodes.values() if node.takes_on}
        shown = {
            node_id: count
            for node_id, count in counts.items()
            if self.nodes[node_id].is_open_to(organization) or count.total or count.spot_free
        }
        free = max((count.free for count in shown.values()), default=0)
        spot = max((count.free + count.spot_free for count in shown.values()), default=0)
        lattice = VM_COUNTS if mode == "vm" else tuple(range(1, spot + 1))
        placeable = [count for count in lattice if count <= free]
        return {
            "totalGpus": sum(count.total for count in shown.values()),
            "freeGpus": sum(count.free for count in shown.values()),
            "maxPlaceableGpus": max(placeable, default=0),
            "placeableGpuCounts": placeable,
            "spotFreeGpus": sum(count.spot_free for count in shown.values()),
            "spotPlaceableGpuCounts": [count for count in lattice if count <= spot],
            "reservedFreeGpus": sum(count.reserved_free for count in shown.values()),
            "nodes": [
                {
                    "nodeId": node_id,
                    "region": "eu-west",
                    "totalGpus": count.total,
                    "freeGpus": count.free,
                    "spotFreeGpus": count.spot_free,
                    "reservedFreeGpus": count.reserved_free,
                }
                for node_id, count in shown.items()
            ],
        }

    def pods(self, organization: str) -> tuple[int, int]:
        """`freeUnits` and `maxGpuCount` of the capacity of pods."""
        wish = Wish(organization, 1)
        free = [self.room(wish, node.id) for node in self.nodes.values() if node.takes_on]
        return sum(free), max(free, default=0)

    def is_lent(self, unit: Unit) -> bool:
        """Whether the unit is spot capacity now."""
        reserved = self.reservation_of(unit)
        return reserved is not None and reserved.released

    def _counts(self, organization: str, mode: str, node_id: str) -> Counts:
        wish = Wish(organization, 1, node_id=node_id if mode == "vm" else None)
        mine = [unit for unit in self.units(node_id) if self.may_have(wish, unit)]
        free = [unit for unit in mine if unit not in self.holders]
        lent = [unit for unit in self.units(node_id) if self.is_lent(unit) and unit not in self.holders]
        reserved = [unit for unit in free if self.reservation_of(unit) is not None]
        return Counts(len(mine), len(free), len(lent), len(reserved))

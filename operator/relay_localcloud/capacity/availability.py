"""How much of a GPU model an organization can have now, per consumption mode (section 2, "Catalog availability").

Free means that a request of the organization can get it: unreserved units on nodes that it may use, and units reserved
for it; the latter count only in the mode `vm`, since only a VM that names its node gets them. Units lent to spot are
counted separately. Nodes that accept no workloads (silent, held or removed) are not counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.placement import NodeRoom
from relay_localcloud.capacity.reservations import ReservedUnit


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node as one organization sees it: how many units the organization may have, and how many it can have now."""

    node_id: str
    region: str
    total_gpus: int
    free_gpus: int
    reserved_free_gpus: int = 0  # part of `free_gpus`
    spot_free_gpus: int = 0  # not part of `free_gpus`


@dataclass(frozen=True, slots=True)
class Availability:
    """How much of one GPU model an organization can place now, in one consumption mode."""

    total_gpus: int
    free_gpus: int
    max_placeable_gpus: int
    placeable_gpu_counts: tuple[int, ...]
    spot_free_gpus: int
    spot_placeable_gpu_counts: tuple[int, ...]
    reserved_free_gpus: int


def availability(capacities: Sequence[NodeCapacity], tiles: Sequence[int] | None = None) -> Availability:
    """Add up nodes; `tiles` are the only allowed counts, None allows all. A workload is on one node."""

    def placeable(free: Iterable[int]) -> tuple[int, ...]:
        most = max(free, default=0)
        return tuple(count for count in tiles or range(1, most + 1) if count <= most)

    counts = placeable(node.free_gpus for node in capacities)
    return Availability(
        total_gpus=sum(node.total_gpus for node in capacities),
        free_gpus=sum(node.free_gpus for node in capacities),
        max_placeable_gpus=counts[-1] if counts else 0,
        placeable_gpu_counts=counts,
        spot_free_gpus=sum(node.spot_free_gpus for node in capacities),
        spot_placeable_gpu_counts=placeable(node.free_gpus + node.spot_free_gpus for node in capacities),
        reserved_free_gpus=sum(node.reserved_free_gpus for node in capacities),
    )


@dataclass(slots=True)
class Modes:
    """The nodes of a model that have capacity for an organization, in each consumption mode."""

    vm: list[NodeCapacity] = field(default_factory=list)
    cluster: list[NodeCapacity] = field(default_factory=list)


def by_model(connection: Connection, organization_id: str) -> Mapping[str, Modes]:
    """An organization's nodes of every model with a node that accepts workloads."""
    reserved: dict[str, list[ReservedUnit]] = {}
    for unit in reservations.every(connection, organization_id):
        reserved.setdefault(unit.node_id, []).append(unit)
    claimed = claims.claimed_by_node(connection)
    models: defaultdict[str, Modes] = defaultdict(Modes)
    for room in nodes.schedulable_rooms(connection):
        units, is_open = reserved.get(room.id, ()), room.is_open_to(organization_id)
        _add(models[room.gpu_model_id], room, claimed.get(room.id, 0), units, is_open)
    return models


def _add(modes: Modes, room: NodeRoom, claimed: int, units: Sequence[ReservedUnit], is_open: bool) -> None:
    counted = Counter(_kind(unit) for unit in units)
    free_reserved, spot_free = counted["allowed", True], counted["lent", True]
    common = NodeCapacity(
        node_id=room.id,
        region=room.region,
        total_gpus=room.free_count + claimed - sum(not unit.free for unit in units) if is_open else 0,
        free_gpus=room.free_count if is_open else 0,
        spot_free_gpus=spot_free,
    )
    with_reserved = replace(
        common,
        total_gpus=common.total_gpus + free_reserved + counted["allowed", False],
        free_gpus=common.free_gpus + free_reserved,
        reserved_free_gpus=free_reserved,
    )
    if is_open or with_reserved.total_gpus or spot_free:
        modes.vm.append(with_reserved)
    if is_open or spot_free:
        modes.cluster.append(common)


def _kind(unit: ReservedUnit) -> tuple[str, bool]:
    if unit.lent:
        return "lent", unit.free
    return ("allowed" if unit.allowed else "others'"), unit.free

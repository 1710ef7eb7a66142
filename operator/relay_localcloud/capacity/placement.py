"""Where a workload is placed, decided without I/O.

All GPUs of one pod, VM or replica are whole units of ONE node, and a unit has one holder (section 2, "Pod").
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SPOT: Final = "spot"
"""The tier whose workloads may use lent units until their owner reclaims them (section 2)."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod, VM or replica needs of a single node; `shm_gb` is shared memory in GiB, `spot` accepts lent units.

    `node_pool` limits it to the nodes of a pool. `counted_as` is the field in which the caller requested GPUs.
    """

    organization_id: str
    gpu_model_id: str
    gpu_count: int
    shm_gb: int = 0
    preferred_regions: tuple[str, ...] = ()
    allow_fallback: bool = True
    spot: bool = False
    node_pool: str | None = None
    counted_as: str = "gpuCount"


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node as placement sees it; `organization_id` is its owner, empty for the platform's own nodes.

    `free_count` counts the unreserved free units, `granted` are further free units that this demand may have: reserved
    for its organization, or lent to spot.
    """

    id: str
    gpu_model_id: str
    gpu_count: int
    free_count: int
    ram_gb: int
    region: str
    organization_id: str
    schedulable: bool
    granted: tuple[int, ...] = ()

    @property
    def placeable_count(self) -> int:
        """How many units the demand can have now."""
        return self.free_count + len(self.granted)

    def is_open_to(self, organization_id: str) -> bool:
        """Whether the organization may use the node's unreserved units."""
        return self.organization_id in ("", organization_id)


def could_ever_hold(room: NodeRoom, demand: Demand) -> bool:
    """Whether the node could hold the demand if it were empty and up.

    Shared memory is bounded by the GPU-proportional share of the node's RAM (section 2, `shmSizeGb`).
    """
    return (
        room.gpu_model_id == demand.gpu_model_id
        and room.gpu_count >= demand.gpu_count
        and room.ram_gb * demand.gpu_count // room.gpu_count >= demand.shm_gb
    )


def choose_node(rooms: Iterable[NodeRoom], demand: Demand) -> NodeRoom | None:
    """The node to place the demand on, or None if none has room.

    The organization's own nodes come first, then its regions in the order of preference, then units that are granted
    to it, then the tightest fit, so that whole nodes stay free for demands that need them.
    """
    regions = demand.preferred_regions
    rank = {region: position for position, region in reversed(list(enumerate(regions)))}
    fitting = [
        room
        for room in rooms
        if room.schedulable
        and room.placeable_count >= demand.gpu_count
        and (room.granted or room.is_open_to(demand.organization_id))
        and could_ever_hold(room, demand)
        and (demand.allow_fallback or not regions or room.region in rank)
    ]

    def preference(room: NodeRoom) -> tuple[bool, int, bool, int, str]:
        foreign = room.organization_id != demand.organization_id
        return (foreign, rank.get(room.region, len(rank)), not room.granted, room.placeable_count, room.id)

    return min(fitting, key=preference, default=None)


def choose_units(free: Sequence[int], wanted: int) -> tuple[int, ...]:
    """The lowest free unit indexes of a node, `wanted` of them; `free` has them in order.

    Raises ValueError if fewer are free, which means that the node's free count and its units disagree.
    """
    if len(free) < wanted:
        raise ValueError(f"{wanted} units wanted, {len(free)} free")
    return tuple(free[:wanted])

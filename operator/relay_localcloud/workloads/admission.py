"""The conditions for a new pod or VM: names, funds, room; then its row, its GPUs and its start."""

import json
from collections.abc import Callable
from typing import Final

from relay_localcloud.capacity import addresses, claims, reservations
from relay_localcloud.capacity.catalog import (
    CPU_SIZES,
    EVERY_COUNT,
    LOCATIONS,
    GpuModel,
    models_cheapest_first,
)
from relay_localcloud.capacity.claims import no_room, saturated
from relay_localcloud.capacity.placement import SPOT, Demand, NodeRoom, could_ever_hold
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.quotas import quotas
from relay_localcloud.runtimes.runtime import Wanted
from relay_localcloud.workloads import moves
from relay_localcloud.workloads.workloads import POD, VM, WORKLOADS, Workload, kept_gb
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate, PodStatus
from relay_wire.vms import VmCreate

TIERS: Final = frozenset({"standard", SPOT})
VM_TIERS: Final = TIERS | {"beta", "production"}
LARGEST_DISK_GB: Final = 65_536
_QUOTAS: Final = {POD: (quotas.PODS, quotas.TERMINATED_PODS), VM: (quotas.VMS, quotas.TERMINATED_VMS)}
GPU_SIZES: Final = tuple(f"gpu-{count}x" for count in EVERY_COUNT)


def require_free_name(tx: Tx, organization_id: str, kind: str, name: str | None) -> None:
    """Refuse with 409 the name of a live resource of the same kind."""
    named = {"organization_id": organization_id, "kind": kind, "name": name, "terminated_at": None}
    if name is not None and WORKLOADS.find(tx, **named) is not None:
        raise ApiError(409, f"There is a live {kind} {name!r} already; names are free again after termination.")


def require_quotas(tx: Tx, organization_id: str, kind: str, request_bytes: int, gpu_count: int, volume_gb: int) -> None:
    """Refuse with 403 another workload that the organization's quotas do not allow."""
    live, ended = _QUOTAS[kind]
    more = {live: 1, ended: 1, quotas.GPUS: gpu_count, quotas.VOLUME_GB: volume_gb, quotas.REQUEST_BYTES: request_bytes}
    quotas.require(tx, organization_id, {**more, quotas.USAGE_RECORDS: 1})


def require_disk(disk_size_gb: int | None) -> None:
    """Refuse with 400 an empty disk, and one above the largest size (assumed)."""
    if disk_size_gb is not None and not 1 <= disk_size_gb <= LARGEST_DISK_GB:
        raise ApiError(400, f"diskSizeGb: from 1 to {LARGEST_DISK_GB}.")


def require_regions(tx: Tx, organization_id: str, body: VmCreate | ClusterCreate) -> None:
    """Refuse with 422 a request that is limited to regions which do not exist for its organization."""
    asked = body.preferred_regions
    if not asked or body.allow_fallback is not False:
        return
    known = {place.region for place in LOCATIONS.values()} | reservations.regions(tx.connection, organization_id)
    if known.isdisjoint(asked):
        raise ApiError(422, f"preferredRegions: there is no {asked[0]!r}; GET /v1/locations has those there are.")


def gpu_size(resource_size: str | None, gpu_count: int) -> str:
    """The size of a workload with GPUs; ApiError 422 for one that the catalog does not have."""
    if resource_size is None:
        return f"gpu-{gpu_count}x"
    if resource_size not in CPU_SIZES and resource_size not in GPU_SIZES:
        known = ", ".join((*CPU_SIZES, *GPU_SIZES))
        raise ApiError(422, f"resourceSize: there is no {resource_size!r}; there are {known}.")
    return resource_size


def require_count(field: str, count: int | None) -> None:
    """Refuse with 400 a negative number of GPUs."""
    if count is not None and count < 0:
        raise ApiError(400, f"{field}: at least 0.")


def require_tier(tier: str, tiers: frozenset[str]) -> None:
    """Refuse with 400 an unknown tier."""
    if tier not in tiers:
        raise ApiError(400, f"tier: there is no {tier!r}; there are {', '.join(sorted(tiers))}.")


def room_for(tx: Tx, demand: Demand) -> NodeRoom:
    """The node to place a demand on; raises 402 without funds, the capacity codes or 422 without room."""
    billing.require_funds(tx, demand.organization_id)
    room = claims.find_room(tx.connection, demand)
    if room is None:
        raise no_room(tx, demand)
    return room


def visible_node(tx: Tx, node_id: str, organization_id: str, *, spot: bool = False) -> NodeRoom:
    """A node as the organization may use it, including its reserved units; ApiError 404 if it has no rights on it."""
    room = claims.room_at(tx.connection, node_id, organization_id, named=True, spot=spot)
    if room is not None and (
        room.is_open_to(organization_id)
        or reservations.gives_rights(tx.connection, node_id, organization_id, spot=spot)
    ):
        return room
    raise ApiError(404, f"nodeId: there is no node {node_id!r}.")


def room_on(tx: Tx, node_id: str, demand: Demand) -> NodeRoom:
    """Room on a node that the caller names, without a fallback; a node without rights is not found (section 2)."""
    room = visible_node(tx, node_id, demand.organization_id, spot=demand.spot)
    if demand.preferred_regions and not demand.allow_fallback and room.region not in demand.preferred_regions:
        wanted = ", ".join(demand.preferred_regions)
        raise ApiError(
            422, f"nodeId: the node {node_id} is in {room.region}, and preferredRegions allows {wanted} only."
        )
    if not could_ever_hold(room, demand):
        wanted = f"{demand.gpu_count} x {demand.gpu_model_id}"
        raise ApiError(
            422, f"nodeId: the node {node_id} has {room.gpu_count} x {room.gpu_model_id} and never holds {wanted}."
        )
    billing.require_funds(tx, demand.organization_id)
    if not room.schedulable or room.placeable_count < demand.gpu_count:
        free = room.placeable_count if room.schedulable else 0
        raise saturated(
            tx, "NODE_AT_CAPACITY", f"The node {node_id} has {free} free GPUs, and {demand.gpu_count} are needed."
        )
    return room


def cheapest_with_room(tx: Tx, demand_of: Callable[[GpuModel], Demand]) -> tuple[GpuModel, NodeRoom]:
    """The cheapest model that has room now, for requests that name none; raises what `room_for` does."""
    cheapest_first = [(model, demand_of(model)) for model in models_cheapest_first()]
    demands = [demand for _, demand in cheapest_first]
    billing.require_funds(tx, demands[0].organization_id)
    for model, demand in cheapest_first:
        room = claims.find_room(tx.connection, demand)
        if room is not None:
            return model, room
    raise no_room(tx, *demands)


def create(
    tx: Tx,
    body: PodCreate | VmCreate,
    organization_id: str,
    room: NodeRoom | None,
    gpu_count: int = 0,
    *,
    volume_gb: int | None,
    disk_size_gb: int,
    **fields: object,
) -> Workload:
    """Create a pod or VM from its body, claim its GPUs, and let it start.

    `room` is its node, None for a CPU VM; `fields` are columns that pods and VMs take from different places.
    """
    kind = POD if isinstance(body, PodCreate) else VM
    request = json.dumps(body.model_dump(mode="json", exclude_none=True), separators=(",", ":"))
    require_quotas(tx, organization_id, kind, len(request), gpu_count, kept_gb(kind, volume_gb, disk_size_gb))
    workload_id = tx.new_id(kind)
    addresses.take(tx, workload_id)
    tail = workload_id.rpartition("_")[2]
    if room is not None:
        claims.claim(tx, room, gpu_count, workload_id)
    expected = tx.runtime.want(moves.FACTS, workload_id, Wanted.STARTED)
    return WORKLOADS.insert(
        tx,
        id=workload_id,
        kind=kind,
        organization_id=organization_id,
        name=body.name or f"{kind}-{tail[:10]}",
        status=PodStatus.DEPLOYING,
        changed_at=tx.now,
        placed_at=expected.placed_at,
        due_at=expected.due_at,
        created_at=tx.now,
        node_id=room.id if room else None,
        gpu_count=gpu_count,
        volume_gb=volume_gb,
        disk_size_gb=disk_size_gb,
        public=body.public,
        label=f"{kind}-{tail}",
        compute_class="on_demand",  # `reserved` is a deprecated alias (section 2)
        request=request,
        **fields,
    )

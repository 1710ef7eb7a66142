"""What a caller is told when nothing has room (section 7): try the same again later, or never."""

from typing import Final

from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx

RETRY_AFTER_SECONDS: Final = 10
"""The suggested wait for transient saturation; section 7 says an integer, not which."""


def saturated(tx: Tx, code: str, message: str) -> ApiError:
    """Transient saturation: the request is valid and may be repeated unchanged."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return ApiError(tx.settings.capacity_status, message, code, headers)


def no_room(tx: Tx, demand: Demand) -> ApiError:
    """Why the demand found no node: saturation, or 422 where no node would ever hold it."""
    rooms = nodes.rooms_for(tx.connection, demand)
    if rooms and not claims.any_could_hold(tx.connection, demand):
        return _never(demand, max(room.gpu_count for room in rooms))
    where = "" if demand.node_pool is None else f" of the pool {demand.node_pool}"
    wanted = f"{demand.gpu_count} x {demand.gpu_model_id}"
    return saturated(tx, "INSUFFICIENT_GPU_CAPACITY", f"No node{where} has {wanted} free now: try again later.")


def _never(demand: Demand, largest: int) -> ApiError:
    wanted = f"{demand.gpu_count} x {demand.gpu_model_id}"
    if demand.gpu_count > largest:
        message = f"{demand.counted_as}: no node has {wanted}; the largest has {largest}."
        return ApiError(422, message, "GPU_COUNT_NOT_PLACEABLE")
    message = f"shmSizeGb: {demand.shm_gb} GiB is over the memory entitlement of {wanted} on every node."
    return ApiError(422, message, "SHM_OVER_ENTITLEMENT")

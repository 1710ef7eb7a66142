"""Where replicas of deployments land: on nodes of their pool that their organization may use (assumed).

A pool that no node is in is a name for a lane and nothing else: its deployments are placed in the community pool.
"""

from sqlalchemy import select

from relay_localcloud.capacity.nodes import COMMUNITY, ROOM, nodes
from relay_localcloud.capacity.placement import Demand, NodeRoom, choose_node, could_ever_hold
from relay_localcloud.capacity.saturation import never, saturated
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx


def find_room(tx: Tx, demand: Demand, node_pool: str) -> NodeRoom | None:
    """The node to place a replica on now, or None."""
    return choose_node(_rooms(tx, demand, node_pool), demand)


def no_room(tx: Tx, demand: Demand, node_pool: str) -> ApiError:
    """Why a replica found no node: saturation, or 422 where no node of the pool would ever hold it."""
    rooms = _rooms(tx, demand, node_pool)
    if rooms and not any(could_ever_hold(room, demand) for room in rooms):
        return never(demand, rooms_largest=max(room.gpu_count for room in rooms))
    wanted = f"{demand.gpu_count} x {demand.gpu_model_id}"
    message = f"No node of the pool {node_pool} has {wanted} free now: try again later."
    return saturated(tx, "INSUFFICIENT_GPU_CAPACITY", message)


def _rooms(tx: Tx, demand: Demand, node_pool: str) -> list[NodeRoom]:
    node = nodes.c
    mine = (node.organization_id.in_(("", demand.organization_id)), node.removed_at.is_(None))
    in_pool = select(node.id).where(*mine, node.node_pool == node_pool).limit(1)
    pool = node_pool if tx.connection.execute(in_pool).first() is not None else COMMUNITY
    query = select(*ROOM).where(*mine, node.node_pool == pool, node.gpu_model_id == demand.gpu_model_id)
    return [NodeRoom(*row) for row in tx.connection.execute(query.order_by(node.sequence))]

"""Where replicas of deployments land: on nodes of their pool that their organization may use (assumed).

A pool that no node is in is a name for a lane and nothing else: its deployments are placed in the community pool.
"""

from sqlalchemy import select

from relay_localcloud.nodes import COMMUNITY, ROOM, nodes
from relay_localcloud.placement import Demand, NodeRoom, choose_node
from relay_localcloud.store import Tx


def find_room(tx: Tx, demand: Demand, node_pool: str) -> NodeRoom | None:
    """The node to place a replica on now, or None."""
    node = nodes.c
    mine = (node.organization_id.in_(("", demand.organization_id)), node.removed_at.is_(None))
    in_pool = select(node.id).where(*mine, node.node_pool == node_pool).limit(1)
    pool = node_pool if tx.connection.execute(in_pool).first() is not None else COMMUNITY
    query = select(*ROOM).where(*mine, node.node_pool == pool, node.gpu_model_id == demand.gpu_model_id)
    return choose_node([NodeRoom(*row) for row in tx.connection.execute(query.order_by(node.sequence))], demand)

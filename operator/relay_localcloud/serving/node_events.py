"""What happens to replicas of deployments when their node falls silent, returns, or is removed."""

from relay_localcloud.clusters.states import ReplicaState, ReplicaTrigger
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving import moves, replicas, rows
from relay_localcloud.serving.rows import Deployment


def to_replicas(tx: Tx, node_id: str, trigger: ReplicaTrigger, reason: str | None) -> list[Deployment]:
    """Let something happen to every replica on a node; the deployments that are to be settled once all is done."""
    affected: dict[str, Deployment] = {}
    for replica in rows.replicas_on(tx.connection, node_id):
        deployment = affected.get(replica.deployment_id) or rows.find(tx, replica.deployment_id)
        assert deployment is not None, "a live replica belongs to a live deployment"
        affected[deployment.id] = deployment
        replicas.apply(tx, deployment, replica, trigger, reason)
    return list(affected.values())


def grace_over(tx: Tx, node_id: str) -> None:
    """The node is still silent: what it had is replaced elsewhere where there is room."""
    lost = [r for r in rows.replicas_on(tx.connection, node_id) if r.status is ReplicaState.LOST]
    for replica in lost:
        rows.change_replica(tx, replica.id, replacement_due=True)
    for deployment_id in dict.fromkeys(replica.deployment_id for replica in lost):
        deployment = rows.find(tx, deployment_id)
        assert deployment is not None, "as above"
        moves.settle(tx, deployment)

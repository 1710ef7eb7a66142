"""The end of a blue/green rollout: the green becomes a member of its lane, and those that it replaces drain (assumed).

It replaces its own organization's members only. They drain all at once, or with rolloutStrategy `rolling` so many
replicas at a time as the green's `maxUnavailable` says, and are gone then.
"""

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.serving import lanes, moves
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.serving.states import NOT_READY, Trigger
from relay_wire.inference import MOST
from relay_wire.serving import DeploymentCreate


def promoted(tx: Tx, green: Deployment, spec: DeploymentCreate) -> DeploymentCreate:
    """Drain what the green replaces; what is wanted of it then: without a weight of its own it takes over theirs.

    ApiError 409 while it is about to have replicas that are not healthy yet.
    """
    members = moves.REPLICAS.of(tx.connection, green.id)
    if sum(member.status is ReplicaState.HEALTHY for member in members) < green.wanted:
        raise ApiError(409, NOT_READY.message)
    replaced = [
        each
        for each in lanes.members(tx, green.catalog_id, spec)
        if each.organization_id == green.organization_id and each.id != green.id
    ]
    leaving = spec.max_unavailable if spec.rollout_strategy == "rolling" else None
    for each in replaced:
        moves.apply(tx, each, Trigger.REPLACED, f"Replaced by {green.id}.", leaving=leaving)
    weight = spec.backend_weight or sum(each.spec.backend_weight for each in replaced)
    return spec.model_copy(update={"backend_weight": min(weight, MOST)})

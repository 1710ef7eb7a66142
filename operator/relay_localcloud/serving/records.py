"""How deployments are answered."""

from collections.abc import Sequence

from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.serving.moves import REPLICAS
from relay_localcloud.serving.rows import Deployment
from relay_wire import serving as wire


def shown(deployment: Deployment, replicas: Sequence[Replica]) -> wire.Deployment:
    """What was asked for, with the defaults of section 2, and how it stands."""
    asked = deployment.spec.model_dump(by_alias=False, exclude={"acknowledge_lane_join"})
    return wire.Deployment.model_validate(
        {
            **asked,
            "id": deployment.id,
            "node_pool": deployment.node_pool,
            "status": deployment.status.value,
            "status_reason": deployment.status_reason,
            "replicas_ready": sum(replica.status is ReplicaState.HEALTHY for replica in replicas),
            "price_per_hour_cents": deployment.replica_price_cents,
            "replicas": [_replica(deployment, replica) for replica in replicas],
            "created_at": timestamp(deployment.created_at),
            "updated_at": timestamp(deployment.updated_at),
        }
    )


def _replica(deployment: Deployment, replica: Replica) -> wire.ServingReplica:
    return wire.ServingReplica(
        id=replica.id,
        status=REPLICAS.shown_status(replica),
        healthy=replica.status is ReplicaState.HEALTHY,
        gpu_count=deployment.spec.gpu_count_per_replica,
        node_id=replica.node_id,
        engine_image=replica.engine_image,
        created_at=timestamp(replica.created_at),
        started_at=optional_timestamp(replica.started_at),
    )

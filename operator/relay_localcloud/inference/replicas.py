"""How replicas of deployments answer: by the server that stands for their image, else by the built-in engine.

`POST /_localcloud/upstreams {image, url}` says which server stands for an `engineImage`; it is asked as a replica would
be, at `/v1/chat/completions` or `/v1/messages` below that URL, for the deployment's `servedModelId`.
"""

from relay_localcloud.inference.routing import Turn
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import BOTH, BUILT_IN, BuiltInModel

DEPLOYMENT_HEADER = "x-relay-deployment"
REPLICA_HEADER = "x-relay-replica"
"""Response headers of the local cloud that say which deployment answered, and which replica of it."""


def behind(turn: Turn) -> Server | BuiltInModel:
    """The server behind a replica, under the replica's id; else the built-in model's part, or the echo's."""
    deployment = turn.deployment
    url = deployment.replicas[turn.replica_id]
    if url is None:
        return BUILT_IN.get(deployment.model_id) or BuiltInModel(deployment.model_id, BOTH)
    endpoint = url.rstrip("/").removesuffix("/v1") + "/v1"
    return Server(
        turn.replica_id,
        deployment.served_model_id,
        endpoint,
        deployment.apis,
        "none",
        deployment.weight,
        deployment.cap,
    )


def headers_of(turn: Turn) -> dict[str, str]:
    """The headers that name who answered."""
    return {DEPLOYMENT_HEADER: turn.deployment.id, REPLICA_HEADER: turn.replica_id}

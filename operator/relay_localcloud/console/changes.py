"""Changes of workloads in the console: start, stop, scale, terminate. The state tables of each kind decide.

A button that is outdated, since another person has just pressed one, gets the tables' answer for the present state.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from relay_localcloud.clusters import admission as cluster_admission
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.states import CLUSTER_TRANSITIONS, ClusterTrigger
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.outcomes import Move
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving import admission as serving_admission
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.serving import rows as serving
from relay_localcloud.serving import states as serving_states
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import TRANSITIONS, Trigger
from relay_localcloud.workloads.workloads import Workload
from relay_wire.clusters import ClusterScale
from relay_wire.serving import DeploymentChange


class Change(StrEnum):
    """A change that a button requests: the last part of its address."""

    RESTART = "restart"
    STOP = "stop"
    SCALE = "scale"
    TERMINATE = "terminate"


_PODS: Final = {Change.RESTART: Trigger.RESTART, Change.STOP: Trigger.STOP, Change.TERMINATE: Trigger.TERMINATE}
_CLUSTERS: Final = {
    Change.RESTART: ClusterTrigger.RESTART,
    Change.STOP: ClusterTrigger.STOP,
    Change.SCALE: ClusterTrigger.SCALE,
    Change.TERMINATE: ClusterTrigger.TERMINATE,
}
_DEPLOYMENTS: Final = {Change.SCALE: serving_states.Trigger.SCALE, Change.TERMINATE: serving_states.Trigger.DELETE}

_TriggerT = TypeVar("_TriggerT")


def _moving(
    outcomes: Mapping[tuple[Any, _TriggerT], object], triggers: Mapping[Change, _TriggerT]
) -> dict[str, frozenset[Change]]:
    """The changes that each status allows."""
    return {
        status: frozenset(change for change, trigger in triggers.items() if isinstance(outcomes[status, trigger], Move))
        for status, _ in outcomes
    }


_OFFERED: Final[Mapping[str, Mapping[str, frozenset[Change]]]] = {
    "pods": _moving(TRANSITIONS, _PODS),
    "clusters": _moving(CLUSTER_TRANSITIONS, _CLUSTERS),
    "deployments": _moving(serving_states.TRANSITIONS, _DEPLOYMENTS),
}


def offered(kind: str, status: str) -> frozenset[Change]:
    """The changes that a workload of a kind (`pods`, `clusters`, `deployments`) allows in a status."""
    return _OFFERED[kind][status]


def make(tx: Tx, workload_id: str, change: Change, replica_count: int | None) -> None:
    """Change a workload; ApiError 404 if there is none, 400 if its kind lacks the change, 409 if its state forbids it.

    `replica_count` is for `scale` only.
    """
    workload = workloads.find(tx, workload_id)
    cluster = clusters.find(tx, workload_id) if workload is None else None
    deployment = serving.find(tx, workload_id) if workload is None and cluster is None else None
    if workload is not None:
        _to_pod_or_vm(tx, workload, change)
    elif cluster is not None:
        _to_cluster(tx, cluster, change, replica_count)
    elif deployment is not None:
        _to_deployment(tx, deployment, change, replica_count)
    else:
        raise ApiError(404, f"There is no workload {workload_id!r}: it was deleted, or never existed.")


def _to_pod_or_vm(tx: Tx, workload: Workload, change: Change) -> None:
    if change not in _PODS:
        raise ApiError(400, "A pod or VM has no replicas: it cannot be scaled.")
    moves.apply(tx, workload, _PODS[change])


def _to_cluster(tx: Tx, cluster: Cluster, change: Change, replica_count: int | None) -> None:
    if change is not Change.SCALE:
        cluster_moves.apply(tx, cluster, _CLUSTERS[change])
        return
    wanted = ClusterScale.model_validate({"replicaCount": replica_count})
    cluster_admission.require_replica_count(wanted.replica_count)
    cluster_moves.scale(tx, cluster, wanted.replica_count)


def _to_deployment(tx: Tx, deployment: Deployment, change: Change, replica_count: int | None) -> None:
    if change not in _DEPLOYMENTS:
        raise ApiError(400, f"A deployment has no {change}: scale it to 0 instead.")
    if change is Change.TERMINATE:
        serving_moves.apply(tx, deployment, _DEPLOYMENTS[change], "It was deleted.")
        return
    wanted = DeploymentChange.model_validate({"replicasDesired": replica_count})
    serving_admission.change(tx, deployment, wanted)

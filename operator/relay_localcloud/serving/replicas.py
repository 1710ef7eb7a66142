"""Carries out what happens to single replicas of deployments: placed, started, lost, drained, ended."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from relay_localcloud.capacity import claims
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.clusters.states import REPLICA_TRANSITIONS, ReplicaEffect, ReplicaState, ReplicaTrigger
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.serving import rooms, rows
from relay_localcloud.serving.rows import Deployment, Replica
from relay_wire.events import EventType

START: Final = "serving.start"
"""The due item of a replica that starts."""

DRAINED: Final = "serving.drained"
"""The due item of a replica that takes no requests any more and goes."""


def apply(tx: Tx, deployment: Deployment, replica: Replica, trigger: ReplicaTrigger, reason: str | None = None) -> None:
    """Do what the table of replicas says; the deployment's status is left to `moves.settle`."""
    move = REPLICA_TRANSITIONS.get((replica.status, trigger))
    if move is None:
        return
    after = replace(replica, status=move.to)
    for effect in move.effects:
        _EFFECTS[effect](tx, deployment, after, reason)
    if move.to is ReplicaState.STOPPING:
        tx.schedule(tx.now + seconds(tx.settings.stop_seconds), DRAINED, replica.id)
    rows.change_replica(
        tx,
        replica.id,
        status=move.to.value,
        replacement_due=False,
        started_at=tx.now if move.to is ReplicaState.HEALTHY and replica.started_at is None else replica.started_at,
        terminated_at=tx.now if move.to is ReplicaState.TERMINATED else None,
    )


def place(tx: Tx, deployment: Deployment, count: int) -> int:
    """Place up to `count` more replicas, and return how many found room."""
    for placed in range(count):
        room = rooms.find_room(tx, deployment.demand, deployment.node_pool)
        if room is None:
            return placed
        replica_id = tx.new_id("rep")
        claims.claim(tx, room, deployment.spec.gpu_count_per_replica, replica_id, deployment.id)
        columns = {
            "id": replica_id,
            "deployment_id": deployment.id,
            "node_id": room.id,
            "status": ReplicaState.PROVISIONING.value,
            "generation": deployment.generation,
            "engine_image": deployment.spec.engine_image,
            "created_at": tx.now,
        }
        rows.insert_replica(tx, columns)
        _schedule_start(tx, replica_id)
    return count


Act = Callable[[Tx, Deployment, Replica, str | None], None]


def _start_billing(tx: Tx, deployment: Deployment, replica: Replica, _: str | None) -> None:
    billing.start_billing(tx, deployment.billed(replica.id, replica.node_id))


def _stop_billing(tx: Tx, deployment: Deployment, replica: Replica, _: str | None) -> None:
    billing.stop_billing(tx, deployment.organization_id, replica.id)


def _release_gpus(tx: Tx, deployment: Deployment, replica: Replica, _: str | None) -> None:
    tx.cancel(START, replica.id)
    tx.cancel(DRAINED, replica.id)
    claims.release(tx, replica.id)
    announce_vacancy(tx, deployment.spec.gpu_model_id)


def _set_start_timer(tx: Tx, _: Deployment, replica: Replica, __: str | None) -> None:
    _schedule_start(tx, replica.id)


def _schedule_start(tx: Tx, replica_id: str) -> None:
    due_at = tx.now + seconds(tx.settings.placement_seconds) + seconds(tx.settings.start_seconds)
    tx.schedule(due_at, START, replica_id)


def _tell(event: EventType) -> Act:
    def tell(tx: Tx, deployment: Deployment, replica: Replica, reason: str | None) -> None:
        status = shown_status(replica)
        data = {**deployment.event_data, "replicaId": replica.id, "status": status, "reason": reason}
        tx.emit(deployment.organization_id, event.value, data)

    return tell


_EFFECTS: Final[Mapping[ReplicaEffect, Act]] = {
    ReplicaEffect.START_BILLING: _start_billing,
    ReplicaEffect.STOP_BILLING: _stop_billing,
    ReplicaEffect.RELEASE_GPUS: _release_gpus,
    ReplicaEffect.SET_START_TIMER: _set_start_timer,
    ReplicaEffect.TELL_HEALTHY: _tell(EventType.REPLICA_HEALTHY),
    ReplicaEffect.TELL_UNHEALTHY: _tell(EventType.REPLICA_UNHEALTHY),
    ReplicaEffect.TELL_TERMINATED: _tell(EventType.REPLICA_TERMINATED),
}

_SHOWN: Final[Mapping[ReplicaState, str]] = {
    ReplicaState.LOST: ReplicaState.UNHEALTHY.value,
    ReplicaState.STOPPING: "draining",
}


def shown_status(replica: Replica) -> str:
    """The status word: a replica on a silent node is unhealthy, one that stops is draining."""
    return _SHOWN.get(replica.status, replica.status.value)

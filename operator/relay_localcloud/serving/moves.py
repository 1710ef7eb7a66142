"""Carries out what happens to whole deployments, and keeps them in step with their replicas."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import delete, insert, select

from relay_localcloud.capacity.vacancies import FILL_DEPLOYMENTS, waiting_deployments
from relay_localcloud.clock.due import DueHandler, DueItem
from relay_localcloud.clusters.states import Census, ReplicaTrigger, degradation
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.outcomes import Refusal, Stay
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving import replicas, rows
from relay_localcloud.serving.rows import Deployment, Replica
from relay_localcloud.serving.states import SERVING, TRANSITIONS, Move, Trigger, derived_status
from relay_localcloud.serving.steps import Member, next_steps
from relay_wire.serving import DeploymentStatus


def apply(
    tx: Tx, deployment: Deployment, trigger: Trigger, reason: str | None = None, *, leaving: int | None = None
) -> Deployment:
    """Do what the table says; ApiError 409 where the status does not allow it. Returns the deployment as it is after.

    `leaving` bounds how many replicas drain at a time, where it is drained.
    """
    outcome = TRANSITIONS[deployment.status, trigger]
    match outcome:
        case Stay():
            return deployment
        case Refusal(message, code):
            raise ApiError(409, message, code)
        case Move(to=None):
            return settle(tx, deployment)
        case Move(to=to):
            assert to is not None
            after = replace(deployment, status=to, status_reason=reason, leaving=leaving, updated_at=tx.now)
            rows.change_deployment(tx, deployment.id, status=to.value, status_reason=reason, leaving=leaving)
            return settle(tx, after)


def settle(tx: Tx, deployment: Deployment) -> Deployment:
    """Take the steps that can be taken, and bring status, reason and waiting in step with the replicas."""
    lacking = _take_steps(tx, deployment)
    _set_waiting(tx, deployment, lacking)
    members = rows.replicas_of(tx.connection, deployment.id)
    if deployment.status is DeploymentStatus.DRAINING and not members:
        rows.change_deployment(tx, deployment.id, gone_at=tx.now)
        return replace(deployment, gone_at=tx.now)
    if deployment.status not in SERVING:
        return deployment
    counted = Census.of(deployment.wanted, members)
    status = derived_status(deployment.status, counted)
    reason = degradation(counted, deployment.replica_needs) if status is DeploymentStatus.DEGRADED else None
    after = replace(deployment, status=status, status_reason=reason)
    if after == deployment:
        return deployment
    rows.change_deployment(tx, deployment.id, status=status.value, status_reason=reason)
    return replace(after, updated_at=tx.now)


def _take_steps(tx: Tx, deployment: Deployment) -> bool:
    """Drain, place and replace; whether some still wait for room."""
    members = {replica.id: replica for replica in rows.replicas_of(tx.connection, deployment.id)}
    steps = next_steps(deployment.intent, [_member(deployment, replica) for replica in members.values()])
    for replica_id in steps.drained:
        replicas.apply(tx, deployment, members[replica_id], ReplicaTrigger.STOP)
    wanted = steps.missing + len(steps.overdue)
    placed = replicas.place(tx, deployment, wanted)
    for replica_id in steps.overdue[: max(0, placed - steps.missing)]:
        reason = "Replaced: its node does not report."
        replicas.apply(tx, deployment, members[replica_id], ReplicaTrigger.TERMINATE, reason)
    return placed < wanted


def _member(deployment: Deployment, replica: Replica) -> Member:
    outdated = replica.generation < deployment.generation
    return Member(replica.id, replica.status, is_outdated=outdated, is_overdue=replica.replacement_due)


def _set_waiting(tx: Tx, deployment: Deployment, waits: bool) -> None:
    if waits:
        entry = {"sequence": deployment.sequence, "deployment_id": deployment.id}
        entry["gpu_model_id"] = deployment.spec.gpu_model_id
        tx.connection.execute(insert(waiting_deployments).prefix_with("OR IGNORE"), entry)
    else:
        mine = waiting_deployments.c.deployment_id == deployment.id
        tx.connection.execute(delete(waiting_deployments).where(mine))


def balance_ran_out(tx: Tx, organization_id: str, reason: str) -> None:
    """Stop every deployment of an organization."""
    for deployment in rows.live_of(tx.connection, organization_id):
        apply(tx, deployment, Trigger.BALANCE_RAN_OUT, reason)


def _to_replica(tx: Tx, replica_id: str, trigger: ReplicaTrigger) -> None:
    replica = rows.find_replica(tx, replica_id)
    deployment = rows.find(tx, replica.deployment_id) if replica is not None else None
    if replica is not None and deployment is not None:
        replicas.apply(tx, deployment, replica, trigger)
        settle(tx, deployment)


def _started(tx: Tx, item: DueItem) -> None:
    _to_replica(tx, item.subject, ReplicaTrigger.STARTED)


def _drained(tx: Tx, item: DueItem) -> None:
    _to_replica(tx, item.subject, ReplicaTrigger.TERMINATE)


def _room_was_freed(tx: Tx, item: DueItem) -> None:
    table = waiting_deployments.c
    query = select(table.deployment_id).where(table.gpu_model_id == item.subject).order_by(table.sequence)
    for deployment_id in tx.connection.execute(query).scalars().all():
        deployment = rows.find(tx, deployment_id)
        assert deployment is not None, "a deployment that waits for room is live"
        settle(tx, deployment)


HANDLERS: Final[Mapping[str, DueHandler]] = {
    replicas.START: _started,
    replicas.DRAINED: _drained,
    FILL_DEPLOYMENTS: _room_was_freed,
}

"""Carries out what happens to whole deployments, and keeps them in step with their replicas."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from relay_localcloud.capacity.vacancies import DEPLOYMENTS
from relay_localcloud.kernel.due import DueHandler
from relay_localcloud.kernel.outcomes import decided
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.census import Census, degradation
from relay_localcloud.replicas.engine import Kind, Replicas
from relay_localcloud.serving import rows
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.serving.states import SERVING, TRANSITIONS, Trigger, derived_status
from relay_wire.serving import DeploymentStatus


def apply(
    tx: Tx, deployment: Deployment, trigger: Trigger, reason: str | None = None, *, leaving: int | None = None
) -> Deployment:
    """Do what the table says; ApiError 409 where the status does not allow it. Returns the deployment as it is after.

    `leaving` bounds how many replicas drain at a time, where it is drained.
    """
    move = decided(TRANSITIONS[deployment.status, trigger])
    if move is None:
        return deployment
    if move.to is not None:
        rows.change_deployment(tx, deployment.id, status=move.to, status_reason=reason, leaving=leaving)
        deployment = replace(deployment, status=move.to, status_reason=reason, leaving=leaving, updated_at=tx.now)
    return settle(tx, deployment)


def settle(tx: Tx, deployment: Deployment) -> Deployment:
    """Take the steps that can be taken, and bring status and reason in step with the replicas."""
    members = REPLICAS.fill(tx, deployment)
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
    rows.change_deployment(tx, deployment.id, status=status, status_reason=reason)
    return replace(after, updated_at=tx.now)


def balance_ran_out(tx: Tx, organization_id: str, reason: str) -> None:
    """Stop every deployment of an organization."""
    for deployment in rows.live_of(tx.connection, organization_id):
        apply(tx, deployment, Trigger.BALANCE_RAN_OUT, reason)


REPLICAS: Final = Replicas(
    Kind(
        noun="deployment",
        rows=rows.REPLICA_ROWS,
        queue=DEPLOYMENTS,
        start="serving.start",
        drained="serving.drained",
        stopping="draining",
    ),
    rows.find,
    settle,
)

HANDLERS: Final[Mapping[str, DueHandler]] = REPLICAS.handlers()

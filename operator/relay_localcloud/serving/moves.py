"""Carries out what happens to whole deployments, and updates them to match their replicas."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from relay_localcloud.capacity import vacancies
from relay_localcloud.http.outcomes import decided
from relay_localcloud.kernel.due import DueHandler
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.alarms import AT_ONCE
from relay_localcloud.replicas.census import Census, degradation
from relay_localcloud.replicas.engine import Replicas
from relay_localcloud.runtimes.runtime import Facts
from relay_localcloud.serving import rows
from relay_localcloud.serving.rows import DEPLOYMENTS, Deployment
from relay_localcloud.serving.states import SERVING, TRANSITIONS, Trigger, derived_status
from relay_wire.serving import DeploymentStatus

_RAN_OUT: Final = "The balance ran out: add funds, then send replicasDesired again."
_FUNDED_AGAIN: Final = "The balance ran out, and funds were added since: send replicasDesired."


def apply(
    tx: Tx, deployment: Deployment, trigger: Trigger, reason: str | None = None, *, leaving: int | None = None
) -> Deployment:
    """Do what the table says, and return the deployment as it is then; ApiError 409 if its status does not allow it.

    `leaving` limits how many replicas drain at a time if the deployment is drained.
    """
    move = decided(TRANSITIONS[deployment.status, trigger])
    if move is None:
        return deployment
    if move.to is not None:
        moved = {"status": move.to, "status_reason": reason, "leaving": leaving}
        deployment = DEPLOYMENTS.changed(tx, deployment, updated_at=tx.now, **moved)
    return settle(tx, deployment)


def settle(tx: Tx, deployment: Deployment) -> Deployment:
    """Fill the deployment, and update its status and reason to match its replicas; delete it once it has drained."""
    members = REPLICAS.fill(tx, deployment)
    if deployment.status is DeploymentStatus.DRAINING and not members:
        DEPLOYMENTS.remove(tx, id=deployment.id)
        return replace(deployment, gone_at=tx.now, updated_at=tx.now)
    if deployment.status not in SERVING:
        return deployment
    counted = Census.of(deployment.wanted, members)
    status = derived_status(deployment.status, counted)
    reason = degradation(counted, deployment.replica_needs) if status is DeploymentStatus.DEGRADED else counted.said
    return DEPLOYMENTS.updated(tx, deployment, status=status, status_reason=reason)


def balance_ran_out(tx: Tx, organization_id: str) -> bool:
    """Stop the organization's oldest deployment, or drain it at once if it drains stepwise; False if there is none."""
    serving = DEPLOYMENTS.first(tx, 1, rows.CAN_BE_STOPPED, organization_id=organization_id, gone_at=None)
    for deployment in serving:
        reason = _RAN_OUT if deployment.status in SERVING else deployment.status_reason
        apply(tx, deployment, Trigger.BALANCE_RAN_OUT, reason)
    return bool(serving)


def funded(tx: Tx, organization_id: str) -> bool:
    """Say of what the balance stopped that there are funds again."""
    mine = {"organization_id": organization_id, "gone_at": None}
    stopped = DEPLOYMENTS.first(tx, AT_ONCE, **mine, status_reason=_RAN_OUT)
    for deployment in stopped:
        DEPLOYMENTS.updated(tx, deployment, status_reason=_FUNDED_AGAIN)
    return len(stopped) == AT_ONCE


REPLICAS: Final = Replicas(
    noun="deployment",
    rows=rows.REPLICA_ROWS,
    queue=vacancies.DEPLOYMENTS,
    facts=Facts(started="serving.start", stopped="serving.drained"),
    find=rows.find,
    settle=settle,
    stopping="draining",
)

HANDLERS: Final[Mapping[str, DueHandler]] = REPLICAS.handlers()

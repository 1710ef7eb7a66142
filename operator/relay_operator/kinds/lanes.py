"""Lanes of serving deployments: live ones of a model with the same traffic (section 2, "Serving deployment"). Pure."""

from collections.abc import Iterable, Sequence

from relay_operator.api.servingdeployment import SHOWN_MEMBERS, Lane, LaneMember
from relay_operator.engine.fit_schema import fit_schema
from relay_wire.serving import Deployment, DeploymentStatus


def lane_of(deployment: Deployment, listed: Iterable[Deployment]) -> tuple[Deployment, ...]:
    """The live members of the deployment's lane, sorted by id; empty if it is in no lane."""
    if not _live(deployment):
        return ()
    model, common = deployment.public_model_id, _common(deployment)
    # The model first, since most rows of a long list are of another one.
    members = {row.id: row for row in listed if row.public_model_id == model and _live(row) and _common(row) == common}
    return tuple(row for _, row in sorted((members | {deployment.id: deployment}).items()))


def shown(members: Sequence[Deployment]) -> Lane | None:
    """The lane as status shows it; None without members."""
    if not members:
        return None
    told = {
        "node_pool": members[0].node_pool or "",
        "min_prompt_bytes": max(members[0].min_prompt_bytes or 0, 0),
        "max_prompt_bytes": max(members[0].max_prompt_bytes or 0, 0),
    }
    return Lane.model_validate({**fit_schema(Lane, told), "members": [_member(row) for row in members[:SHOWN_MEMBERS]]})


def share(deployment: Deployment, members: Sequence[Deployment]) -> int | None:
    """The deployment's percentage of the members' weights; None if it is in no lane."""
    if not members:
        return None
    whole = sum(row.backend_weight or 0 for row in members)
    return 100 * (deployment.backend_weight or 0) // whole if whole else 0


def _live(row: Deployment) -> bool:
    return not row.isolated and row.status != DeploymentStatus.DRAINING


def _common(row: Deployment) -> tuple[object, ...]:
    return row.public_model_id, row.node_pool, row.min_prompt_bytes or 0, row.max_prompt_bytes or 0


def _member(row: Deployment) -> LaneMember:
    told = {
        "id": row.id,
        "backend_weight": max(row.backend_weight or 0, 0),
        "rollout_role": row.rollout_role or "",
        "state": row.status,
    }
    return LaneMember.model_validate(fit_schema(LaneMember, told))

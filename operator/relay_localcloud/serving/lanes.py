"""Lanes: live deployments of one organization's model, one node pool and one range of prompt sizes.

Isolated deployments are in no lane, since they get no requests; draining ones have left theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relay_localcloud.capacity.nodes import COMMUNITY
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving.rows import DEPLOYMENTS, Deployment
from relay_wire.serving import GREEN, DeploymentCreate, DeploymentStatus


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of a model; a `max_prompt_bytes` of 0 means no limit."""

    node_pool: str
    min_prompt_bytes: int
    max_prompt_bytes: int

    @classmethod
    def of(cls, spec: DeploymentCreate) -> "Lane":
        """The lane of a deployment."""
        return cls(spec.node_pool or COMMUNITY, spec.min_prompt_bytes, spec.max_prompt_bytes)

    def takes(self, prompt_bytes: int) -> bool:
        """Whether the lane serves a prompt of this size: the minimum is inclusive, the maximum exclusive."""
        below = not self.max_prompt_bytes or prompt_bytes < self.max_prompt_bytes
        return self.min_prompt_bytes <= prompt_bytes and below

    def __str__(self) -> str:
        ceiling = f"below {self.max_prompt_bytes}" if self.max_prompt_bytes else "unbounded"
        return f"pool {self.node_pool}, prompts from {self.min_prompt_bytes} bytes, {ceiling}"


def members(tx: Tx, spec: DeploymentCreate) -> list[Deployment]:
    """The live members of a deployment's lane, the oldest first."""
    lane = Lane.of(spec)
    of_model = {"catalog_id": spec.organization_id, "public_model_id": spec.public_model_id, "gone_at": None}
    return [
        each
        for each in DEPLOYMENTS.all(tx, **of_model)
        if not each.spec.isolated and each.status is not DeploymentStatus.DRAINING and Lane.of(each.spec) == lane
    ]


def require_entry(spec: DeploymentCreate, present: Sequence[Deployment]) -> None:
    """Refuse a deployment that may not enter its lane: 400 or 409 for a green one, LANE_INTENT_REQUIRED for others."""
    named = ", ".join(each.id for each in present)
    if spec.rollout_role == GREEN:
        if not present:
            raise ApiError(
                400, f"rolloutRole: a green replaces what its lane has, and this one is empty ({_of(spec)})."
            )
        greens = [each.id for each in present if each.spec.rollout_role == GREEN]
        if greens:
            raise ApiError(409, f"The lane ({_of(spec)}) has a live green already: {greens[0]}.")
    elif present and not spec.isolated and not spec.acknowledge_lane_join:
        raise ApiError(
            409,
            f"The lane ({_of(spec)}) has live deployments already: {named}. Send acknowledgeLaneJoin true to join "
            "them, or rolloutRole green to replace them.",
            "LANE_INTENT_REQUIRED",
            whole=True,  # it names every member
        )


def _of(spec: DeploymentCreate) -> str:
    return f"model {spec.public_model_id}, {Lane.of(spec)}"

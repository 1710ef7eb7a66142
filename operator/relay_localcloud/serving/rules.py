"""What the fields of a deployment must be together (section 2, "Serving deployment"), as one table; no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from relay_localcloud.http.errors import ApiError
from relay_localcloud.replicas.states import MOST_REPLICAS
from relay_wire.serving import GREEN, DeploymentCreate


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold, and the sentence of the 400 where it does not."""

    holds: Callable[[DeploymentCreate], bool]
    otherwise: str


LASTING: Final = (
    Rule(lambda d: d.replicas_max <= MOST_REPLICAS, f"replicasMax: at most {MOST_REPLICAS}."),
    Rule(lambda d: d.replicas_min <= d.replicas_max, "replicasMin: it cannot be above replicasMax."),
    Rule(
        lambda d: d.replicas_min <= d.replicas_desired <= d.replicas_max,
        "replicasDesired: it lies within replicasMin and replicasMax.",
    ),
    Rule(
        lambda d: not d.max_prompt_bytes or d.min_prompt_bytes < d.max_prompt_bytes,
        "minPromptBytes: the floor lies below the ceiling maxPromptBytes.",
    ),
    Rule(
        lambda d: not (d.isolated and d.backend_weight),
        "backendWeight: an isolated deployment is never published, so its weight is 0.",
    ),
    Rule(
        lambda d: not (d.isolated and d.rollout_role),
        "rolloutRole: an isolated deployment is never published, so it is no green.",
    ),
    Rule(lambda d: d.replica_runtime != "pod" or bool(d.weights_ref), "weightsRef: the replicaRuntime pod needs it."),
)
"""What holds all along."""

AT_START: Final = (
    *LASTING,
    Rule(
        lambda d: d.rollout_role != GREEN or d.backend_weight == 0,
        "backendWeight: a green starts at 0; give it weight once it runs.",
    ),
)
"""What holds when a deployment is made."""


def require(rules: tuple[Rule, ...], spec: DeploymentCreate) -> None:
    """Refuse with 400 what breaks a rule, the first of them named."""
    for rule in rules:
        if not rule.holds(spec):
            raise ApiError(400, rule.otherwise)

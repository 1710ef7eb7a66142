"""The creation and change of a deployment: their checks, its row and its replicas."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from relay_localcloud.capacity import catalog, claims, offers
from relay_localcloud.capacity.nodes import COMMUNITY
from relay_localcloud.faults import quotes
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.outcomes import decided
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models.backends import BACKENDS
from relay_localcloud.models.built_in import BUILT_IN
from relay_localcloud.money import billing
from relay_localcloud.quotas import quotas
from relay_localcloud.replicas.states import MOST_REPLICAS, ReplicaState
from relay_localcloud.serving import lanes, moves
from relay_localcloud.serving.moves import REPLICAS
from relay_localcloud.serving.rows import DEPLOYMENTS, Deployment
from relay_localcloud.serving.states import NOT_READY, TRANSITIONS, Trigger
from relay_localcloud.workloads import container
from relay_wire.inference import MOST
from relay_wire.serving import GREEN, DeploymentChange, DeploymentCreate, DeploymentStatus, EngineSettings


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a deployment, and the message of the 400 if it does not hold."""

    holds: Callable[[DeploymentCreate], bool]
    otherwise: str


LASTING: Final = (
    Rule(lambda d: d.replicas_max <= MOST_REPLICAS, f"replicasMax: at most {MOST_REPLICAS}."),
    Rule(lambda d: d.replicas_min <= d.replicas_max, "replicasMin: it cannot be above replicasMax."),
    Rule(
        lambda d: d.replicas_min <= d.replicas_desired <= d.replicas_max,
        "replicasDesired: it must be from replicasMin to replicasMax.",
    ),
    Rule(
        lambda d: not d.max_prompt_bytes or d.min_prompt_bytes < d.max_prompt_bytes,
        "minPromptBytes: it must be below maxPromptBytes.",
    ),
    Rule(
        lambda d: not (d.isolated and d.backend_weight),
        "backendWeight: an isolated deployment is never published, so its weight is 0.",
    ),
    Rule(
        lambda d: not (d.isolated and d.rollout_role),
        "rolloutRole: an isolated deployment is never published, so it cannot be a green.",
    ),
    Rule(lambda d: d.replica_runtime != "pod" or bool(d.weights_ref), "weightsRef: the replicaRuntime pod needs it."),
)
"""Rules for a deployment at any time."""

AT_START: Final = (
    *LASTING,
    Rule(
        lambda d: d.rollout_role != GREEN or d.backend_weight == 0,
        "backendWeight: a green starts at 0; give it weight once it runs.",
    ),
)
"""Rules for a deployment at its creation."""


def create(tx: Tx, spec: DeploymentCreate, price_factor: float) -> Deployment:
    """Create a deployment and place its replicas; ApiError with a capacity code if none of them finds room."""
    _require(AT_START, spec)
    container.check_variables("env", spec.env or {})
    _require_in_catalog(tx, spec)
    offers.require_image(tx, "engineImage", spec.engine_image)
    model = catalog.gpu_model(spec.gpu_model_id)
    lanes.require_entry(spec, lanes.members(tx, spec))
    billing.require_funds(tx, spec.organization_id)
    kept = _kept(spec)
    request_bytes = quotas.request_bytes(kept, spec.replicas_desired)
    quotas.require(tx, spec.organization_id, {quotas.DEPLOYMENTS: 1, quotas.REQUEST_BYTES: request_bytes})
    _require_replicas(tx, spec, spec.replicas_desired)
    made = DEPLOYMENTS.insert(
        tx,
        id=tx.new_id("dep"),
        organization_id=spec.organization_id,
        catalog_id=spec.organization_id,
        public_model_id=spec.public_model_id,
        node_pool=spec.node_pool or COMMUNITY,
        min_prompt_bytes=spec.min_prompt_bytes,
        max_prompt_bytes=spec.max_prompt_bytes,
        status=DeploymentStatus.PROVISIONING,
        generation=1,
        replica_price_cents=quotes.locked(model.price_per_hour_cents * spec.gpu_count_per_replica, price_factor),
        spec=kept,
        created_at=tx.now,
        updated_at=tx.now,
    )
    claims.require_holdable(tx, made.demand)  # also if it has no replica yet
    made = moves.settle(tx, made)
    REPLICAS.require_more(tx, made, had=0)
    return made


def change(tx: Tx, deployment: Deployment, asked: DeploymentChange) -> Deployment:
    """Change the spec of a deployment, and promote it if that is requested; ApiError 409 if its status forbids it."""
    changes = {name: value for name in asked.model_fields_set if (value := getattr(asked, name)) is not None}
    spec = deployment.spec.model_copy(update=changes)
    if spec.rollout_role == GREEN and deployment.spec.rollout_role != GREEN:
        raise ApiError(
            400, "rolloutRole: an existing deployment cannot become green; create another with rolloutRole green."
        )
    _require(LASTING, spec)
    container.check_variables("env", asked.env or {})
    trigger = _trigger(deployment, asked, spec)
    decided(TRANSITIONS[deployment.status, trigger])
    had = REPLICAS.staying(tx, deployment)
    generation = _generation(deployment, spec, had)
    grows = asked.replicas_desired is not None and spec.replicas_desired > deployment.wanted
    if grows:
        billing.require_funds(tx, deployment.organization_id)
        _require_replicas(tx, spec, spec.replicas_desired - deployment.wanted)
    if generation != deployment.generation:
        quotas.require(tx, deployment.organization_id, {quotas.USAGE_RECORDS: deployment.wanted})
    if grows or generation != deployment.generation:
        wanted = deployment.wanted if asked.replicas_desired is None else spec.replicas_desired
        more = quotas.request_bytes(_kept(spec), wanted) - quotas.request_bytes(deployment.spec, deployment.wanted)
        quotas.require(tx, deployment.organization_id, {quotas.REQUEST_BYTES: more})
    if trigger is Trigger.PROMOTE:
        spec = _promoted(tx, deployment, spec)
    changed = DEPLOYMENTS.changed(tx, deployment, spec=_kept(spec), generation=generation, updated_at=tx.now)
    after = moves.apply(tx, changed, trigger)
    if grows:
        REPLICAS.require_more(tx, after, had)
    return after


def _require_replicas(tx: Tx, spec: DeploymentCreate, more: int) -> None:
    """Refuse with 403 more replicas than the organization's quotas allow."""
    gpus = more * spec.gpu_count_per_replica
    quotas.require(tx, spec.organization_id, {quotas.REPLICAS: more, quotas.GPUS: gpus, quotas.USAGE_RECORDS: more})


def _require(rules: tuple[Rule, ...], spec: DeploymentCreate) -> None:
    """Refuse with 400 a spec that breaks a rule, with the message of the first one broken."""
    for rule in rules:
        if not rule.holds(spec):
            raise ApiError(400, rule.otherwise)


def _promoted(tx: Tx, green: Deployment, spec: DeploymentCreate) -> DeploymentCreate:
    """End a blue/green rollout (assumed): drain what the green deployment replaces, the other members of its lane.

    They drain at once, or with rolloutStrategy `rolling` at most the green's `maxUnavailable` replicas at a time, and
    are deleted after that. Returns the green's spec, which without a weight of its own takes over the sum of theirs.
    ApiError 409 until all its wanted replicas are healthy.
    """
    members = REPLICAS.of(tx, green.id)
    if sum(member.status is ReplicaState.HEALTHY for member in members) < green.wanted:
        raise ApiError(409, NOT_READY.message)
    replaced = [each for each in lanes.members(tx, spec) if each.id != green.id]
    leaving = spec.max_unavailable if spec.rollout_strategy == "rolling" else None
    for each in replaced:
        moves.apply(tx, each, Trigger.REPLACED, f"Replaced by {green.id}.", leaving=leaving)
    weight = spec.backend_weight or sum(each.spec.backend_weight for each in replaced)
    return spec.model_copy(update={"backend_weight": min(weight, MOST)})


def _kept(spec: DeploymentCreate) -> DeploymentCreate:
    return spec.model_copy(update={"acknowledge_lane_join": False})


def _require_in_catalog(tx: Tx, spec: DeploymentCreate) -> None:
    """Refuse with 422 a model that is not in the organization's catalog, or a ref that none of its backends has."""
    registered = BACKENDS.all(tx, organization_id=spec.organization_id, model_id=spec.public_model_id)
    refs = [row.ref for row in registered]
    if spec.public_model_id in BUILT_IN:
        refs.insert(0, spec.public_model_id)
    if not refs:
        raise ApiError(422, f"publicModelId: the catalog has no model {spec.public_model_id!r} with a price.")
    if spec.served_model_id not in refs:
        known = ", ".join(map(repr, dict.fromkeys(refs)))
        raise ApiError(422, f"servedModelId: it must equal the ref of a catalog backend of the model: {known}.")


def _trigger(deployment: Deployment, asked: DeploymentChange, spec: DeploymentCreate) -> Trigger:
    if deployment.spec.rollout_role != spec.rollout_role:
        return Trigger.PROMOTE
    return Trigger.CHANGE if asked.replicas_desired is None else Trigger.SCALE


def _generation(deployment: Deployment, spec: DeploymentCreate, had: int) -> int:
    if all(getattr(spec, name) == getattr(deployment.spec, name) for name in EngineSettings.model_fields):
        return deployment.generation
    if had and spec.rollout_strategy != "rolling":
        raise ApiError(
            409,
            "To change what its replicas run, create a deployment with rolloutRole green; with rolloutStrategy "
            "rolling, it can be changed in place.",
        )
    return deployment.generation + 1

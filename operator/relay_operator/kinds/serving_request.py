"""What a ServingDeployment asks for, by the cloud's field names, and how a deployment differs from it. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from relay_client import Conflict, Outcome
from relay_operator.api.inferencebackend import NativeFamily
from relay_operator.api.servingdeployment import Role, ServingDeploymentSpec, Strategy
from relay_operator.engine.report import REPLICAS_OUT_OF_BOUNDS
from relay_operator.kinds.comparison import differing
from relay_wire.serving import Deployment, DeploymentStatus

ENGINE: Final = frozenset({"version", "dtype", "quantization", "maxModelLen", "engineImage", "weightsRef", "extraArgs"})
"""Fields of what the replicas run; the spec has the same names."""
REPLICAS: Final = frozenset({"replicasMin", "replicasMax", "replicasDesired"})
OF_A_RUNNING_GREEN: Final = frozenset({"backendWeight", "rolloutRole"})
"""Fields that a green deployment gets only once all its replicas are healthy."""
_OF_ROLLOUTS: Final = frozenset({"maxConcurrencyPerReplica", "rolloutStrategy", "maxUnavailable"})
_IN_PLACE: Final = REPLICAS | OF_A_RUNNING_GREEN | _OF_ROLLOUTS
_OPTIONAL: Final = ENGINE | {"nodePool"}
"""Fields that a create sends only if the spec has them."""
_COMMUNITY: Final = "community"
"""The pool of a deployment that was created without one (assumed)."""
_AS_WRITTEN: Final = {
    "public_model_id",
    "engine",
    "served_model_id",
    "node_pool",
    "isolated",
    "replica_runtime",
    "max_concurrency_per_replica",
    "version",
    "dtype",
    "quantization",
    "max_model_len",
    "engine_image",
    "weights_ref",
    "extra_args",
}
"""Fields that a request has as the spec has them."""
_ATTRIBUTES: Final[Mapping[str, str]] = {to_camel(name): name for name in Deployment.model_fields}
"""The attributes of a deployment, by the cloud's names."""


def sent(spec: ServingDeploymentSpec) -> dict[str, JsonValue]:
    """What a create sends, without the GPU model and the environment; a green deployment starts with weight 0."""
    families = [family.value for family in spec.native_families or (NativeFamily.CHAT_COMPLETIONS,)]
    return {
        **spec.model_dump(mode="json", include=_AS_WRITTEN, exclude_none=True),
        "nativeFamilies": list[JsonValue](sorted(families)),
        "gpuCountPerReplica": spec.gpu.count,
        "replicasMin": spec.replicas.min,
        "replicasMax": spec.replicas.max,
        "replicasDesired": spec.replicas.desired,
        "minPromptBytes": spec.prompt_bytes.min,
        "maxPromptBytes": spec.prompt_bytes.max,
        "rolloutRole": spec.rollout.role.value,
        "rolloutStrategy": spec.rollout.strategy.value,
        "maxUnavailable": spec.rollout.max_unavailable,
        "backendWeight": 0 if spec.rollout.role is Role.GREEN else spec.backend_weight or 0,
    }


def lasting(spec: ServingDeploymentSpec) -> Mapping[str, JsonValue]:
    """The fields that a deployment keeps for its life."""
    return {name: value for name, value in sent(spec).items() if name not in ENGINE | _IN_PLACE}


def settings(spec: ServingDeploymentSpec) -> Mapping[str, JsonValue]:
    """Which fields of `ENGINE` the spec sets, whatever their values."""
    return dict.fromkeys(ENGINE & sent(spec).keys(), True)


def taken_out(spec: ServingDeploymentSpec, row: Deployment, created_with: Collection[str]) -> tuple[str, ...]:
    """The fields of the create that the spec has no longer and the deployment still has: no request clears a field."""
    gone = sorted(_more(_unset(sent(spec)), row).intersection(created_with))
    return tuple(f"{name}: taken out of the spec, and the cloud cannot clear it" for name in gone)


def those_like(spec: ServingDeploymentSpec, rows: Iterable[Deployment]) -> Iterable[Deployment]:
    """The deployments that have everything that a create sends, and nothing else.

    Of the environment, the values that the spec does not write out may differ. What is asked is worked out once for all
    rows, of which most differ in a field that is cheap to compare.
    """
    asked, models = sent(spec), spec.gpu.candidates
    unset, families = _unset(asked), asked.pop("nativeFamilies")
    in_turn = sorted(asked.items(), key=lambda item: isinstance(item[1], list))  # arguments after texts and numbers
    plain = [(_ATTRIBUTES[name], value) for name, value in in_turn]
    variables = {item.name: item.value for item in spec.env or ()}
    written = {name: value for name, value in variables.items() if value is not None}

    def is_like(row: Deployment) -> bool:
        env = row.env or {}
        return (
            row.gpu_model_id in models
            and all(getattr(row, name) == value for name, value in plain)
            and sorted(row.native_families or ()) == families
            and not _more(unset, row)
            and written.items() <= env.items()
            and env.keys() <= variables.keys()
        )

    return filter(is_like, rows)


def lasting_differences(spec: ServingDeploymentSpec, row: Deployment) -> tuple[str, ...]:
    """`field: asked X, has Y` of what cannot be changed.

    What the replicas run is among it, unless the rollout strategy replaces replicas in place.
    """
    has, asked = _shown(row), sent(spec)
    rolling = spec.rollout.strategy is Strategy.ROLLING
    differing_engine = (
        f"{name}: asked {asked[name]}, has {has[name]}, and rollout.strategy: rolling would change it in place"
        for name in sorted(ENGINE & asked.keys())
        if not rolling and has[name] != asked[name]
    )
    return (*differences_for_life(spec, row), *differing_engine)


def differences_for_life(spec: ServingDeploymentSpec, row: Deployment) -> tuple[str, ...]:
    """`field: asked X, has Y` of what a deployment keeps for its life."""
    has = _shown(row)
    of_life = ((name, value, has[name]) for name, value in lasting(spec).items())
    return differing(("gpu.modelIds", spec.gpu.candidates, row.gpu_model_id), *of_life)


def changed(spec: ServingDeploymentSpec, row: Deployment) -> dict[str, JsonValue]:
    """The new values of fields that the cloud can change in place; skips those that the deployment does not report."""
    has, asked = _shown(row), sent(spec) | {"backendWeight": spec.backend_weight}
    in_place = {
        name: asked[name] for name in _IN_PLACE if None not in (asked[name], has[name]) and has[name] != asked[name]
    }
    return in_place | {name: asked[name] for name in ENGINE & asked.keys() if has[name] != asked[name]}


def there(row: Deployment) -> int:
    """The replicas that the cloud was asked for, and that have not been stopped."""
    return 0 if row.status == DeploymentStatus.STOPPED else row.replicas_desired or 0


def is_within(spec: ServingDeploymentSpec) -> bool:
    """Whether the desired replicas are within their bounds."""
    return spec.replicas.min <= spec.replicas.desired <= spec.replicas.max


def require_within(spec: ServingDeploymentSpec, operation: str) -> None:
    """Raises Conflict if the desired replicas are out of their bounds."""
    if not is_within(spec):
        bounds = spec.replicas
        text = (
            f"replicas.desired is {bounds.desired}, and {bounds.min} to {bounds.max} are allowed: scale it to what "
            "lies between, or change replicas.min or replicas.max"
        )
        raise Conflict(operation, text, code=REPLICAS_OUT_OF_BOUNDS, outcome=Outcome.NOT_SENT)


def _unset(asked: Mapping[str, JsonValue]) -> Mapping[str, str | None]:
    """Optional fields that a create does not send, and what a deployment has in their place."""
    return {name: _COMMUNITY if name == "nodePool" else None for name in _OPTIONAL - asked.keys()}


def _more(unset: Mapping[str, str | None], row: Deployment) -> set[str]:
    """Those of the fields that the deployment has all the same."""
    return {name for name, value in unset.items() if (has := getattr(row, _ATTRIBUTES[name])) and has != value}


def _shown(row: Deployment) -> Mapping[str, JsonValue]:
    families = sorted(row.native_families) if row.native_families is not None else None
    return row.model_dump(mode="json") | {"nativeFamilies": families}

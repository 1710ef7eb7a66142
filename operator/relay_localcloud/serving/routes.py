"""Serving deployments (section 2, "Serving deployment"; their operations are assumed).

A deployment is published in the catalog, so its writes need what those of backends need: an owner's or admin's session,
or a key with `org:write`.
"""

from functools import partial
from typing import Annotated, Final

from starlette.requests import Request

from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ADMINS, Principal, ResourceId, Rule, ServingReader, require
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import members
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.serving import admission, moves
from relay_localcloud.serving.moves import REPLICAS
from relay_localcloud.serving.rows import DEPLOYMENTS, Deployment, find
from relay_localcloud.serving.states import Trigger
from relay_wire import serving as wire
from relay_wire.serving import DeploymentChange, DeploymentCreate, DeploymentPage

router = Router("Serving")

_ADMINISTRATION: Final = Rule(frozenset({"org:write"}), ADMINS)


async def _creator(request: Request, cloud: CurrentCloud) -> Principal:
    """The caller, whose role counts in the organization that the body names; ApiError 403 for one without any such."""
    caller = exchange_of(request.scope).principal
    assert caller is not None  # Authentication has refused all others
    with cloud.store.transaction() as tx:
        administers = caller.user_id is not None and members.administers(tx, caller.user_id)
    return caller.check(_ADMINISTRATION, None if administers else caller.organization_id)


async def _changer(
    caller: Annotated[Principal, require("org:write", roles=ADMINS)], deployment_id: ResourceId, cloud: CurrentCloud
) -> Principal:
    """The caller, who may change the deployment: that depends on the role in its organization, at home or not."""
    with cloud.store.transaction() as tx:
        _visible(tx, caller, deployment_id)
    return caller


DeploymentCreator = Annotated[Principal, Depends(_creator)]
DeploymentWriter = Annotated[Principal, Depends(_changer)]


@router.post(
    "/v1/serving/deployments",
    summary="Serve a model on GPUs",
    openapi_extra=ASSUMED,
)
def create_deployment(
    caller: DeploymentCreator, body: Body[DeploymentCreate], factor: PriceFactor, tx: Tx
) -> wire.Deployment:
    """Answers the deployment. If there is room for only some replicas, it is degraded until the others find room."""
    caller.check(caller.rule, body.organization_id)
    require_offered(tx, Noun.DEPLOYMENT)
    return _shown(tx, caller, admission.create(tx, body, factor))


@router.get(
    "/v1/serving/deployments",
    response_model=DeploymentPage,
    summary="List serving deployments",
    openapi_extra=ASSUMED,
)
def list_deployments(caller: ServingReader, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers the organization's deployments, newest first, draining ones too; about 1,000 replicas on a page."""
    rows = partial(DEPLOYMENTS.page, tx, organization_id=caller.organization_id, gone_at=None)
    shown, parts = partial(_shown, tx, caller), partial(moves.REPLICAS.count, tx)
    return page.newest("serving deployments", caller.organization_id, rows, shown, parts)


@router.get(
    "/v1/serving/deployments/{id}",
    summary="A serving deployment",
    openapi_extra=ASSUMED,
)
def get_deployment(caller: ServingReader, deployment_id: ResourceId, tx: Tx) -> wire.Deployment:
    """Answers the deployment with its replicas, without `env` and `extraArgs` for callers who may not change it."""
    return _shown(tx, caller, _visible(tx, caller, deployment_id))


@router.patch(
    "/v1/serving/deployments/{id}",
    summary="Scale, weigh, roll out or promote a serving deployment",
    openapi_extra=ASSUMED,
)
def change_deployment(
    caller: DeploymentWriter, deployment_id: ResourceId, body: Body[DeploymentChange], tx: Tx
) -> wire.Deployment:
    """Answers the deployment; 409 if its status does not allow it."""
    return _shown(tx, caller, admission.change(tx, _visible(tx, caller, deployment_id), body))


@router.delete(
    "/v1/serving/deployments/{id}",
    status_code=204,
    summary="Drain and delete a serving deployment",
    openapi_extra=ASSUMED,
)
def delete_deployment(caller: DeploymentWriter, deployment_id: ResourceId, tx: Tx) -> None:
    """From now on it gets no requests; it finishes those under way and releases its GPUs, and is a 404 after that."""
    moves.apply(tx, _visible(tx, caller, deployment_id), Trigger.DELETE, "It was deleted.")


def _visible(tx: Tx, caller: Principal, deployment_id: str) -> Deployment:
    deployment = find(tx, deployment_id)
    if deployment is None:
        raise not_found("deployment", deployment_id)
    caller.admit(deployment.organization_id, "deployment", deployment_id)
    return deployment


def _shown(tx: Tx, caller: Principal, deployment: Deployment) -> wire.Deployment:
    """The spec with the defaults of section 2, the status and the replicas."""
    replicas = REPLICAS.of(tx, deployment.id)
    secret = set() if caller.holds("org:write", deployment.organization_id) else {"env", "extra_args"}
    asked = deployment.spec.model_dump(by_alias=True, exclude={"acknowledge_lane_join"} | secret)
    return wire.Deployment.model_validate(
        {
            **asked,
            **shown(deployment, "id", "node_pool", "status", "status_reason", "created_at", "updated_at"),
            "replicasReady": sum(replica.status is ReplicaState.HEALTHY for replica in replicas),
            "pricePerHourCents": deployment.replica_price_cents,
            "replicas": [_replica(deployment, replica) for replica in replicas],
        }
    )


def _replica(deployment: Deployment, replica: Replica) -> dict[str, object]:
    return {
        **shown(replica, "id", "node_id", "engine_image", "created_at", "started_at"),
        "status": REPLICAS.shown_status(replica),
        "healthy": replica.status is ReplicaState.HEALTHY,
        "gpuCount": deployment.spec.gpu_count_per_replica,
    }

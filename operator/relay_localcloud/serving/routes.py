"""Serving deployments (section 2, "Serving deployment"; their operations are assumed).

A deployment is published in the catalog, so its writes take what backends take: an owner's or admin's session, or a
key with `org:write`.
"""

from functools import partial

from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import CatalogWriter, Principal, ResourceId, ServingReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving import admission, moves
from relay_localcloud.serving import rows as deployments
from relay_localcloud.serving.records import shown
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.serving.states import Trigger
from relay_wire import serving as wire
from relay_wire.serving import DeploymentChange, DeploymentCreate, DeploymentPage

router = Router("Serving")


@router.post(
    "/v1/serving/deployments",
    summary="Serve a model on GPUs",
    openapi_extra=ASSUMED,
)
def create_deployment(
    caller: CatalogWriter, body: Body[DeploymentCreate], factor: PriceFactor, tx: Tx
) -> wire.Deployment:
    """Answers the deployment. With room for some replicas only it is degraded until the others find room."""
    caller.check(caller.rule, body.organization_id)
    return _shown(tx, admission.create(tx, body, factor))


@router.get(
    "/v1/serving/deployments",
    response_model=DeploymentPage,
    summary="List serving deployments",
    openapi_extra=ASSUMED,
)
def list_deployments(caller: ServingReader, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers those of the caller's organization, newest first; draining ones are among them."""
    rows = partial(deployments.page, tx.connection, caller.organization_id)
    return page.newest("serving deployments", caller.organization_id, rows, partial(_shown, tx))


@router.get(
    "/v1/serving/deployments/{id}",
    summary="A serving deployment",
    openapi_extra=ASSUMED,
)
def get_deployment(caller: ServingReader, deployment_id: ResourceId, tx: Tx) -> wire.Deployment:
    """Answers it with its replicas."""
    return _shown(tx, _visible(tx, caller, deployment_id))


@router.patch(
    "/v1/serving/deployments/{id}",
    summary="Scale, weigh, roll out or promote a serving deployment",
    openapi_extra=ASSUMED,
)
def change_deployment(
    caller: CatalogWriter, deployment_id: ResourceId, body: Body[DeploymentChange], tx: Tx
) -> wire.Deployment:
    """Answers the deployment; 409 where its status does not allow it."""
    return _shown(tx, admission.change(tx, _visible(tx, caller, deployment_id), body))


@router.delete(
    "/v1/serving/deployments/{id}",
    status_code=204,
    summary="Drain and delete a serving deployment",
    openapi_extra=ASSUMED,
)
def delete_deployment(caller: CatalogWriter, deployment_id: ResourceId, tx: Tx) -> None:
    """It takes no requests from here on, ends what is under way, gives back its GPUs and is 404 then."""
    moves.apply(tx, _visible(tx, caller, deployment_id), Trigger.DELETE, "It was deleted.")


def _visible(tx: Tx, caller: Principal, deployment_id: str) -> Deployment:
    deployment = deployments.find(tx, deployment_id)
    if deployment is None:
        raise not_found("deployment", deployment_id)
    caller.admit(deployment.organization_id, "deployment", deployment_id)
    return deployment


def _shown(tx: Tx, deployment: Deployment) -> wire.Deployment:
    return shown(deployment, moves.REPLICAS.of(tx.connection, deployment.id))

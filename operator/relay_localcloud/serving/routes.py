"""Serving deployments (section 2, "Serving deployment"; their operations are assumed).

A deployment is published in the catalog, so its writes take what backends take: an owner's or admin's session, or a
key with `org:write`.
"""

from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body, answer, no_content
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import CatalogWriter, Principal, ResourceId, ServingReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving import admission, moves, rows
from relay_localcloud.serving.records import shown
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.serving.states import Trigger
from relay_wire import serving as wire
from relay_wire.serving import DeploymentChange, DeploymentCreate, DeploymentPage

router = Router("Serving")

LISTING = "serving deployments"


@router.post(
    "/v1/serving/deployments",
    response_model=wire.Deployment,
    summary="Serve a model on GPUs",
    openapi_extra=ASSUMED,
)
async def create_deployment(
    caller: CatalogWriter,
    body: Body[DeploymentCreate],
    factor: PriceFactor,
    cloud: CurrentCloud,
) -> Response:
    """Answers the deployment. With room for some replicas only it is degraded until the others find room."""
    caller.check(caller.rule, body.organization_id)
    with cloud.store.transaction() as tx:
        made = _shown(tx, admission.create(tx, body, factor))
    return answer(made)


@router.get(
    "/v1/serving/deployments",
    response_model=DeploymentPage,
    summary="List serving deployments",
    openapi_extra=ASSUMED,
)
async def list_deployments(caller: ServingReader, page: PageRequest, cloud: CurrentCloud) -> Response:
    """Answers those of the caller's organization, newest first; draining ones are among them."""
    place = page.after(LISTING, caller.organization_id)
    before = None if place is None else int(str(place[0]))
    with cloud.store.transaction() as tx:
        found = rows.page(tx.connection, caller.organization_id, before, page.limit + 1)
        records = {each.id: _shown(tx, each) for each in found[: page.limit]}
    listed = page.of(
        LISTING, caller.organization_id, found, lambda each: records[each.id], lambda each: [each.sequence]
    )
    return answer(listed)


@router.get(
    "/v1/serving/deployments/{id}",
    response_model=wire.Deployment,
    summary="A serving deployment",
    openapi_extra=ASSUMED,
)
async def get_deployment(caller: ServingReader, deployment_id: ResourceId, cloud: CurrentCloud) -> Response:
    """Answers it with its replicas."""
    with cloud.store.transaction() as tx:
        found = _shown(tx, _visible(tx, caller, deployment_id))
    return answer(found)


@router.patch(
    "/v1/serving/deployments/{id}",
    response_model=wire.Deployment,
    summary="Scale, weigh, roll out or promote a serving deployment",
    openapi_extra=ASSUMED,
)
async def change_deployment(
    caller: CatalogWriter,
    deployment_id: ResourceId,
    body: Body[DeploymentChange],
    cloud: CurrentCloud,
) -> Response:
    """Answers the deployment; 409 where its status does not allow it."""
    with cloud.store.transaction() as tx:
        changed = _shown(tx, admission.change(tx, _visible(tx, caller, deployment_id), body))
    return answer(changed)


@router.delete(
    "/v1/serving/deployments/{id}",
    status_code=204,
    summary="Drain and delete a serving deployment",
    openapi_extra=ASSUMED,
)
async def delete_deployment(caller: CatalogWriter, deployment_id: ResourceId, cloud: CurrentCloud) -> Response:
    """It takes no requests from here on, ends what is under way, gives back its GPUs and is 404 then."""
    with cloud.store.transaction() as tx:
        moves.apply(tx, _visible(tx, caller, deployment_id), Trigger.DELETE, "It was deleted.")
    return no_content()


def _visible(tx: Tx, caller: Principal, deployment_id: str) -> Deployment:
    deployment = rows.find(tx, deployment_id)
    if deployment is None:
        raise not_found("deployment", deployment_id)
    caller.admit(deployment.organization_id, "deployment", deployment_id)
    return deployment


def _shown(tx: Tx, deployment: Deployment) -> wire.Deployment:
    return shown(deployment, moves.REPLICAS.of(tx.connection, deployment.id))

"""Catalog backends, on the management port: real OpenAI-compatible servers for a model id (all assumed).

Sessions of owners and admins, and keys with `org:write`, may register them, each for its own organization. The built-in
engine and the organization's published deployments are listed with them, under their own ids.
"""

from typing import Annotated, Final

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest, among
from relay_localcloud.http.principal import CatalogWriter, Principal, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models import backends
from relay_localcloud.models.backends import BACKENDS, BUILT_IN_ENDPOINT, Registered
from relay_localcloud.models.built_in import BUILT_IN, BuiltInModel
from relay_localcloud.quotas import quotas
from relay_localcloud.serving import traffic
from relay_localcloud.serving.traffic import Published
from relay_wire.base import Page
from relay_wire.inference import Backend, BackendCreate, BackendUpdate, CatalogModel

router = Router("Inference catalog")

ModelId = Annotated[CatalogModel, Path("modelId")]

_AFTER_SERVERS: Final = 10**15
"""Below the places of all deployments, and above those of all servers."""
_BACKENDS: Final = "/v1/inference/models/{modelId}/backends"
_BACKEND: Final = f"{_BACKENDS}/{{id}}"


@router.post(_BACKENDS, summary="Put a server behind a model", openapi_extra=ASSUMED)
def create_backend(
    caller: CatalogWriter, model_id: ModelId, body: Body[BackendCreate], cloud: CurrentCloud, tx: Tx
) -> Backend:
    """Makes the model if there is none; weight 0 keeps the server in the overflow tail."""
    _require_base_address(body.endpoint)
    quotas.require(tx, caller.organization_id, {quotas.BACKENDS: 1})
    return _shown(backends.add(tx, cloud.vault, caller.organization_id, model_id, body))


@router.get(_BACKENDS, response_model=Page[Backend], summary="The servers behind a model", openapi_extra=ASSUMED)
def list_backends(caller: CatalogWriter, model_id: ModelId, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers a page: the built-in engine, servers, then deployments, each the oldest first."""
    placed = _behind(tx, caller, model_id)
    if not placed:
        raise not_found("model", model_id)
    return page.oldest(f"backends of {model_id}", caller.organization_id, among(placed), lambda each: each)


@router.get(_BACKEND, summary="A server behind a model", openapi_extra=ASSUMED)
def get_backend(caller: CatalogWriter, model_id: ModelId, backend_id: ResourceId, tx: Tx) -> Backend:
    """Answers it without its key."""
    found = next((each for _, each in _behind(tx, caller, model_id) if each.id == backend_id), None)
    if found is None:
        raise not_found("backend", backend_id)
    return found


@router.patch(_BACKEND, summary="Change a server behind a model", openapi_extra=ASSUMED)
def change_backend(
    caller: CatalogWriter,
    model_id: ModelId,
    backend_id: ResourceId,
    body: Body[BackendUpdate],
    cloud: CurrentCloud,
    tx: Tx,
) -> Backend:
    """Counts from the next request on; 409 for the built-in engine and for deployments, as DELETE."""
    if body.endpoint is not None:
        _require_base_address(body.endpoint)
    return _shown(backends.change(tx, cloud.vault, _registered(tx, caller, model_id, backend_id), body))


@router.delete(_BACKEND, status_code=204, summary="Take a server from behind a model", openapi_extra=ASSUMED)
def delete_backend(caller: CatalogWriter, model_id: ModelId, backend_id: ResourceId, tx: Tx) -> None:
    """What is under way there ends as it would have; a model without any backend is gone.

    409 for the built-in engine, and for deployments, which have a DELETE of their own.
    """
    BACKENDS.remove(tx, id=_registered(tx, caller, model_id, backend_id).id)


def _behind(tx: Tx, caller: Principal, model_id: str) -> list[tuple[int, Backend]]:
    """What answers for a model, each with its place in the list."""
    built_in = [(0, _shown_built_in(BUILT_IN[model_id]))] if model_id in BUILT_IN else []
    rows = BACKENDS.all(tx, organization_id=caller.organization_id, model_id=model_id)
    published = traffic.of_organization(tx, caller.organization_id)
    return [
        *built_in,
        *((row.sequence, _shown(row)) for row in rows),
        *((_AFTER_SERVERS + each.sequence, _shown_deployment(each)) for each in published if each.model_id == model_id),
    ]


def _registered(tx: Tx, caller: Principal, model_id: str, backend_id: str) -> Registered:
    found = BACKENDS.find(tx, id=backend_id, organization_id=caller.organization_id, model_id=model_id)
    if found is not None:
        return found
    other = next((each for _, each in _behind(tx, caller, model_id) if each.id == backend_id), None)
    if other is None:
        raise not_found("backend", backend_id)
    if other.endpoint == BUILT_IN_ENDPOINT:
        raise ApiError(409, "The built-in engine stays as it is; give another backend a weight instead.")
    raise ApiError(409, f"A deployment publishes it: change /v1/serving/deployments/{backend_id} instead.")


def _require_base_address(endpoint: str) -> None:
    if not is_base_address(endpoint):
        raise ApiError(
            400,
            "endpoint: give an http or https address without credentials, query and fragment, such as "
            "https://host.example/v1.",
        )


def _shown(row: Registered) -> Backend:
    return Backend.model_validate(shown(row))


def _shown_deployment(deployment: Published) -> Backend:
    return Backend(
        id=deployment.id,
        model_id=deployment.model_id,
        provider="openai_compatible",
        ref=deployment.served_model_id,
        endpoint=f"local://{deployment.id}",
        native_families=sorted(deployment.apis),
        auth="none",
        transport="direct",
        weight=deployment.weight,
        max_concurrency=deployment.cap * max(1, len(deployment.replicas)),
        created_at=timestamp(deployment.created_at),
    )


def _shown_built_in(model: BuiltInModel) -> Backend:
    return Backend(
        id=f"bke_{model.id}",
        model_id=model.id,
        provider="openai_compatible",
        ref=model.id,
        endpoint=BUILT_IN_ENDPOINT,
        native_families=[family.api for family in model.families],
        auth="none",
        transport="direct",
        weight=0,
        max_concurrency=0,
        created_at=timestamp(0),
    )

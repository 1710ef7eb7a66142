"""Catalog backends, on the management port: real OpenAI-compatible servers behind a model id (all assumed).

Sessions of owners and admins, and keys with `org:write`, may register them, each for its own organization. The built-in
engine and the deployments that the organization has published are shown beside them, under their own ids.
"""

import json
from typing import Annotated, Final

from pydantic import Field
from sqlalchemy import RowMapping, delete

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import CatalogWriter, Principal, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models import backends
from relay_localcloud.models.backends import BUILT_IN_ENDPOINT, inference_backends
from relay_localcloud.models.built_in import BUILT_IN, BuiltInModel
from relay_localcloud.serving import traffic
from relay_localcloud.serving.traffic import Published
from relay_wire.base import Items
from relay_wire.inference import Backend, BackendCreate, BackendUpdate

router = Router("Inference catalog")

ModelId = Annotated[str, Path("modelId"), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$")]


_BACKENDS: Final = "/v1/inference/models/{modelId}/backends"
_BACKEND: Final = f"{_BACKENDS}/{{id}}"


@router.post(_BACKENDS, summary="Put a server behind a model", openapi_extra=ASSUMED)
def create_backend(
    caller: CatalogWriter, model_id: ModelId, body: Body[BackendCreate], cloud: CurrentCloud, tx: Tx
) -> Backend:
    """Makes the model where there is none; weight 0 keeps the server in the overflow tail."""
    _require_base_address(body.endpoint)
    backend_id = backends.add(tx, cloud.vault, caller.organization_id, model_id, body)
    return _shown(_row(tx, caller, model_id, backend_id))


@router.get(_BACKENDS, summary="The servers behind a model", openapi_extra=ASSUMED)
def list_backends(caller: CatalogWriter, model_id: ModelId, tx: Tx) -> Items[Backend]:
    """Answers `{items}`: the built-in engine, servers, then deployments, each the oldest first."""
    built_in = BUILT_IN.get(model_id)
    items = [] if built_in is None else [_shown_built_in(built_in)]
    items += [_shown(row) for row in backends.rows_of(tx, caller.organization_id, model_id)]
    items += [_shown_deployment(each) for each in _published(tx, caller, model_id)]
    if not items:
        raise not_found("model", model_id)
    return Items(items=items)


@router.get(_BACKEND, summary="A server behind a model", openapi_extra=ASSUMED)
def get_backend(caller: CatalogWriter, model_id: ModelId, backend_id: ResourceId, tx: Tx) -> Backend:
    """Answers it without its key."""
    if backend_id == _built_in_id(model_id) and model_id in BUILT_IN:
        return _shown_built_in(BUILT_IN[model_id])
    found = next((each for each in _published(tx, caller, model_id) if each.id == backend_id), None)
    return _shown(_row(tx, caller, model_id, backend_id)) if found is None else _shown_deployment(found)


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
    _require_registered(tx, caller, model_id, backend_id)
    backends.change(tx, cloud.vault, caller.organization_id, backend_id, body)
    return _shown(_row(tx, caller, model_id, backend_id))


@router.delete(_BACKEND, status_code=204, summary="Take a server from behind a model", openapi_extra=ASSUMED)
def delete_backend(caller: CatalogWriter, model_id: ModelId, backend_id: ResourceId, tx: Tx) -> None:
    """What is under way there ends as it would have; a model without any backend is gone.

    409 for the built-in engine, and for deployments, which have a DELETE of their own.
    """
    _require_registered(tx, caller, model_id, backend_id)
    tx.connection.execute(delete(inference_backends).where(inference_backends.c.id == backend_id))


def _row(tx: Tx, caller: Principal, model_id: str, backend_id: str) -> RowMapping:
    rows = backends.rows_of(tx, caller.organization_id, model_id)
    row = next((row for row in rows if row["id"] == backend_id), None)
    if row is None:
        raise not_found("backend", backend_id)
    return row


def _require_registered(tx: Tx, caller: Principal, model_id: str, backend_id: str) -> None:
    if backend_id == _built_in_id(model_id) and model_id in BUILT_IN:
        raise ApiError(409, "The built-in engine stays as it is; give another backend a weight instead.")
    if any(each.id == backend_id for each in _published(tx, caller, model_id)):
        raise ApiError(409, f"A deployment publishes it: change /v1/serving/deployments/{backend_id} instead.")
    _row(tx, caller, model_id, backend_id)


def _published(tx: Tx, caller: Principal, model_id: str) -> list[Published]:
    return [each for each in traffic.of_organization(tx, caller.organization_id) if each.model_id == model_id]


def _require_base_address(endpoint: str) -> None:
    if not is_base_address(endpoint):
        raise ApiError(
            400,
            "endpoint: give an http or https address without credentials, query and fragment, such as "
            "https://host.example/v1.",
        )


def _built_in_id(model_id: str) -> str:
    return f"bke_{model_id}"


def _shown(row: RowMapping) -> Backend:
    families = json.loads(row["native_families"])
    return Backend.model_validate({**row, "native_families": families, "created_at": timestamp(row["created_at"])})


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
        id=_built_in_id(model.id),
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

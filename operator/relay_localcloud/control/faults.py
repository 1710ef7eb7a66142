"""`/_localcloud/faults`: what is made to go wrong."""

from pydantic import ValidationError
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.faults import faults
from relay_localcloud.faults.faults import WEBHOOK, FaultCreate
from relay_localcloud.http.bodies import Answer, ControlBody, answer, no_content
from relay_localcloud.http.errors import ApiError, not_found, sentence
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx

router = Router()


@router.post("/faults", summary="Make something go wrong")
async def create_fault(body: ControlBody[FaultCreate], cloud: CurrentCloud) -> Response:
    """Answers the fault with its id. The oldest fault that matches is the one that applies."""
    operation = WEBHOOK if body.operation == WEBHOOK else cloud.operations.named(body.operation)
    if operation is None:
        raise ApiError(
            400,
            f"operation: {body.operation!r} is not served; give `webhook`, or `METHOD /path` as /openapi.json has it, "
            "such as `POST /v1/pods`.",
        )
    try:
        faults.parse_effect(operation, body.effect)
    except ValidationError as error:
        raise ApiError(400, "effect." + sentence(error.errors(include_url=False, include_input=False))) from None
    except ValueError as error:
        raise ApiError(400, f"{error}.") from None
    with cloud.store.transaction() as tx:
        fault_id = faults.add(tx, body.model_copy(update={"operation": operation}))
        shown = faults.shown(tx, fault_id)[0]
    cloud.faults.reload()
    return answer(shown)


@router.get("/faults", summary="The faults there are")
def list_faults(tx: Tx) -> Answer:
    """Answers `{items}`, oldest first, each with how often it was seen and applied."""
    items = faults.shown(tx)
    return {"items": items}


@router.delete("/faults", status_code=204, summary="Remove every fault")
async def remove_faults(cloud: CurrentCloud) -> Response:
    """Answers 204."""
    with cloud.store.transaction() as tx:
        faults.remove(tx)
    cloud.faults.reload()
    return no_content()


@router.delete("/faults/{id}", status_code=204, summary="Remove a fault")
async def remove_fault(fault_id: ResourceId, cloud: CurrentCloud) -> Response:
    """Answers 204, or 404 where there is none of this id."""
    with cloud.store.transaction() as tx:
        if faults.remove(tx, fault_id) == 0:
            raise not_found("fault", fault_id)
    cloud.faults.reload()
    return no_content()

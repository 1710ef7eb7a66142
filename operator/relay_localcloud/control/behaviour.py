"""`/_localcloud/clock`, `/settings`, `/faults`: how the cloud behaves."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.capacity import vacancies
from relay_localcloud.capacity.offers import require_made_up
from relay_localcloud.clock.state import ClockChange, ClockError, Mode
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.faults import faults
from relay_localcloud.faults.faults import WEBHOOK, FaultCreate
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import (
    Answer,
    ControlBody,
    ControlRequest,
    OptionalControlBody,
    answer,
    parse,
    read_body,
)
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import SECOND, parse_timestamp, seconds, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.settings import Settings

router = Router()

_TEN_THOUSAND_YEARS = 10_000 * 366 * 86_400


class ClockRequest(ControlRequest):
    """A mode (with its rate if it is `scaled`), and an instant to move to, seconds to advance by, or what to do
    with the gap that was found at the start: let it pass (`apply`), or forget it (`dismiss`).
    """

    mode: Mode | None = None
    rate: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    set: str | None = None
    advance_seconds: Annotated[float, Field(ge=0, le=_TEN_THOUSAND_YEARS, allow_inf_nan=False)] | None = None
    gap: Literal["apply", "dismiss"] | None = None


@router.get("/clock", summary="The cloud's time")
async def read_clock(cloud: CurrentCloud) -> Response:
    """Answers `{now, mode, rate}`, and `gapSeconds` while the machine's clock is ahead by a gap nobody explained."""
    return _time(cloud)


@router.post("/clock", summary="Change the cloud's time")
async def change_clock(body: OptionalControlBody[ClockRequest], cloud: CurrentCloud) -> Response:
    """Answers `{now, mode, rate}` when all that fell due is done, calls to webhook receivers included."""
    if body.model_fields_set - {"gap"}:
        with cloud.store.transaction() as tx:
            require_made_up(tx, "Changing the time")
    try:
        await cloud.clock.change(_change(body))
    except ClockError as error:
        raise ApiError(400, f"The clock was not changed: {error}.") from error
    return _time(cloud)


async def _wanted(request: Request) -> Mapping[str, JsonValue]:
    document = parse(await read_body(request))
    if not isinstance(document, dict):
        raise ApiError(400, "The body must be a JSON object.")
    return document


@router.patch(
    "/settings",
    summary="Change latencies and behaviours",
    openapi_extra=lambda: {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": Settings.model_json_schema(by_alias=True)}},
        }
    },
)
def change_settings(
    wanted: Annotated[Mapping[str, JsonValue], Depends(_wanted)], cloud: CurrentCloud, tx: Tx
) -> Answer:
    """Takes any of the settings, and answers all of them."""
    return set_settings(cloud, tx, wanted).model_dump(by_alias=True)


def set_settings(cloud: Cloud, tx: Tx, wanted: Mapping[str, JsonValue]) -> Settings:
    """Change the named settings, in camel case; ApiError 400 for an invalid value."""
    kept = tx.settings.model_dump(by_alias=True)
    try:
        changed = Settings.model_validate({**kept, **wanted}, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ApiError(400, sentence(error.errors(include_url=False, include_input=False))) from None
    cloud.store.change_settings(tx, changed)
    if changed.ip_addresses > tx.settings.ip_addresses:
        vacancies.announce_address(tx)
    return changed


@router.post("/faults", summary="Make something go wrong")
def create_fault(body: ControlBody[FaultCreate], cloud: CurrentCloud, tx: Tx) -> Answer:
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
    tx.after_commit(cloud.faults.reload)
    return faults.add(tx, body.model_copy(update={"operation": operation}))


@router.get("/faults", summary="The faults there are")
def list_faults(tx: Tx) -> Answer:
    """Answers `{items}`, oldest first, each with how often it was seen and applied."""
    return {"items": faults.every(tx)}


@router.delete("/faults", status_code=204, summary="Remove every fault")
def remove_faults(cloud: CurrentCloud, tx: Tx) -> None:
    """Answers 204."""
    faults.FAULTS.remove(tx)
    tx.after_commit(cloud.faults.reload)


@router.delete("/faults/{id}", status_code=204, summary="Remove a fault")
def remove_fault(fault_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> None:
    """Answers 204, or 404 if there is none of this id."""
    if not faults.FAULTS.remove(tx, id=fault_id):
        raise ApiError(404, f"There is no fault {fault_id!r}.")
    tx.after_commit(cloud.faults.reload)


def _change(body: ClockRequest) -> ClockChange:
    if sum(given is not None for given in (body.set, body.advance_seconds, body.gap)) > 1:
        raise ApiError(400, "Give one of set, advanceSeconds and gap.")
    try:
        move_to = None if body.set is None else parse_timestamp(body.set)
    except ValueError as error:
        raise ApiError(400, f"set: {error}.") from error
    return ClockChange(body.mode, body.rate, move_to, seconds(body.advance_seconds or 0), body.gap)


def _time(cloud: Cloud) -> Response:
    state = cloud.clock.state
    gap = {"gapSeconds": state.gap / SECOND} if state.gap else {}
    return answer({"now": timestamp(cloud.clock.now()), "mode": state.mode, "rate": state.rate, **gap})

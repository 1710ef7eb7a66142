"""`/_localcloud/clock`: reads and moves the cloud's time."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from relay_localcloud.clock.clock import ClockChange, ClockError, Mode
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.bodies import OptionalControlBody, answer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import parse_timestamp, seconds, timestamp

router = Router()

_TEN_THOUSAND_YEARS = 10_000 * 366 * 86_400


class ClockRequest(BaseModel):
    """A mode (with its rate where it is `scaled`), and either an instant to move to or seconds to advance by."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, strict=True, defer_build=True)

    mode: Mode | None = None
    rate: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    set: str | None = None
    advance_seconds: Annotated[float, Field(ge=0, le=_TEN_THOUSAND_YEARS, allow_inf_nan=False)] | None = None


@router.get("/clock", summary="The cloud's time")
async def read_clock(cloud: CurrentCloud) -> Response:
    """Answers `{now, mode, rate}`."""
    return _shown(cloud)


@router.post("/clock", summary="Change the cloud's time")
async def change_clock(body: OptionalControlBody[ClockRequest], cloud: CurrentCloud) -> Response:
    """Answers `{now, mode, rate}` when all that fell due is done, calls to webhook receivers included."""
    try:
        await cloud.clock.change(_change(body))
    except ClockError as error:
        raise ApiError(400, f"The clock was not changed: {error}.") from error
    return _shown(cloud)


def _change(body: ClockRequest) -> ClockChange:
    if body.set is not None and body.advance_seconds is not None:
        raise ApiError(400, "Give either set or advanceSeconds, not both.")
    try:
        move_to = None if body.set is None else parse_timestamp(body.set)
    except ValueError as error:
        raise ApiError(400, f"set: {error}.") from error
    return ClockChange(body.mode, body.rate, move_to, seconds(body.advance_seconds or 0))


def _shown(cloud: Cloud) -> Response:
    state = cloud.clock.state
    return answer({"now": timestamp(cloud.clock.now()), "mode": state.mode, "rate": state.rate})

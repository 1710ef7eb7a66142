"""What the console's buttons do: the very calls of the control interface, and then the page again."""

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Annotated, Final
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.console.faults import SIMPLE_EFFECTS
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.view import HEADERS, CurrentView, View
from relay_localcloud.control import clock, faults, nodes, records
from relay_localcloud.control.clock import ClockRequest
from relay_localcloud.control.nodes import NodeChange
from relay_localcloud.faults.faults import FaultCreate
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import read_body
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router

router = Router()

_LARGEST_FORM: Final = 64 * 1024
_MOST_FIELDS: Final = 50


async def _form(request: Request) -> dict[str, str]:
    raw = await read_body(request, _LARGEST_FORM)
    try:
        return dict(parse_qsl(raw.decode(errors="replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise ApiError(400, f"A form has at most {_MOST_FIELDS} fields.") from None


Form = Annotated[dict[str, str], Depends(_form)]


@router.post("/console/clock/advance")
async def advance(view: CurrentView, form: Form, cloud: CurrentCloud) -> Response:
    """Move the clock on by an amount of a unit, given in seconds."""
    return await _done(view, form, "advanced", _advance(form, cloud))


@router.post("/console/clock/set")
async def move_to(view: CurrentView, form: Form, cloud: CurrentCloud) -> Response:
    """Move the clock to an instant."""
    return await _done(view, form, "advanced", _change_clock({"set": form.get("set", "").strip()}, cloud))


@router.post("/console/clock/mode")
async def change_mode(view: CurrentView, form: Form, cloud: CurrentCloud) -> Response:
    """Freeze the clock, or let it go in real time or scaled."""
    return await _done(view, form, "clock", _change_mode(form, cloud))


@router.post("/console/nodes/{id}/reporting")
async def change_node(view: CurrentView, node_id: ResourceId, form: Form, cloud: CurrentCloud) -> Response:
    """Make a node fall silent, or report again."""
    reporting = form.get("reporting") == "yes"
    call = nodes.change_node(node_id, NodeChange(reporting=reporting), cloud)
    return await _done(view, form, "node-up" if reporting else "node-down", call)


@router.post("/console/deliveries/{id}/replay")
async def replay(view: CurrentView, attempt_id: ResourceId, form: Form, cloud: CurrentCloud) -> Response:
    """Send a delivery again."""
    return await _done(view, form, "replayed", records.replay_delivery(attempt_id, cloud))


@router.post("/console/faults")
async def add_fault(view: CurrentView, form: Form, cloud: CurrentCloud) -> Response:
    """Add one of the simple faults."""
    return await _done(view, form, "fault-made", _add_fault(form, cloud))


@router.post("/console/faults/remove-all")
async def remove_faults(view: CurrentView, form: Form, cloud: CurrentCloud) -> Response:
    """Remove every fault."""
    return await _done(view, form, "faults-removed", faults.remove_faults(cloud))


@router.post("/console/faults/{id}/remove")
async def remove_fault(view: CurrentView, fault_id: ResourceId, form: Form, cloud: CurrentCloud) -> Response:
    """Remove a fault."""
    return await _done(view, form, "fault-removed", faults.remove_fault(fault_id, cloud))


async def _advance(form: Mapping[str, str], cloud: Cloud) -> None:
    amount = _number(form, "amount") if "amount" in form else 1.0
    await _change_clock({"advanceSeconds": amount * _number(form, "seconds")}, cloud)


async def _change_mode(form: Mapping[str, str], cloud: Cloud) -> None:
    mode = form.get("mode", "")
    rate = {"rate": _number(form, "rate")} if mode == "scaled" else {}
    await _change_clock({"mode": mode, **rate}, cloud)


async def _change_clock(change: Mapping[str, object], cloud: Cloud) -> None:
    await clock.change_clock(ClockRequest.model_validate(change), cloud)


async def _add_fault(form: Mapping[str, str], cloud: Cloud) -> None:
    effect = SIMPLE_EFFECTS.get(form.get("effect", ""))
    if effect is None:
        raise ApiError(400, "effect: choose one of those in the form.")
    wanted = {"operation": form.get("operation", "").strip(), "effect": effect[1]}
    count = {"count": int(_number(form, "count"))} if form.get("count") else {}
    await faults.create_fault(FaultCreate.model_validate({**wanted, **count}), cloud)


def _number(form: Mapping[str, str], name: str) -> float:
    try:
        number = float(form.get(name, ""))
    except ValueError:
        raise ApiError(400, f"{name}: give a number.") from None
    if not isfinite(number):
        raise ApiError(400, f"{name}: give a finite number.")
    return number


async def _done(view: View, form: Mapping[str, str], notice: str, call: Awaitable[object]) -> Response:
    """Wait for the call; then the page that the button was on, or the page that says what is wrong."""
    page = Requested.at(form.get("back", "/"))
    try:
        await call
    except ApiError as error:
        return replace(view, requested=page).refusal(error)
    except ValidationError as error:
        wrong = ApiError(400, sentence(error.errors(include_url=False, include_input=False)))
        return replace(view, requested=page).refusal(wrong)
    return Response(status_code=303, headers={**HEADERS, "Location": page.saying(notice)})

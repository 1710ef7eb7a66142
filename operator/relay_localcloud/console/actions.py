"""What the console's buttons do: calls of the control interface, changes of workloads, and then the page again."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Final
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.cloud import Cloud
from relay_localcloud.console import changes
from relay_localcloud.console.changes import Change
from relay_localcloud.console.pages import SIMPLE_EFFECTS
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.view import HEADERS, CurrentView
from relay_localcloud.control import behaviour, nodes, records
from relay_localcloud.control.behaviour import ClockRequest
from relay_localcloud.control.nodes import NodeChange
from relay_localcloud.faults.faults import FaultCreate
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import read_body
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.routing import Router

_LARGEST_FORM: Final = 64 * 1024
_MOST_FIELDS: Final = 50


@dataclass(frozen=True)
class Pressed:
    """A button that was pressed: what its form says, and the id in its address if there is one."""

    cloud: Cloud
    form: Mapping[str, str]
    id: str

    def number(self, name: str) -> float:
        """A field as a finite number; ApiError 400."""
        try:
            number = float(self.form.get(name, ""))
        except ValueError:
            raise ApiError(400, f"{name}: give a number.") from None
        if not isfinite(number):
            raise ApiError(400, f"{name}: give a finite number.")
        return number

    def whole_number(self, name: str) -> int:
        """A field as a whole number; ApiError 400."""
        number = self.number(name)
        if not number.is_integer():
            raise ApiError(400, f"{name}: give a whole number.")
        return int(number)


async def _advance(pressed: Pressed) -> str:
    amount = pressed.number("amount") if "amount" in pressed.form else 1.0
    await _change_clock(pressed, advanceSeconds=amount * pressed.number("seconds"))
    return "advanced"


async def _set(pressed: Pressed) -> str:
    await _change_clock(pressed, set=pressed.form.get("set", "").strip())
    return "advanced"


async def _change_mode(pressed: Pressed) -> str:
    mode = pressed.form.get("mode", "")
    await _change_clock(pressed, mode=mode, **({"rate": pressed.number("rate")} if mode == "scaled" else {}))
    return "clock"


async def _settle_gap(pressed: Pressed) -> str:
    await _change_clock(pressed, gap=pressed.form.get("gap", ""))
    return "gap"


async def _change_clock(pressed: Pressed, **change: object) -> None:
    await behaviour.change_clock(ClockRequest.model_validate(change), pressed.cloud)


async def _change_node(pressed: Pressed) -> str:
    reporting = pressed.form.get("reporting") == "yes"
    with pressed.cloud.store.transaction() as tx:
        nodes.change_node(pressed.id, NodeChange(reporting=reporting), tx)
    return "node-up" if reporting else "node-down"


def _changing(change: Change) -> "_Action":
    async def make(pressed: Pressed) -> str:
        count = pressed.whole_number("replicas") if change is Change.SCALE else None
        with pressed.cloud.store.transaction() as tx:
            changes.make(tx, pressed.id, change, count)
        return change.value

    return make


async def _replay(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        records.replay_delivery(pressed.id, tx)
    return "replayed"


async def _add_fault(pressed: Pressed) -> str:
    form = pressed.form
    effect = SIMPLE_EFFECTS.get(form.get("effect", ""))
    if effect is None:
        raise ApiError(400, "effect: choose one of those in the form.")
    wanted = {"operation": form.get("operation", "").strip(), "effect": effect[1]}
    count = {"count": int(pressed.number("count"))} if form.get("count") else {}
    fault = FaultCreate.model_validate({**wanted, **count})
    with pressed.cloud.store.transaction() as tx:
        behaviour.create_fault(fault, pressed.cloud, tx)
    return "fault-made"


async def _remove_faults(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        behaviour.remove_faults(pressed.cloud, tx)
    return "faults-removed"


async def _remove_fault(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        behaviour.remove_fault(pressed.id, pressed.cloud, tx)
    return "fault-removed"


_Action = Callable[[Pressed], Awaitable[str]]
"""Does it; the word of what the page then says (`NOTICES`)."""

_ACTIONS: Final[Mapping[str, _Action]] = {
    "/console/clock/advance": _advance,
    "/console/clock/set": _set,
    "/console/clock/mode": _change_mode,
    "/console/clock/gap": _settle_gap,
    "/console/nodes/{id}/reporting": _change_node,
    **{f"/console/workloads/{{id}}/{change}": _changing(change) for change in Change},
    "/console/deliveries/{id}/replay": _replay,
    "/console/faults": _add_fault,
    "/console/faults/remove-all": _remove_faults,
    "/console/faults/{id}/remove": _remove_fault,
}


async def _form(request: Request) -> dict[str, str]:
    raw = await read_body(request, _LARGEST_FORM)
    try:
        return dict(parse_qsl(raw.decode(errors="replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise ApiError(400, f"A form has at most {_MOST_FIELDS} fields.") from None


def _endpoint(action: _Action) -> Callable[..., object]:
    async def press(view: CurrentView, form: Annotated[dict[str, str], Depends(_form)], request: Request) -> Response:
        """Wait for the action; then the page that the button was on, or the page that says what is wrong."""
        page = Requested.at(form.get("back", "/"))
        try:
            notice = await action(Pressed(view.cloud, form, request.path_params.get("id", "")))
        except ApiError as error:
            return replace(view, requested=page).refusal(error)
        except ValidationError as error:
            wrong = ApiError(400, sentence(error.errors(include_url=False, include_input=False)))
            return replace(view, requested=page).refusal(wrong)
        return Response(status_code=303, headers={**HEADERS, "Location": page.saying(notice)})

    return press


router: Final = Router()
for _path, _action in _ACTIONS.items():
    router.post(_path)(_endpoint(_action))

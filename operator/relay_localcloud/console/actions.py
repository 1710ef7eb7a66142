"""The actions of the console's buttons: calls of the control interface and changes of workloads, then a page."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.cloud import Cloud
from relay_localcloud.console import changes, creation, playground, settings
from relay_localcloud.console.changes import Change
from relay_localcloud.console.creation import CREATIONS
from relay_localcloud.console.fields import Fields
from relay_localcloud.console.pages import PAGES, SIMPLE_EFFECTS
from relay_localcloud.console.refused import Refused
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.view import HEADERS, CurrentView
from relay_localcloud.control import behaviour, nodes, orphans, records
from relay_localcloud.control import workloads as control_workloads
from relay_localcloud.control.behaviour import ClockRequest
from relay_localcloud.control.nodes import NodeChange, NodeCreate
from relay_localcloud.control.workloads import WorkloadEvent
from relay_localcloud.faults.faults import FaultCreate
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import read_body, refuse_unstorable
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.routing import Router
from relay_localcloud.money import payments
from relay_localcloud.money.routes import Deposit

_LARGEST_FORM: Final = 64 * 1024
_MOST_FIELDS: Final = 50


@dataclass(frozen=True)
class Created:
    """The id of a created object; its own page, if it has one, is shown next."""

    id: str
    has_page: bool


@dataclass(frozen=True)
class Pressed:
    """A pressed button: the fields of its form, and the id in its address, empty if there is none."""

    cloud: Cloud
    form: Fields
    id: str


async def _advance(pressed: Pressed) -> str:
    amount = pressed.form.number("amount") if pressed.form.has("amount") else 1.0
    await _change_clock(pressed, advanceSeconds=amount * pressed.form.number("seconds"))
    return "advanced"


async def _set(pressed: Pressed) -> str:
    await _change_clock(pressed, set=pressed.form.text("set"))
    return "advanced"


async def _change_mode(pressed: Pressed) -> str:
    mode = pressed.form.text("mode")
    await _change_clock(pressed, mode=mode, **({"rate": pressed.form.number("rate")} if mode == "scaled" else {}))
    return "clock"


async def _settle_gap(pressed: Pressed) -> str:
    await _change_clock(pressed, gap=pressed.form.text("gap"))
    return "gap"


async def _change_clock(pressed: Pressed, **change: object) -> None:
    await behaviour.change_clock(ClockRequest.model_validate(change), pressed.cloud)


async def _add_node(pressed: Pressed) -> str:
    asked = {name: pressed.form.text(name) for name in ("gpuModelId", "location")}
    body = NodeCreate.model_validate({**asked, "gpuCount": pressed.form.whole_number("gpuCount")})
    with pressed.cloud.store.transaction() as tx:
        nodes.create_node(body, tx)
    return "node-added"


async def _remove_node(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        nodes.change_node(pressed.id, NodeChange(removed=True), tx)
    return "node-removed"


async def _change_node(pressed: Pressed) -> str:
    reporting = pressed.form.text("reporting") == "yes"
    with pressed.cloud.store.transaction() as tx:
        nodes.change_node(pressed.id, NodeChange(reporting=reporting), tx)
    return "node-up" if reporting else "node-down"


async def _end_orphan(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        orphans.end_orphan(pressed.id, tx)
    return "orphan-ended"


def _creating(noun: str) -> "_Action":
    async def make(pressed: Pressed) -> Created:
        made = creation.create(pressed.cloud, noun, pressed.id, pressed.form)
        return Created(made, has_page=noun != "keys")

    return make


async def _remove_key(pressed: Pressed) -> str:
    with pressed.cloud.store.transaction() as tx:
        creation.remove_key(tx, pressed.id)
    return "key-removed"


async def _let_happen(pressed: Pressed) -> str:
    event = WorkloadEvent.model_validate({"event": pressed.form.text("event")})
    with pressed.cloud.store.transaction() as tx:
        control_workloads.workload_event(pressed.id, event, tx)
    return "happened"


async def _deposit(pressed: Pressed) -> str:
    """Deposit under the page's idempotency key, so that a second press, or another person's, is the same deposit."""
    key = pressed.form.text("key") or None
    body = Deposit.model_validate({"amountCents": pressed.form.whole_number("amountCents"), "idempotencyKey": key})
    try:
        with pressed.cloud.store.transaction() as tx:
            made = payments.deposit(tx, pressed.id, body)
    except ApiError as error:
        if error.code != payments.KEY_REUSED:
            raise
        raise ApiError(409, "Somebody has just made another deposit: look at the balance, then try again.") from None
    return f"deposit-{made.status}"


async def _ask(pressed: Pressed) -> Mapping[str, object]:
    form = pressed.form
    question = (form.text("model"), form.typed.get("prompt", ""), form.whole_number("maxTokens"))
    return {"answer": await playground.ask(pressed.cloud, pressed.id, *question)}


async def _change_setting(pressed: Pressed) -> str:
    wanted = settings.wanted(pressed.form.typed)
    if not wanted:
        raise ApiError(400, "There is no such setting.")
    with pressed.cloud.store.transaction() as tx:
        behaviour.set_settings(pressed.cloud, tx, wanted)
    return "setting"


def _changing(change: Change) -> "_Action":
    async def make(pressed: Pressed) -> str:
        count = pressed.form.whole_number("replicas") if change is Change.SCALE else None
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
    effect = SIMPLE_EFFECTS.get(form.text("effect"))
    if effect is None:
        raise ApiError(400, "effect: choose one of those in the form.")
    wanted = {"operation": form.text("operation"), "effect": effect[1]}
    count = {"count": form.whole_number("count")} if form.text("count") else {}
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


_Action = Callable[[Pressed], Awaitable[str | Created | Mapping[str, object]]]
"""Carries out an action; returns the key of a notice (`NOTICES`), a created object, or values to show once."""

_ACTIONS: Final[Mapping[str, _Action]] = {
    "/console/clock/advance": _advance,
    "/console/clock/set": _set,
    "/console/clock/mode": _change_mode,
    "/console/clock/gap": _settle_gap,
    "/console/nodes": _add_node,
    "/console/nodes/{id}/reporting": _change_node,
    "/console/nodes/{id}/removal": _remove_node,
    "/console/orphans/{id}/removal": _end_orphan,
    **{f"/console/orgs/{{orgId}}/{noun}": _creating(noun) for noun in CREATIONS},
    "/console/orgs/{orgId}/deposits": _deposit,
    "/console/orgs/{orgId}/questions": _ask,
    "/console/keys/{id}/removal": _remove_key,
    "/console/settings": _change_setting,
    "/console/workloads/{id}/events": _let_happen,
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
        """Carry out the action, and answer the page of the button or of the created object, or a refusal."""
        page = Requested.at(form.get("back", "/"), view.requested.origin)
        try:
            refuse_unstorable(dict(form), "")
            done = await action(Pressed(view.cloud, Fields(form), next(iter(request.path_params.values()), "")))
        except ApiError as error:
            return replace(view, requested=page).refusal(Refused(error.message, request.url.path, form), error.status)
        except ValidationError as error:
            wrong = sentence(error.errors(include_url=False, include_input=False))
            return replace(view, requested=page).refusal(Refused(wrong, request.url.path, form), 400)
        match done:
            case str():
                return _leading_to(page.saying(done))
            case Created(id=made):
                exchange_of(request.scope).made = made
                own = page.to("/console/workload", id=made, done="created")
                return _leading_to(own if done.has_page else page.saying("key-added"))
            case _:
                sent = Refused(action=request.url.path, typed=form)
                return replace(view, requested=page).answered(PAGES.get(page.path, PAGES["/"]), sent, done)

    return press


def _leading_to(address: str) -> Response:
    return Response(status_code=303, headers={**HEADERS, "Location": address})


router: Final = Router()
for _path, _action in _ACTIONS.items():
    router.post(_path)(_endpoint(_action))

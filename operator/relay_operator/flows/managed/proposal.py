"""The content of `status.plan`: what would be done, why, at what price, and what would be lost. Pure."""

from collections.abc import Mapping

from relay_operator.api.parts import DeletionPolicy
from relay_operator.api.plan import Plan, PlannedAction
from relay_operator.api.workload import UNBILLED, PricedStatus, SpecT, StatusT, WorkloadSpec
from relay_operator.engine.actions import Expire, Release
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.abilities import is_priced, shown_once
from relay_operator.flows.managed.actions import RESTART, START, STOP, Action, Held, Propose
from relay_operator.flows.managed.blue_green import serving
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.resource import ObsT
from relay_operator.flows.managed.view import Difference, Recovery, Seen

_ACTIONS: Mapping[type[Held], PlannedAction] = {
    actions.Create: PlannedAction.CREATE,
    actions.Resend: PlannedAction.CREATE,
    actions.Discard: PlannedAction.RECREATE,
    actions.Replace: PlannedAction.RECREATE,
    actions.Forget: PlannedAction.RECREATE,
    actions.SetAside: PlannedAction.RECREATE,
    actions.EndFormer: PlannedAction.DELETE,
    actions.SwitchOver: PlannedAction.UPDATE,
    Release: PlannedAction.DELETE,
    Expire: PlannedAction.DELETE,
}
_REASONS: Mapping[type[Held], str] = {
    actions.Create: "nothing of it is in the cloud",
    actions.Resend: "the answer to its create is lost",
    actions.Discard: "the answer to its create is lost, and its value with it",
    actions.SetAside: "what it is made from has changed, or its value is lost or about to end",
    Expire: "lifetime.ttlSecondsAfterStopped is over",
}
_CHANGES = {STOP: PlannedAction.STOP, START: PlannedAction.START, "scale": PlannedAction.SCALE}
_FREE = frozenset({PlannedAction.STOP, PlannedAction.DELETE})
_HARMLESS = (actions.EndFormer, actions.Discard, actions.Forget, actions.SetAside)
"""Actions without a loss: nobody uses the resource any more, or it works until another takes its place."""
_IDLE = frozenset({Seen.NOTHING, Seen.STOPPED, Seen.GONE})
VERBS: Mapping[PlannedAction, str] = {
    PlannedAction.CREATE: "created",
    PlannedAction.RECREATE: "recreated",
    PlannedAction.SCALE: "scaled",
    PlannedAction.UPDATE: "updated",
    PlannedAction.STOP: "stopped",
    PlannedAction.START: "started",
    PlannedAction.DELETE: "deleted",
}


def proposal(facts: Facts[SpecT, StatusT, ObsT], action: Action, otherwise: str = "") -> Plan:
    """The plan; `otherwise` says why nothing would be done, if that is so."""
    if not isinstance(action, Propose):
        return Plan(action=PlannedAction.NONE, reason=otherwise[:1024], price_per_hour_cents=_present(facts))
    held = action.action
    planned, why = _planned(facts, held), _why(facts, held)
    price = _present(facts) if isinstance(held, Release | actions.EndFormer) else _price(facts, planned)
    return Plan(action=planned, reason=why[:1024], price_per_hour_cents=price, loses=_losses(facts, held, planned))


def sentence(plan: Plan) -> str:
    """The plan as a sentence."""
    price = "" if plan.price_per_hour_cents is None else f", at {plan.price_per_hour_cents} cents/h from then on"
    lost = "".join(f"; {each}" for each in plan.loses or ())
    return f"it would be {VERBS[plan.action]}: {plan.reason}{price}{lost}"


def _planned(facts: Facts[SpecT, StatusT, ObsT], held: Held) -> PlannedAction:
    match held:
        case actions.Delete() | actions.Replace() if serving(facts.obj.status) is not None:
            return PlannedAction.DELETE
        case actions.Delete():
            return PlannedAction.DELETE if facts.view.deleting else PlannedAction.RECREATE
        case actions.Update(change):
            return _CHANGES.get(change, PlannedAction.UPDATE)
        case _:
            return _ACTIONS[type(held)]


def _why(facts: Facts[SpecT, StatusT, ObsT], held: Held) -> str:
    view, has = facts.view, facts.obj.status.id or "what there is"
    old = serving(facts.obj.status)
    if isinstance(held, actions.SwitchOver):
        former = "the old one" if old is None else old.id
        return f"{has} is Ready and replaces {former}, which is ended after its drain"
    if old is not None and isinstance(held, actions.Delete | actions.Replace):
        return f"{has} no longer replaces {old.id}, which stays in service"
    if isinstance(held, actions.SetAside) and view.difference is Difference.BLUE_GREEN:
        return f"a replacement takes over once it is Ready: {facts.note}"
    if type(held) in _REASONS:
        return _REASONS[type(held)]
    match held:
        case actions.Update(change) if facts.change is not None and facts.change.name == change:
            return f"{change} {facts.change.to}".rstrip()
        case actions.Update(change) if view.recovery is Recovery.RESTART:
            return f"recovery: {change}"
        case actions.Update() | actions.Delete() if view.deleting:
            return "the object is being deleted"
        case actions.EndFormer():
            return f"nothing uses {facts.former.id if facts.former is not None else 'a former one'} any more"
        case Release():
            return f"the object goes, and {has} stays in the cloud, as its deletionPolicy says"
        case _:
            begun = "recovery: recreate" if view.recovery is Recovery.RECREATE else "its recreation was begun"
            return facts.note or begun


def _price(facts: Facts[SpecT, StatusT, ObsT], planned: PlannedAction) -> int | None:
    if not is_priced(facts.resource):
        return None
    idle = planned in _FREE or (planned is PlannedAction.UPDATE and facts.view.seen in _IDLE)
    return 0 if idle or facts.funded.later else facts.funded.quote


def _present(facts: Facts[SpecT, StatusT, ObsT]) -> int | None:
    obj, observed, told = facts.obj, facts.observed, facts.funded.price
    status = obj.status if observed is None else facts.resource.status(obj, observed)
    if not isinstance(status, PricedStatus):
        return None
    idle = facts.view.seen in _IDLE | {Seen.FAILED} or status.state in UNBILLED
    return 0 if idle else status.price_per_hour_cents if told is None else told


def _losses(facts: Facts[SpecT, StatusT, ObsT], held: Held, planned: PlannedAction) -> list[str] | None:
    later = f"nothing takes its place yet: {facts.funded.later}"[:1024]
    return [*_ended(facts, held, planned), *([later] if facts.funded.later else ())] or None


def _ended(facts: Facts[SpecT, StatusT, ObsT], held: Held, planned: PlannedAction) -> list[str]:
    obj, cloud_id = facts.obj, facts.obj.status.id
    if isinstance(held, actions.Update) and held.change in {STOP, RESTART}:
        return [f"what runs in {cloud_id} is interrupted; its volume stays"]
    ended = planned in {PlannedAction.DELETE, PlannedAction.RECREATE} and not isinstance(held, Release)
    if isinstance(held, actions.SetAside) and facts.view.difference is Difference.BLUE_GREEN:
        return [f"the resource {cloud_id} is ended once its replacement is Ready, and its volume with it"]
    stays = isinstance(held, Expire) and obj.spec.deletion_policy is not DeletionPolicy.DELETE
    if isinstance(held, _HARMLESS) or stays or not ended or not cloud_id:
        return []
    volume = ", and its volume with it" if isinstance(obj.spec, WorkloadSpec) else ""
    lost = [f"{cloud_id} is ended{volume}"]
    if shown_once(facts.resource):
        lost.append("the value in its Secret is no longer valid")
    return lost

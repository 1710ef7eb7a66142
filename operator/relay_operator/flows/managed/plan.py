"""What to do next, decided from a small view without I/O. `RULES` is the specification: the first that applies wins."""

from collections.abc import Callable

from relay_operator.api.conditions import Reason
from relay_operator.engine import rules
from relay_operator.engine.actions import Expire, Keep, Release, Stall, Wait
from relay_operator.flows.managed.actions import (
    START,
    STOP,
    Action,
    Adopt,
    CloseIntent,
    Create,
    Delete,
    Discard,
    DropFormer,
    EndFormer,
    Forget,
    Held,
    Propose,
    Reinstate,
    Replace,
    Resend,
    Rest,
    SetAside,
    SwitchOver,
    Update,
    Watch,
)
from relay_operator.flows.managed.view import (
    RECORDED,
    SEARCHED,
    THERE,
    Demand,
    Difference,
    Former,
    Gate,
    Recovery,
    Seen,
    Undecided,
    Value,
    View,
)

Rule = Callable[[View], Action | None]

_UNSHOWN = frozenset({Seen.BLIND, Seen.MISSING, Seen.GONE})
_NOTHING_OF_OURS = frozenset({Seen.NOTHING, Seen.GONE, Seen.ADOPTEE, Seen.ADOPTEE_REFUSED, Seen.TAKEN})
_UNFIT_TO_CREATE = frozenset({Gate.OUTDATED, Gate.ACCOUNT_UNFIT, Gate.ENV_MISSING})
_GATES: dict[Gate, Action] = {
    Gate.OUTDATED: Stall(Reason.CRD_OUTDATED),
    Gate.ACCOUNT_UNFIT: Wait(Reason.WAITING_FOR_ACCOUNT),
    Gate.ENV_MISSING: Wait(Reason.ENV_MISSING),
    Gate.UNSCHEDULED: Stall(Reason.SCHEDULE_INVALID),
    Gate.RESTING: Wait(Reason.OUTSIDE_SCHEDULE),
    Gate.LATER: Wait(Reason.WAITING_FOR_RETRY),
}
_IN_SERVICE = frozenset({Former.SERVING, Former.RELIEVED, Former.RETURNING})
_LINKABLE = frozenset({Seen.READY, Seen.STOPPED})


def _unmet(view: View) -> Action | None:
    if view.unmet is None:
        return None
    return Stall(view.unmet) if view.unmet is Reason.REFERENCE_OTHER_ACCOUNT else Wait(view.unmet)


def _held_up(view: View) -> Action | None:
    """What holds back a create."""
    return _GATES.get(view.gate) or _taken(view) or _unmet(view) or view.unfunded


def _taken(view: View) -> Action | None:
    return Stall(Reason.SECRET_TAKEN) if view.value is Value.TAKEN else None


def _abandoned(view: View) -> Action | None:
    return Release() if view.demand is Demand.DELETE_ABANDONING else None


def _disabled(view: View) -> Action | None:
    return Stall(Reason.KIND_DISABLED) if view.disabled and not view.deleting else None


def _never_created(view: View) -> Action | None:
    """Nothing exists, so that the release needs no account."""
    nothing = view.seen is Seen.NOTHING and view.former is Former.NONE
    return Release() if view.deleting and nothing else None


def _account(view: View) -> Action | None:
    return rules.WITHOUT_ACCOUNT.get(view.account)


def _blind(view: View) -> Action | None:
    """What costs is ended or stopped though it cannot be looked at now."""
    if view.seen is not Seen.BLIND:
        return None
    stops = view.change == STOP and view.demand is not Demand.DELETE
    end = Update(STOP) if stops else Delete() if _unended(view) else None
    former = _delete_former(view) if view.demand is Demand.DELETE else None
    return (end and _spared(view)) or former or end or Wait(Reason.CLOUD_UNAVAILABLE)


def _foreign(view: View) -> Action | None:
    return Stall(Reason.IDENTITY_MISMATCH) if view.seen is Seen.FOREIGN else None


def _withheld(view: View) -> Action | None:
    """Nothing is created beside it, and it is not touched."""
    if view.seen is not Seen.WITHHELD:
        return None
    return Release() if view.deleting else Stall(Reason.ADOPTION_REFUSED)


def _delete_with_open_intent(view: View) -> Action | None:
    return _search(view) if view.deleting and view.seen in SEARCHED else None


def _in_use(view: View) -> Action | None:
    """A resource that another object uses stays until that object is gone."""
    there = view.seen in THERE or _unended(view) or view.former is Former.KEPT
    return Wait(Reason.IN_USE) if view.deleting and view.in_use and there else None


def _spared(view: View) -> Action | None:
    """A resource that something is being made from is neither stopped nor ended meanwhile."""
    return Wait(Reason.IN_USE) if view.in_use else None


def _orphan(view: View) -> Action | None:
    return Release() if view.demand is Demand.DELETE_ORPHANING else None


def _drop_former(view: View) -> Action | None:
    """What is gone costs nothing, so a budget that it fills holds back no other."""
    return DropFormer() if view.former is Former.GONE else None


def _end_former(view: View) -> Action | None:
    return EndFormer() if view.former is Former.UNUSED else None


def _reinstate(view: View) -> Action | None:
    """The old one gets its place back if the new one failed, is gone, is no longer desired, or cannot be created."""
    if view.former not in _IN_SERVICE:
        return None
    unasked = view.former is Former.RETURNING or view.replacing or view.deleting
    match view.seen:
        case Seen.GOING:
            return Wait(Reason.REPLACING)
        case seen if seen is Seen.GONE or (seen in _NOTHING_OF_OURS and (unasked or _held_up(view))):
            return Reinstate()
        case seen if seen is Seen.FAILED or (seen in THERE and unasked):
            return _spared(view) or (Delete() if view.replacing else Replace())
        case _:
            return None


def _switch_over(view: View) -> Action | None:
    return SwitchOver() if view.former is Former.RELIEVED else None


def _delete_former(view: View) -> Action | None:
    """Former resources are ended first, and the present one does not wait until they are gone."""
    return _drop_former(view) or _end_former(view) if view.deleting else None


def _delete(view: View) -> Action | None:
    """The object is released once former resources are gone as well."""
    if not view.deleting:
        return None
    action = _end(view)
    return Wait(Reason.DELETING) if isinstance(action, Release) and view.former is not Former.NONE else action


def _end(view: View) -> Action:
    if _unended(view):
        return Delete()
    if view.seen not in RECORDED or view.seen is Seen.GONE:
        return Release()
    if view.seen in {Seen.GOING, Seen.MISSING}:
        return Wait(Reason.DELETING)
    if view.demand is Demand.DELETE_STOPPING:
        return _stop_and_release(view)
    return Delete()


def _unended(view: View) -> bool:
    """Whether to delete a resource that the cloud does not show; not if people only want it stopped."""
    return view.demand is Demand.DELETE and view.seen in _UNSHOWN and view.unended


def _stop_and_release(view: View) -> Action:
    match view.seen:
        case Seen.STOPPED | Seen.FAILED:
            return Release()
        case Seen.PENDING if not view.may_run:
            return Wait(Reason.DELETING)
        case _:
            return _once(view, STOP)


def _adopt(view: View) -> Action | None:
    match view.seen:
        case Seen.ADOPTEE:
            return Adopt()
        case Seen.ADOPTEE_REFUSED:
            return Stall(Reason.ADOPTION_REFUSED)
        case Seen.TAKEN:
            return Stall(Reason.ALREADY_EXISTS)
        case _:
            return None


def _search(view: View) -> Action | None:
    if view.seen not in SEARCHED:
        return None
    if view.seen is Seen.FOUND:
        return Discard() if view.value in {Value.LOST, Value.TAKEN} else Adopt()
    if view.seen is Seen.ABSENT or view.undecided is Undecided.GIVE_UP:
        return CloseIntent()
    if view.seen is Seen.UNSURE:
        return Wait(Reason.SEARCHING)
    if view.undecided is Undecided.RESEND and not view.deleting:
        return _held_up(view) or Resend()
    return Stall(Reason.CREATE_OUTCOME_UNKNOWN)


def _create(view: View) -> Action | None:
    return (_held_up(view) or Create()) if view.seen is Seen.NOTHING else None


def _gone(view: View) -> Action | None:
    match view.seen:
        case Seen.MISSING:
            return Wait(Reason.SEARCHING)
        case Seen.GONE if view.end_asked:
            return Rest()
        case Seen.GONE if view.replacing:
            return Forget()
        case Seen.GONE if view.recovery is Recovery.RECREATE:
            return Wait(Reason.BACK_OFF) if view.held_back else Forget()
        case Seen.GONE:
            return Stall(Reason.TERMINATED_EXTERNALLY)
        case Seen.GOING:
            return Wait(Reason.RECREATING if view.replacing else Reason.DELETING)
        case _:
            return None


def _unscheduled(view: View) -> Action | None:
    return _GATES[view.gate] if view.gate is Gate.UNSCHEDULED else None


def _replace(view: View) -> Action | None:
    """What cannot be followed by another now is not ended for that."""
    if view.recovery is not Recovery.RECREATE and view.difference is not Difference.REPLACEABLE:
        return None
    if view.replacing:
        return _spared(view) or Delete()
    if view.gate in _UNFIT_TO_CREATE:
        return _GATES[view.gate]
    if view.held_back:
        return None if view.difference is Difference.CHANGE else Wait(Reason.BACK_OFF)
    return _unmet(view) or _spared(view) or view.unfunded or Replace()


def _rotate(view: View) -> Action | None:
    """Replace a value before it ends, or if it is lost; the new one follows the present spec."""
    if view.seen is not Seen.READY:
        return None
    if view.value in {Value.LOST, Value.DUE}:
        return _held_up(view) or SetAside()
    if view.value is Value.STUCK:
        return Stall(Reason.CONFLICT)
    if view.value is Value.EXPIRED and view.difference is not Difference.SUPERSEDED:
        return Stall(Reason.EXPIRED)
    return _taken(view)


def _supersede(view: View) -> Action | None:
    """At most two resources exist at a time: the next one is created once the old one is gone."""
    match view.difference:
        case Difference.SUPERSEDED if view.held_back:
            return Wait(Reason.BACK_OFF)
        case Difference.SUPERSEDED:
            return _held_up(view) or SetAside()
        case Difference.GREEN_FAILED if view.recovery is not Recovery.RESTART:
            return Stall(Reason.GREEN_FAILED)
        case Difference.BLUE_GREEN if view.former is not Former.NONE:
            return Wait(Reason.REPLACING)
        case Difference.BLUE_GREEN:
            return _held_up(view) or SetAside()
        case _:
            return None


def _forbidden(view: View) -> Action | None:
    return Stall(Reason.IMMUTABLE_FIELD_CHANGED) if view.difference is Difference.FORBIDDEN else None


def _update(view: View) -> Action | None:
    if view.difference is Difference.CHANGE:
        spared = _spared(view) if view.change == STOP != view.sent else None
        unfunded = view.unfunded if view.change != STOP else None  # a stop saves money
        return spared or unfunded or _as_agreed(view, _once(view, view.change))
    if view.recovery is Recovery.RESTART:
        return Wait(Reason.BACK_OFF) if view.held_back else view.unfunded or _as_agreed(view, Update(START))
    return None


def _as_agreed(view: View, action: Update | Watch) -> Action:
    """A refused start is not tried again before the agreed time; a stop saves money and never waits.

    A time that was agreed for a recovery does not hold back what people request meanwhile.
    """
    if view.gate is Gate.LATER and not view.held_back and action.change != STOP:
        return Wait(Reason.WAITING_FOR_RETRY)
    return action


def _once(view: View, change: str) -> Update | Watch:
    """A change that was accepted is not sent again at every poll until the cloud shows it."""
    return Watch(change) if view.sent == change else Update(change)


def _expire(view: View) -> Action | None:
    return Expire() if view.expired and view.seen is Seen.STOPPED else None


def _unlinked(view: View) -> Action | None:
    return _unmet(view) if view.seen in _LINKABLE else None


RULES: tuple[Rule, ...] = (
    rules.not_ours,
    _abandoned,
    rules.paused,
    _disabled,
    _never_created,
    _account,
    _blind,
    _foreign,
    _withheld,
    _delete_with_open_intent,
    _in_use,
    _orphan,
    _reinstate,
    _delete_former,
    _delete,
    _adopt,
    _search,
    _drop_former,
    _create,
    _gone,
    _unscheduled,
    _switch_over,
    _replace,
    _end_former,
    _rotate,
    _supersede,
    _forbidden,
    _update,
    _expire,
    _unlinked,
)


def plan(view: View) -> Action:
    """The first rule of `RULES` that applies, else `Keep`; for plan-only, a change is proposed and not made."""
    action: Action = rules.first(RULES, view) or Keep()
    if not view.plan_only or not isinstance(action, Held):
        return action
    nothing = view.seen in _NOTHING_OF_OURS and view.former is Former.NONE
    harmless = isinstance(action, Release) and (nothing or view.demand is Demand.DELETE_ABANDONING)
    return action if harmless else Propose(action)

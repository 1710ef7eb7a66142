"""What to do next, decided from a small view without I/O. `RULES` is the specification: the first that applies wins."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from relay_operator.api.conditions import Reason
from relay_operator.engine import rules
from relay_operator.engine.actions import Expire, Keep, Release, Stall, Wait
from relay_operator.engine.rules import Account
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


class Demand(Enum):
    """What people ask of the object."""

    EXIST = auto()
    DELETE = auto()
    DELETE_STOPPING = auto()  # deletionPolicy: Stop
    DELETE_ORPHANING = auto()  # deletionPolicy: Orphan
    DELETE_ABANDONING = auto()  # the annotation `abandon`


class Seen(Enum):
    """What is recorded, and what the cloud was last seen to say about it."""

    NOTHING = auto()  # no id, and no intent without an answer: nothing of ours exists
    ADOPTEE = auto()  # `adopt-id` names a resource that may be adopted
    ADOPTEE_REFUSED = auto()  # it differs, belongs to another object, is gone, or adoption is not allowed
    TAKEN = auto()  # what the spec asks for exists, and nothing tells that it is ours
    FOUND = auto()  # an open intent's resource was found
    ABSENT = auto()  # surely not created: the search was complete, repeated and late enough
    UNSURE = auto()  # not found, but too early to say
    UNKNOWABLE = auto()  # the cloud offers no way to find out
    PENDING = auto()
    READY = auto()
    STOPPED = auto()
    INTERRUPTED = auto()
    FAILED = auto()
    GOING = auto()  # a termination was sent; not confirmed
    MISSING = auto()  # reads as not found, not yet often enough to believe it
    GONE = auto()  # confirmed terminated or not found
    FOREIGN = auto()  # the recorded id is a resource of another name: not ours to touch
    WITHHELD = auto()  # what a former object of this name had, and this one may not take over
    BLIND = auto()  # something of ours may exist, and could not be looked at


class Gate(Enum):
    """What holds the next paid or refused attempt back, in order."""

    OPEN = auto()
    OUTDATED = auto()  # a CRD would drop what has to be recorded
    DEAF = auto()  # the account's webhook subscription is being made
    ENV_MISSING = auto()
    UNSCHEDULED = auto()  # nothing can tell when it is to run
    RESTING = auto()  # nothing is there, and its schedule does not let it run
    LATER = auto()  # not before `status.nextAttemptTime`


class Undecided(Enum):
    """What may be done about an intent whose outcome nobody can find out."""

    HOLD = auto()
    RESEND = auto()  # account: createRecovery RetryByName
    GIVE_UP = auto()  # a person wrote `retry-create`


class Recovery(Enum):
    """What `spec.recovery` asks for in the state seen, and only in that state."""

    NONE = auto()
    RESTART = auto()
    RECREATE = auto()


class Difference(Enum):
    """How the spec differs from what the cloud has."""

    NONE = auto()
    CHANGE = auto()  # can be changed in place
    FORBIDDEN = auto()  # cannot, and updateStrategy is Never
    REPLACEABLE = auto()  # cannot, and updateStrategy is Recreate
    SUPERSEDED = auto()  # cannot, and another is made beside it
    BLUE_GREEN = auto()  # cannot, and another is made beside it that takes its place once it is Ready
    GREEN_FAILED = auto()  # the same, and the one that was made for this very spec failed


class Former(Enum):
    """What is to be done about resources that were put aside for another one."""

    NONE = auto()  # there is none
    KEPT = auto()  # each is used, or could not be looked at
    UNUSED = auto()  # one is there that nothing uses
    GOING = auto()  # its termination was sent; not confirmed
    GONE = auto()  # its termination is confirmed
    SERVING = auto()  # it serves, and the resource is to take its place once that is Ready
    RELIEVED = auto()  # it serves, and the resource that is to take its place is Ready
    RETURNING = auto()  # it serves, and what is to take its place is not asked for any more


class Value(Enum):
    """What is known of a value that the cloud showed once, in its answer to the create."""

    NONE = auto()  # nothing is shown once, or it was not looked
    KEPT = auto()  # the object's Secret has it
    DUE = auto()  # the Secret has it, and it ends so soon that another is to take its place
    EXPIRED = auto()  # the Secret has it, it opens nothing any more, and nobody asked for another
    LOST = auto()  # the Secret does not have it
    TAKEN = auto()  # that Secret is another's, or cannot be written


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision depends on."""

    demand: Demand = Demand.EXIST
    finalizer: bool = True
    paused: bool = False
    plan_only: bool = False
    disabled: bool = False
    """The kind is switched off: what there is of it is only ended."""
    account: Account = Account.READY
    seen: Seen = Seen.NOTHING
    gate: Gate = Gate.OPEN
    undecided: Undecided = Undecided.HOLD
    recovery: Recovery = Recovery.NONE
    end_asked: bool = False
    """People ask for its end, and keep the object."""
    held_back: bool = False
    """What would be restarted or recreated was so lately, and again and again."""
    replacing: bool = False
    difference: Difference = Difference.NONE
    expired: bool = False
    change: str = ""
    """The name of the one to make first, where `difference` is CHANGE."""
    sent: str = ""
    """The name of the change that was sent, and that the cloud does not show so far."""

    unfunded: Wait | Stall | None = None
    """What budgets say to what would be created, started or scaled up."""

    unmet: Reason | None = None
    """Why an object that the spec refers to, and that the resource was not given so far, cannot be given."""
    value: Value = Value.NONE
    in_use: bool = False
    """The resource was given to that of another object, which matters at its end; or that is being made of it."""
    former: Former = Former.NONE

    @property
    def deleting(self) -> bool:
        return self.demand is not Demand.EXIST


Rule = Callable[[View], Action | None]

SEARCHED = frozenset({Seen.FOUND, Seen.ABSENT, Seen.UNSURE, Seen.UNKNOWABLE})
RECORDED = frozenset(
    {Seen.PENDING, Seen.READY, Seen.STOPPED, Seen.INTERRUPTED, Seen.FAILED, Seen.GOING, Seen.MISSING, Seen.GONE}
)
_THERE = RECORDED - {Seen.GOING, Seen.MISSING, Seen.GONE}
_NOTHING_OF_OURS = frozenset({Seen.NOTHING, Seen.GONE, Seen.ADOPTEE, Seen.ADOPTEE_REFUSED, Seen.TAKEN})
_GATES: dict[Gate, Action] = {
    Gate.OUTDATED: Stall(Reason.CRD_OUTDATED),
    Gate.DEAF: Wait(Reason.WAITING_FOR_ACCOUNT),
    Gate.ENV_MISSING: Wait(Reason.ENV_MISSING),
    Gate.UNSCHEDULED: Stall(Reason.SCHEDULE_INVALID),
    Gate.RESTING: Wait(Reason.OUTSIDE_SCHEDULE),
    Gate.LATER: Wait(Reason.WAITING_FOR_RETRY),
}
_FORMER: dict[Former, Action] = {Former.UNUSED: EndFormer(), Former.GONE: DropFormer()}
_IN_SERVICE = frozenset({Former.SERVING, Former.RELIEVED, Former.RETURNING})


_LINKABLE = frozenset({Seen.READY, Seen.STOPPED})


def _unmet(view: View) -> Action | None:
    if view.unmet is None:
        return None
    return Stall(view.unmet) if view.unmet is Reason.REFERENCE_OTHER_ACCOUNT else Wait(view.unmet)


def _held_up(view: View) -> Action | None:
    """What keeps a create from being sent."""
    return _GATES.get(view.gate) or _taken(view) or _unmet(view) or view.unfunded


def _taken(view: View) -> Action | None:
    return Stall(Reason.SECRET_TAKEN) if view.value is Value.TAKEN else None


def _abandoned(view: View) -> Action | None:
    return Release() if view.demand is Demand.DELETE_ABANDONING else None


def _disabled(view: View) -> Action | None:
    return Stall(Reason.KIND_DISABLED) if view.disabled and not view.deleting else None


def _never_created(view: View) -> Action | None:
    """Nothing exists, so no account is needed to let go."""
    nothing = view.seen is Seen.NOTHING and view.former is Former.NONE
    return Release() if view.deleting and nothing else None


def _account(view: View) -> Action | None:
    return rules.WITHOUT_ACCOUNT.get(view.account)


def _blind(view: View) -> Action | None:
    return Wait(Reason.CLOUD_UNAVAILABLE) if view.seen is Seen.BLIND else None


def _foreign(view: View) -> Action | None:
    return Stall(Reason.IDENTITY_MISMATCH) if view.seen is Seen.FOREIGN else None


def _withheld(view: View) -> Action | None:
    """Nothing is created beside it, and nothing of it is touched."""
    if view.seen is not Seen.WITHHELD:
        return None
    return Release() if view.deleting else Stall(Reason.ADOPTION_REFUSED)


def _delete_with_open_intent(view: View) -> Action | None:
    return _search(view) if view.deleting and view.seen in SEARCHED else None


def _in_use(view: View) -> Action | None:
    """What another object's resource was given stays until that is gone."""
    there = view.seen in _THERE or view.former is Former.KEPT
    return Wait(Reason.IN_USE) if view.deleting and view.in_use and there else None


def _spared(view: View) -> Action | None:
    """What something is being made of is neither stopped nor ended meanwhile."""
    return Wait(Reason.IN_USE) if view.in_use else None


def _orphan(view: View) -> Action | None:
    return Release() if view.demand is Demand.DELETE_ORPHANING else None


def _former(view: View) -> Action | None:
    return _FORMER.get(view.former)


def _reinstate(view: View) -> Action | None:
    """The old one has its place again if the new one failed, is gone, is not asked for any more, or cannot be made."""
    if view.former not in _IN_SERVICE:
        return None
    unasked = view.former is Former.RETURNING or view.replacing or view.deleting
    match view.seen:
        case Seen.GOING:
            return Wait(Reason.REPLACING)
        case seen if seen is Seen.GONE or (seen in _NOTHING_OF_OURS and (unasked or _held_up(view))):
            return Reinstate()
        case seen if seen is Seen.FAILED or (seen in _THERE and unasked):
            return _spared(view) or (Delete() if view.replacing else Replace())
        case _:
            return None


def _switch_over(view: View) -> Action | None:
    return SwitchOver() if view.former is Former.RELIEVED else None


def _delete_former(view: View) -> Action | None:
    """Before the resource itself: the object goes with that."""
    if not view.deleting:
        return None
    return Wait(Reason.DELETING) if view.former in {Former.GOING, Former.KEPT} else _former(view)


def _delete(view: View) -> Action | None:
    if not view.deleting:
        return None
    if view.seen not in RECORDED or view.seen is Seen.GONE:
        return Release()
    if view.seen in {Seen.GOING, Seen.MISSING}:
        return Wait(Reason.DELETING)
    if view.demand is Demand.DELETE_STOPPING:
        return _stop_and_release(view)
    return Delete()


def _stop_and_release(view: View) -> Action:
    match view.seen:
        case Seen.STOPPED | Seen.FAILED:
            return Release()
        case Seen.PENDING:
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
    if view.recovery is not Recovery.RECREATE and view.difference is not Difference.REPLACEABLE:
        return None
    if view.replacing:
        return _spared(view) or Delete()
    if view.gate is Gate.OUTDATED:
        return _GATES[view.gate]
    if view.held_back:
        return None if view.difference is Difference.CHANGE else Wait(Reason.BACK_OFF)
    return _unmet(view) or _spared(view) or Replace()


def _rotate(view: View) -> Action | None:
    """Another is made before the value that there is ends, or if nobody has it; it is what the spec asks for by now."""
    if view.seen is not Seen.READY:
        return None
    if view.value in {Value.LOST, Value.DUE}:
        return _held_up(view) or SetAside()
    if view.value is Value.EXPIRED and view.difference is not Difference.SUPERSEDED:
        return Stall(Reason.EXPIRED)
    return _taken(view)


def _supersede(view: View) -> Action | None:
    """At most two of what takes another's place: the next one is made once the old one is gone."""
    match view.difference:
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
    """A start that was refused is tried again no sooner than was agreed; a stop saves money and never waits.

    What was agreed for a recovery does not hold back what people ask for meanwhile.
    """
    if view.gate is Gate.LATER and not view.held_back and action.change != STOP:
        return Wait(Reason.WAITING_FOR_RETRY)
    return action


def _once(view: View, change: str) -> Update | Watch:
    """A change that was taken is not sent again at each poll until the cloud shows it."""
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
    _create,
    _gone,
    _unscheduled,
    _switch_over,
    _replace,
    _former,
    _rotate,
    _supersede,
    _forbidden,
    _update,
    _expire,
    _unlinked,
)


def plan(view: View) -> Action:
    """The first rule of `RULES` that applies, `Keep` if none does; what changes something is only told if asked."""
    action: Action = rules.first(RULES, view) or Keep()
    if not view.plan_only or not isinstance(action, Held):
        return action
    nothing = view.seen in _NOTHING_OF_OURS and view.former is Former.NONE
    harmless = isinstance(action, Release) and (nothing or view.demand is Demand.DELETE_ABANDONING)
    return action if harmless else Propose(action)

"""The plan of managed kinds, over the whole product of its inputs: some 24 billion views.

Neither the plan nor an invariant can tell views apart by a field that it does not read. So fields are settled as
they are read, and every way of settling them is gone through: some 700,000.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import cast, get_args

from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Ignore, Release, Stall, Wait
from relay_operator.engine.rules import Account
from relay_operator.flows.managed.actions import (
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
)
from relay_operator.flows.managed.plan import plan
from relay_operator.flows.managed.view import (
    RECORDED,
    SEARCHED,
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

TOUCHES_THE_CLOUD = (Create, Resend, Adopt, Discard, Update, Delete, EndFormer)
ENDS = (Delete, Update)
IN_SERVICE = {Former.SERVING, Former.RELIEVED, Former.RETURNING}
ALIVE = RECORDED - {Seen.GONE, Seen.MISSING, Seen.GOING}


AXES: dict[str, Sequence[object]] = {
    **dict.fromkeys(
        ("finalizer", "paused", "plan_only", "disabled", "end_asked", "may_run", "held_back", "replacing", "expired"),
        (True, False),
    ),
    "unended": (True, False),
    "demand": tuple(Demand),
    "account": tuple(Account),
    "seen": tuple(Seen),
    "gate": tuple(Gate),
    "undecided": tuple(Undecided),
    "recovery": tuple(Recovery),
    "difference": tuple(Difference),
    "change": ("", "scale", STOP),
    "sent": ("", "scale", STOP),
    "unmet": (None, Reason.REFERENCE_NOT_READY, Reason.REFERENCE_OTHER_ACCOUNT),
    "unfunded": (None, Wait(Reason.WAITING_FOR_BUDGET)),
    "in_use": (True, False),
    "value": tuple(Value),
    "former": tuple(Former),
}


class Asked:
    """A view whose fields are settled as they are read: it stands for every view that agrees with it on these."""

    def __init__(self, settled: dict[str, int]) -> None:
        self.settled = settled

    def __getattr__(self, name: str) -> object:
        """What is read for the first time; it is kept, so that each is settled once."""
        value = AXES[name][self.settled.setdefault(name, 0)] if name in AXES else getattr(View, name).fget(self)
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        return str({name: AXES[name][index] for name, index in self.settled.items()})

    @property
    def stands_for(self) -> int:
        """How many views."""
        return math.prod(len(values) for name, values in AXES.items() if name not in self.settled)


def every_view() -> Iterator[Asked]:
    """Each is to be read before the next is asked for. Together they stand for the whole product, each view once."""
    settled: dict[str, int] | None = {}
    while settled is not None:
        view = Asked(settled)
        yield view
        settled = following(view.settled)


def following(settled: dict[str, int]) -> dict[str, int] | None:
    """The next after these, which are in the order in which they were read: the last that can go on does."""
    earlier = list(settled.items())
    while earlier:
        name, index = earlier.pop()
        if index + 1 < len(AXES[name]):
            return {**dict(earlier), name: index + 1}
    return None


def test_every_view_gets_one_action_and_none_breaks_an_invariant() -> None:
    actions: Counter[type[Action]] = Counter()
    for asked in every_view():
        view = cast("View", asked)
        action = plan(view)
        broken = [name for name, holds in INVARIANTS.items() if not holds(view, action)]
        actions[type(action)] += asked.stands_for
        assert not broken, f"{broken} broken by {action} for {asked}"
    assert set(actions) == set(get_args(Action)), "an action that no view leads to is dead"
    assert set(AXES) == {field.name for field in fields(View)}
    assert actions.total() == math.prod(map(len, AXES.values()))


INVARIANTS: dict[str, Callable[[View, Action], bool]] = {
    "never a create while deleting": lambda view, action: not (isinstance(action, Create | Resend) and view.deleting),
    "never a create unless nothing of ours exists": lambda view, action: (
        not isinstance(action, Create) or view.seen is Seen.NOTHING
    ),
    "never a create through a closed gate": lambda view, action: (
        not isinstance(action, Create | Resend) or view.gate is Gate.OPEN
    ),
    "never a create without what it is to be given": lambda view, action: (
        not isinstance(action, Create | Resend | Replace) or view.unmet is None or view.former in IN_SERVICE
    ),
    "never a create that may not cost what it costs": lambda view, action: (
        not isinstance(action, Create | Resend) or view.unfunded is None
    ),
    "nothing is changed that may not cost more, and a stop never waits for that": lambda view, action: (
        not isinstance(action, Update)
        or view.difference is not Difference.CHANGE
        or view.unfunded is None
        or action.change == STOP
    ),
    "nothing ends or is let go for want of money, or stays for it": lambda view, action: (
        action != view.unfunded or not view.deleting
    ),
    "never a create whose value cannot be kept": lambda view, action: (
        not isinstance(action, Create | Resend) or view.value is not Value.TAKEN
    ),
    "what is found is ended only if its value is lost, and else it is adopted": lambda view, action: (
        isinstance(action, Discard | Adopt) is False
        or view.seen is not Seen.FOUND
        or isinstance(action, Discard) is (view.value in {Value.LOST, Value.TAKEN})
    ),
    "nothing but what is found is discarded": lambda view, action: (
        not isinstance(action, Discard) or view.seen is Seen.FOUND
    ),
    "what others were given is not ended for its object's sake": lambda view, action: (
        not isinstance(action, Delete | Release)
        or not view.in_use
        or not view.deleting
        or view.seen not in ALIVE
        or view.demand is Demand.DELETE_ABANDONING
        or (view.replacing and view.demand is Demand.EXIST)
    ),
    "what something is being made of is neither stopped nor replaced": lambda view, action: (
        not view.in_use
        or view.seen not in ALIVE | {Seen.BLIND}
        or view.demand is Demand.DELETE_ABANDONING
        or not (isinstance(action, Delete | Replace) or action == Update(STOP))
    ),
    "a resend only for an open intent nobody can decide": lambda view, action: (
        not isinstance(action, Resend) or (view.seen is Seen.UNKNOWABLE and view.undecided is Undecided.RESEND)
    ),
    "nothing is done in the cloud while paused": lambda view, action: (
        not (view.paused and isinstance(action, TOUCHES_THE_CLOUD))
    ),
    "of a kind that is switched off, nothing but an end is done": lambda view, action: (
        not view.disabled or view.deleting or isinstance(action, Ignore | Wait | Stall)
    ),
    "nothing is done in the cloud without an account": lambda view, action: (
        view.account is Account.READY or not isinstance(action, TOUCHES_THE_CLOUD)
    ),
    "what could not be looked at is left alone, but for the end or the stop of what was seen before": (
        lambda view, action: (
            not (view.seen is Seen.BLIND and isinstance(action, (*TOUCHES_THE_CLOUD, Forget, CloseIntent)))
            or (action in {Delete(), EndFormer()} and view.demand is Demand.DELETE)
            or (action == Update(STOP) == Update(view.change) and view.demand is not Demand.DELETE)
        )
    ),
    "what is not ours is left alone": lambda view, action: (
        not (view.seen in {Seen.FOREIGN, Seen.WITHHELD} and isinstance(action, TOUCHES_THE_CLOUD))
    ),
    "only what was seen alive is changed or ended": lambda view, action: (
        not isinstance(action, ENDS)
        or view.seen in ALIVE
        or (action == Update(STOP) and view.seen is Seen.BLIND)
        or (action == Delete() and view.seen in {Seen.BLIND, Seen.MISSING, Seen.GONE} and view.demand is Demand.DELETE)
    ),
    "what was not told to end is not let go": lambda view, action: (
        not isinstance(action, Release)
        or not view.unended
        or view.seen is not Seen.GONE
        or view.demand is not Demand.DELETE
    ),
    "what has gone is told to end only once": lambda view, action: (
        action != Delete() or view.unended or view.seen in ALIVE
    ),
    "a live resource is released only where people said so": lambda view, action: (
        not isinstance(action, Release)
        or view.seen in {Seen.NOTHING, Seen.GONE, Seen.ADOPTEE, Seen.ADOPTEE_REFUSED, Seen.TAKEN, Seen.WITHHELD}
        or view.demand in {Demand.DELETE_ORPHANING, Demand.DELETE_ABANDONING}
        or (view.demand is Demand.DELETE_STOPPING and view.seen in {Seen.STOPPED, Seen.FAILED})
    ),
    "an open intent is let go only where people said so": lambda view, action: (
        not isinstance(action, Release) or view.seen not in SEARCHED or view.demand is Demand.DELETE_ABANDONING
    ),
    "an id is dropped only when its resource is surely gone": lambda view, action: (
        not isinstance(action, Forget) or view.seen is Seen.GONE
    ),
    "an object that lives is never released": lambda view, action: not isinstance(action, Release) or view.deleting,
    "nothing is begun anew before its time": lambda view, action: (
        not view.held_back or view.replacing or not isinstance(action, Replace | Forget) or view.former in IN_SERVICE
    ),
    "what has a value makes room for another only if that can be kept": lambda view, action: (
        not isinstance(action, SetAside) or view.value is not Value.TAKEN
    ),
    "nothing is put aside that status cannot hold": lambda view, action: (
        not isinstance(action, SetAside) or view.value is not Value.STUCK or view.seen is not Seen.READY
    ),
    "what is put aside is followed by another": lambda view, action: (
        not isinstance(action, SetAside) or (view.gate is Gate.OPEN and view.seen in ALIVE and view.unmet is None)
    ),
    "a former one is ended only if nothing uses it": lambda view, action: (
        not isinstance(action, EndFormer) or view.former is Former.UNUSED
    ),
    "a former one is dropped only if it is surely gone": lambda view, action: (
        not isinstance(action, DropFormer) or view.former is Former.GONE
    ),
    "what is there ends with its object, whatever becomes of a former one": (
        lambda view, action: (
            action != Wait(Reason.DELETING) or view.demand is not Demand.DELETE or view.seen not in ALIVE
        )
    ),
    "a former one is let go only where people said so": lambda view, action: (
        not isinstance(action, Release)
        or view.former is Former.NONE
        or view.seen is Seen.WITHHELD
        or view.demand in {Demand.DELETE_ORPHANING, Demand.DELETE_ABANDONING}
    ),
    "the old one has its place again only where the new one surely is not": lambda view, action: (
        not isinstance(action, Reinstate) or (view.seen not in SEARCHED | ALIVE and view.former in IN_SERVICE)
    ),
    "others are led only to what is Ready, and asked for still": lambda view, action: (
        not isinstance(action, SwitchOver)
        or (view.former is Former.RELIEVED and view.seen in ALIVE - {Seen.FAILED} and not view.replacing)
    ),
    "what serves is not ended while another is made beside it": lambda view, action: (
        not isinstance(action, EndFormer | DropFormer) or view.former not in IN_SERVICE
    ),
    "there are two at most": lambda view, action: (
        not (isinstance(action, SetAside) and view.difference is Difference.BLUE_GREEN)
        or view.former is Former.NONE
        or view.value is not Value.NONE
    ),
    "what failed is not made again": lambda view, action: (
        not isinstance(action, SetAside)
        or view.difference is not Difference.GREEN_FAILED
        or view.value is not Value.NONE
    ),
    "what is gone as people asked is nobody else's doing, and is not made again": lambda view, action: (
        not (view.end_asked and view.seen is Seen.GONE)
        or not isinstance(action, Forget | Stall)
        or view.disabled
        or view.account is not Account.READY
    ),
    "nothing rests but what is gone as people asked": lambda view, action: (
        not isinstance(action, Rest) or (view.end_asked and view.seen is Seen.GONE and not view.deleting)
    ),
    "what is only planned is told, and not done": lambda view, action: (
        isinstance(action, Propose) <= view.plan_only
        and not (view.plan_only and isinstance(action, Held) and not isinstance(action, Release))
    ),
    "while it is only planned, nothing is let go that is or may be there": lambda view, action: (
        not (view.plan_only and isinstance(action, Release))
        or view.demand is Demand.DELETE_ABANDONING
        or (
            view.former is Former.NONE
            and view.seen in {Seen.NOTHING, Seen.GONE, Seen.ADOPTEE, Seen.ADOPTEE_REFUSED, Seen.TAKEN}
        )
    ),
    "a resource of a live object is ended only to be replaced": lambda view, action: (
        not isinstance(action, Delete) or view.deleting or view.replacing
    ),
}

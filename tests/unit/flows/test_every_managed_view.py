"""The plan of managed kinds, over the whole product of its inputs: a million views.

Apart from the rule by rule tests, whose coverage is measured: that would make this one three times as long.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

from relay_operator.engine.actions import Release
from relay_operator.engine.rules import Account
from relay_operator.flows.managed.actions import (
    Action,
    Adopt,
    CloseIntent,
    Create,
    Delete,
    Forget,
    Replace,
    Resend,
    Update,
)
from relay_operator.flows.managed.plan import (
    RECORDED,
    SEARCHED,
    Demand,
    Difference,
    Gate,
    Recovery,
    Seen,
    Undecided,
    View,
    plan,
)

TOUCHES_THE_CLOUD = (Create, Resend, Adopt, Update, Delete)
ENDS = (Delete, Update)
ALIVE = RECORDED - {Seen.GONE, Seen.MISSING, Seen.GOING}


def every_view() -> Iterator[View]:
    """Every combination. `step` is read in one place only, so its values are tried apart."""
    axes = (
        Demand,
        (True, False),
        (True, False),
        Account,
        Seen,
        Gate,
        Undecided,
        Recovery,
        (True, False),
        (True, False),
    )
    for combination in itertools.product(*axes):
        for difference, expired in itertools.product(Difference, (True, False)):
            yield View(*combination, difference, expired=expired)


def test_every_view_gets_one_action_and_none_breaks_an_invariant() -> None:
    actions: Counter[type[Action]] = Counter()
    for view in every_view():
        action = plan(view)
        actions[type(action)] += 1
        broken = [name for name, holds in INVARIANTS.items() if not holds(view, action)]
        assert not broken, f"{broken} broken by {action} for {view}"
    assert set(actions) == set(get_args(Action)), "an action that no view leads to is dead"


INVARIANTS: dict[str, Callable[[View, Action], bool]] = {
    "never a create while deleting": lambda view, action: not (isinstance(action, Create | Resend) and view.deleting),
    "never a create unless nothing of ours exists": lambda view, action: (
        not isinstance(action, Create) or view.seen is Seen.NOTHING
    ),
    "never a create through a closed gate": lambda view, action: (
        not isinstance(action, Create | Resend) or view.gate is Gate.OPEN
    ),
    "a resend only for an open intent nobody can decide": lambda view, action: (
        not isinstance(action, Resend) or (view.seen is Seen.UNKNOWABLE and view.undecided is Undecided.RESEND)
    ),
    "nothing is done in the cloud while paused": lambda view, action: (
        not (view.paused and isinstance(action, TOUCHES_THE_CLOUD))
    ),
    "nothing is done in the cloud without an account": lambda view, action: (
        view.account is Account.READY or not isinstance(action, TOUCHES_THE_CLOUD)
    ),
    "what could not be looked at is left alone": lambda view, action: (
        not (view.seen is Seen.BLIND and isinstance(action, (*TOUCHES_THE_CLOUD, Forget, CloseIntent)))
    ),
    "what is not ours is left alone": lambda view, action: (
        not (view.seen in {Seen.FOREIGN, Seen.WITHHELD} and isinstance(action, TOUCHES_THE_CLOUD))
    ),
    "only what was seen alive is changed or ended": lambda view, action: (
        not isinstance(action, ENDS) or view.seen in ALIVE
    ),
    "a live resource is released only where people said so": lambda view, action: (
        not isinstance(action, Release)
        or view.seen in {Seen.NOTHING, Seen.GONE, Seen.ADOPTEE, Seen.ADOPTEE_REFUSED, Seen.WITHHELD}
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
        not view.held_back or view.replacing or not isinstance(action, Replace | Forget)
    ),
    "a resource of a live object is ended only to be replaced": lambda view, action: (
        not isinstance(action, Delete) or view.deleting or view.replacing
    ),
}

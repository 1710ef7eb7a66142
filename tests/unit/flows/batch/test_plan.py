"""The plan of a batch, over the product of its inputs, and rule by rule."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import get_args

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait
from relay_operator.engine.rules import Account
from relay_operator.flows.batch import actions
from relay_operator.flows.batch.actions import Action, Start, Work
from relay_operator.flows.batch.plan import (
    BatchDemand,
    EndingState,
    Holds,
    Live,
    Phase,
    Round,
    Sight,
    Transfer,
    View,
    plan,
)

SENDS = (actions.Submit, actions.Begin, actions.Again)
TOUCHES_THE_CLOUD = (actions.Submit, actions.Cancel, actions.Start)
NOTHING_THERE = {Phase.NEW, Phase.CLEARED, Phase.EXPIRED}


def every_view() -> Iterator[View]:
    """Every combination that an object can be in: only what is active has a round, runs, or is searched for."""
    yes_or_no = (True, False)
    active = itertools.product(Sight, Round, Live, Holds, Transfer, EndingState, yes_or_no, yes_or_no)
    states = [View(BatchDemand.EXIST, True, False, Account.READY, Phase.ACTIVE, *values) for values in active]
    for phase, holds, transfer, waiting in itertools.product(set(Phase) - {Phase.ACTIVE}, Holds, Transfer, yes_or_no):
        states.append(View(phase=phase, holds=holds, transfer=transfer, waiting=waiting))
    for demand, state in itertools.product(BatchDemand, states):
        yield replace(state, demand=demand)
        if state.waiting or state.transfer is Transfer.BUSY:
            continue  # makes no difference to what holds everything back
        for account in set(Account) - {Account.READY}:
            yield replace(state, demand=demand, account=account)
        yield replace(state, demand=demand, finalizer=False)
        yield replace(state, demand=demand, paused=True)
        yield replace(state, demand=demand, outdated=True)
        yield replace(state, demand=demand, misplaced=True)


def test_every_view_gets_one_action_and_none_breaks_an_invariant() -> None:
    seen: Counter[type[Action]] = Counter()
    for view in every_view():
        action = plan(view)
        seen[type(action)] += 1
        broken = [name for name, holds in INVARIANTS.items() if not holds(view, action)]
        assert not broken, f"{broken} broken by {action} for {view}"
    assert set(seen) == set(get_args(Action)), "an action that no view leads to is dead"


INVARIANTS: dict[str, Callable[[View, Action], bool]] = {
    "nothing is sent while deleting, suspended or ending": lambda view, action: (
        (not isinstance(action, SENDS) and action != Start(Work.SEND)) or not view.halted
    ),
    "a batch is created only when all that may have been created is known": lambda view, action: (
        not isinstance(action, actions.Submit) or view.sight is Sight.CLEAR
    ),
    "nothing is paid before its time": lambda view, action: not isinstance(action, actions.Submit) or not view.waiting,
    "nothing is paid in the pause after failures": lambda view, action: (
        not isinstance(action, actions.Submit) or (view.round is Round.UNPAID and not view.outdated)
    ),
    "the cloud is not touched while paused": lambda view, action: (
        not (view.paused and isinstance(action, TOUCHES_THE_CLOUD))
    ),
    "the cloud is not touched without an account": lambda view, action: (
        view.account is Account.READY or not isinstance(action, TOUCHES_THE_CLOUD)
    ),
    "what could not be looked at is at most cancelled": lambda view, action: (
        view.sight is not Sight.BLIND
        or not isinstance(action, (actions.Submit, actions.Start, actions.Close, actions.Finish))
    ),
    "what runs is cancelled only if it is to end": lambda view, action: (
        not isinstance(action, actions.Cancel) or (view.halted and view.demand is not BatchDemand.DELETE_ORPHANING)
    ),
    "what runs is cancelled, not published or forgotten": lambda view, action: (
        not (view.phase is Phase.ACTIVE and view.live is not Live.NONE and view.halted)
        or not isinstance(action, actions.Finish | actions.BeginPublication | actions.Rest)
    ),
    "only what runs is cancelled": lambda view, action: (
        not isinstance(action, actions.Cancel) or view.live is Live.RUNNING
    ),
    "results are dropped only where people said so": lambda view, action: (
        not isinstance(action, actions.Finish)
        or view.holds is not Holds.RESULTS
        or view.demand is BatchDemand.DELETE_DISCARDING
    ),
    "what is in the cloud is let go only where people said so": lambda view, action: (
        not isinstance(action, Release)
        or view.phase in NOTHING_THERE
        or view.demand in {BatchDemand.DELETE_ABANDONING, BatchDemand.DELETE_ORPHANING}
    ),
    "what may have been created is let go only by abandoning it": lambda view, action: (
        not isinstance(action, Release)
        or view.sight is Sight.CLEAR
        or view.phase in NOTHING_THERE
        or view.demand is BatchDemand.DELETE_ABANDONING
    ),
    "what is orphaned is never cancelled": lambda view, action: (
        view.demand is not BatchDemand.DELETE_ORPHANING or not isinstance(action, actions.Cancel)
    ),
    "an object that lives is never released": lambda view, action: not isinstance(action, Release) or view.deleting,
    "files are deleted only once the outcome is written down": lambda view, action: (
        action != Start(Work.CLEAR) or view.phase is Phase.FINISHED
    ),
    "the output is written only once that is written down": lambda view, action: (
        action != Start(Work.PUBLISH) or view.phase is Phase.PUBLISHING
    ),
    "an object goes by itself only when nothing of it is left": lambda view, action: (
        not isinstance(action, Expire) or view.phase is Phase.EXPIRED
    ),
}


FRESH = View(phase=Phase.NEW)
GOING = View(demand=BatchDemand.DELETE)
OVER = View(round=Round.OVER, holds=Holds.RESULTS)
ENDING = View(ending=EndingState.RECORDED)

SENTENCES: dict[str, tuple[View, Action]] = {
    "deleting without our finalizer is none of our business": (replace(GOING, finalizer=False), Ignore()),
    "abandoning lets go before anything else": (
        View(demand=BatchDemand.DELETE_ABANDONING, paused=True, account=Account.REFUSED, sight=Sight.BLIND),
        Release(),
    ),
    "paused keeps even what is being deleted": (replace(GOING, paused=True), Wait(Reason.PAUSED)),
    "what was never begun goes without an account": (
        replace(GOING, phase=Phase.NEW, account=Account.REFUSED),
        Release(),
    ),
    "what is finished and cleared goes without an account": (
        replace(GOING, phase=Phase.CLEARED, account=Account.WAITING),
        Release(),
    ),
    "what is finished is kept": (View(phase=Phase.CLEARED), Keep()),
    "what is finished long enough goes by itself": (View(phase=Phase.EXPIRED), Expire()),
    "suspended from the start needs no account": (
        replace(FRESH, demand=BatchDemand.SUSPEND, account=Account.WAITING),
        Wait(Reason.SUSPENDED),
    ),
    "orphaning lets go of what runs": (
        View(demand=BatchDemand.DELETE_ORPHANING, live=Live.RUNNING, account=Account.REFUSED),
        Release(),
    ),
    "but an unanswered create is searched for before": (
        View(demand=BatchDemand.DELETE_ORPHANING, sight=Sight.UNSURE),
        Wait(Reason.SEARCHING),
    ),
    "which needs an account": (
        View(demand=BatchDemand.DELETE_ORPHANING, sight=Sight.UNSURE, account=Account.WAITING),
        Wait(Reason.WAITING_FOR_ACCOUNT),
    ),
    "without an account nothing goes on": (View(account=Account.WAITING), Wait(Reason.WAITING_FOR_ACCOUNT)),
    "a refused account stalls": (View(account=Account.REFUSED), Stall(Reason.ACCOUNT_REFUSED)),
    "a cloud that cannot be asked is waited for": (View(sight=Sight.BLIND), Wait(Reason.CLOUD_UNAVAILABLE)),
    "what runs and shall not is cancelled unseen": (
        replace(GOING, sight=Sight.BLIND, live=Live.RUNNING),
        actions.Cancel(),
    ),
    "what is to end is ended unseen": (
        View(sight=Sight.BLIND, live=Live.RUNNING, ending=EndingState.DUE),
        actions.End(),
    ),
    "what stays is left alone unseen": (
        View(demand=BatchDemand.DELETE_ORPHANING, sight=Sight.BLIND, live=Live.RUNNING),
        Wait(Reason.CLOUD_UNAVAILABLE),
    ),
    "an unanswered create is searched for, deleting too": (replace(GOING, sight=Sight.UNSURE), Wait(Reason.SEARCHING)),
    "what runs and shall not is cancelled, though an unanswered create is searched for": (
        replace(GOING, sight=Sight.UNSURE, live=Live.RUNNING),
        actions.Cancel(),
    ),
    "what is found is adopted, deleting too": (replace(GOING, sight=Sight.FOUND), actions.Adopt()),
    "what is surely absent is closed": (View(sight=Sight.ABSENT), actions.Close()),
    "an intent that was edited stalls": (View(sight=Sight.UNREADABLE), Stall(Reason.CREATE_OUTCOME_UNKNOWN)),
    "what long work came to is written down first": (
        View(transfer=Transfer.DONE, ending=EndingState.DUE, round=Round.UNSENT),
        actions.Record(),
    ),
    "a batch begins with its intent": (FRESH, actions.Begin()),
    "a beginning that was refused waits": (replace(FRESH, waiting=True), Wait(Reason.WAITING_FOR_RETRY)),
    "under an older CRD no batch begins": (replace(FRESH, outdated=True), Stall(Reason.CRD_OUTDATED)),
    "under an older CRD nothing is paid": (View(round=Round.UNPAID, outdated=True), Stall(Reason.CRD_OUTDATED)),
    "under an older CRD what is paid is published": (replace(OVER, outdated=True), actions.BeginPublication()),
    "what fits nowhere waits for another place": (replace(OVER, misplaced=True), Wait(Reason.OUTPUT_TOO_LARGE)),
    "so does what ended early": (
        replace(ENDING, holds=Holds.RESULTS, misplaced=True),
        Wait(Reason.OUTPUT_TOO_LARGE),
    ),
    "the records are uploaded": (View(round=Round.UNSENT), Start(Work.SEND)),
    "an upload that failed waits": (View(round=Round.UNSENT, waiting=True), Wait(Reason.WAITING_FOR_RETRY)),
    "an upload under way is not waited for": (
        View(round=Round.UNSENT, waiting=True, transfer=Transfer.BUSY),
        Start(Work.SEND),
    ),
    "what is uploaded is submitted": (View(round=Round.UNPAID), actions.Submit()),
    "a refused create waits": (View(round=Round.UNPAID, waiting=True), Wait(Reason.WAITING_FOR_RETRY)),
    "the pause after failures is waited for": (View(round=Round.HELD), Wait(Reason.RETRYING)),
    "suspended in that pause it rests": (View(demand=BatchDemand.SUSPEND, round=Round.HELD), actions.Rest()),
    "deleted in that pause, its answers so far are published": (
        replace(GOING, round=Round.HELD, holds=Holds.RESULTS),
        actions.BeginPublication(),
    ),
    "what runs is left to itself": (View(live=Live.RUNNING), Keep()),
    "what failed is sent again": (View(round=Round.OVER_MORE), actions.Again()),
    "but not before its time": (View(round=Round.OVER_MORE, waiting=True), Wait(Reason.WAITING_FOR_RETRY)),
    "what is answered is published": (OVER, actions.BeginPublication()),
    "publishing goes on": (View(phase=Phase.PUBLISHING), Start(Work.PUBLISH)),
    "publishing goes on though deleted": (replace(GOING, phase=Phase.PUBLISHING), Start(Work.PUBLISH)),
    "publishing ends where it is discarded": (
        View(demand=BatchDemand.DELETE_DISCARDING, phase=Phase.PUBLISHING),
        actions.Finish(),
    ),
    "what is finished is cleared": (View(phase=Phase.FINISHED), Start(Work.CLEAR)),
    "a limit that is reached is written down": (View(ending=EndingState.DUE, live=Live.RUNNING), actions.End()),
    "then what runs is cancelled": (replace(ENDING, live=Live.RUNNING), actions.Cancel()),
    "and waited for": (replace(ENDING, live=Live.CANCELLING), Wait(Reason.CANCELLING)),
    "and what there is is published": (replace(ENDING, holds=Holds.RESULTS), actions.BeginPublication()),
    "and without results it is over": (replace(ENDING, holds=Holds.FILES), actions.Finish()),
    "a deleted one is cancelled": (replace(GOING, live=Live.RUNNING), actions.Cancel()),
    "its answers so far are published": (replace(GOING, holds=Holds.RESULTS), actions.BeginPublication()),
    "unless they are discarded": (
        View(demand=BatchDemand.DELETE_DISCARDING, holds=Holds.RESULTS),
        actions.Finish(),
    ),
    "a limit does not matter to what is deleted": (replace(GOING, ending=EndingState.DUE), actions.Finish()),
    "suspended, what runs is cancelled": (View(demand=BatchDemand.SUSPEND, live=Live.RUNNING), actions.Cancel()),
    "then it rests": (View(demand=BatchDemand.SUSPEND, round=Round.OVER_MORE), actions.Rest()),
    "and is left alone": (
        View(demand=BatchDemand.SUSPEND, round=Round.OVER_MORE, rested=True),
        Wait(Reason.SUSPENDED),
    ),
    "what was all answered before it could rest is published": (
        View(demand=BatchDemand.SUSPEND, round=Round.OVER),
        actions.BeginPublication(),
    ),
    "an end that is decided is carried out though suspended": (
        View(demand=BatchDemand.SUSPEND, ending=EndingState.RECORDED),
        actions.Finish(),
    ),
}


@pytest.mark.parametrize(("view", "action"), SENTENCES.values(), ids=SENTENCES)
def test_rule(view: View, action: Action) -> None:
    assert plan(view) == action

"""The plan, rule by rule; over the whole product of its inputs: `test_every_view.py`."""

from dataclasses import replace

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait
from relay_operator.engine.rules import Account
from relay_operator.flows.managed.actions import (
    RESTART,
    START,
    STOP,
    Action,
    Adopt,
    CloseIntent,
    Create,
    Delete,
    EndFormer,
    Forget,
    Replace,
    Resend,
    Rest,
    Update,
    Watch,
)
from relay_operator.flows.managed.plan import plan
from relay_operator.flows.managed.view import Demand, Difference, Former, Gate, Recovery, Seen, Undecided, View


@pytest.mark.parametrize("change", [STOP, START, "scale", "visibility"])
def test_the_change_that_differs_is_the_one_made_and_made_once(change: str) -> None:
    differing = View(seen=Seen.READY, difference=Difference.CHANGE, change=change)
    assert plan(differing) == Update(change)
    assert plan(replace(differing, sent=change)) == Watch(change)
    assert plan(replace(differing, sent="another")) == Update(change)


LIVE = View(seen=Seen.READY)
GOING_AWAY = View(seen=Seen.READY, demand=Demand.DELETE)

SENTENCES: dict[str, tuple[View, Action]] = {
    "deleting without our finalizer is none of our business": (replace(GOING_AWAY, finalizer=False), Ignore()),
    "abandoning lets go before anything else": (
        View(demand=Demand.DELETE_ABANDONING, paused=True, account=Account.REFUSED, seen=Seen.BLIND),
        Release(),
    ),
    "paused keeps even what is being deleted": (replace(GOING_AWAY, paused=True), Wait(Reason.PAUSED)),
    "a kind that is switched off stalls": (replace(LIVE, disabled=True), Stall(Reason.KIND_DISABLED)),
    "a kind that is switched off is still ended": (replace(GOING_AWAY, disabled=True), Delete()),
    "an object that never sent a create goes without an account": (
        View(demand=Demand.DELETE, account=Account.REFUSED),
        Release(),
    ),
    "a deletion waits for its account": (
        replace(GOING_AWAY, account=Account.WAITING),
        Wait(Reason.WAITING_FOR_ACCOUNT),
    ),
    "a refused account stalls": (replace(LIVE, account=Account.REFUSED), Stall(Reason.ACCOUNT_REFUSED)),
    "what was seen before is ended though the cloud cannot be asked": (
        View(demand=Demand.DELETE, seen=Seen.BLIND, unended=True),
        Delete(),
    ),
    "what others use is not ended unseen": (
        View(demand=Demand.DELETE, seen=Seen.BLIND, unended=True, in_use=True),
        Wait(Reason.IN_USE),
    ),
    "what it replaced is ended though the cloud cannot be asked": (
        View(demand=Demand.DELETE, seen=Seen.BLIND, former=Former.UNUSED),
        EndFormer(),
    ),
    "what is to stay is not ended unseen, nor what it replaced": (
        View(demand=Demand.DELETE_ORPHANING, seen=Seen.BLIND, former=Former.UNUSED),
        Wait(Reason.CLOUD_UNAVAILABLE),
    ),
    "what is to be stopped is not ended unseen": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.BLIND, unended=True),
        Wait(Reason.CLOUD_UNAVAILABLE),
    ),
    "a cloud that cannot be asked is waited for": (replace(LIVE, seen=Seen.BLIND), Wait(Reason.CLOUD_UNAVAILABLE)),
    "another's resource is not touched": (replace(LIVE, seen=Seen.FOREIGN), Stall(Reason.IDENTITY_MISMATCH)),
    "what may not be taken over is left": (replace(LIVE, seen=Seen.WITHHELD), Stall(Reason.ADOPTION_REFUSED)),
    "what may not be taken over holds nobody": (replace(GOING_AWAY, seen=Seen.WITHHELD), Release()),
    "deleting with an open intent adopts what is found": (replace(GOING_AWAY, seen=Seen.FOUND), Adopt()),
    "deleting with an open intent closes it when surely absent": (replace(GOING_AWAY, seen=Seen.ABSENT), CloseIntent()),
    "deleting with an open intent stalls when nobody can tell": (
        replace(GOING_AWAY, seen=Seen.UNKNOWABLE, undecided=Undecided.RESEND),
        Stall(Reason.CREATE_OUTCOME_UNKNOWN),
    ),
    "orphaning releases what runs": (View(demand=Demand.DELETE_ORPHANING, seen=Seen.READY), Release()),
    "orphaning searches first": (View(demand=Demand.DELETE_ORPHANING, seen=Seen.UNSURE), Wait(Reason.SEARCHING)),
    "deleting terminates what lives": (GOING_AWAY, Delete()),
    "deleting terminates what is stopped": (replace(GOING_AWAY, seen=Seen.STOPPED), Delete()),
    "deleting waits for a termination": (replace(GOING_AWAY, seen=Seen.GOING), Wait(Reason.DELETING)),
    "one 404 is not enough to release": (replace(GOING_AWAY, seen=Seen.MISSING), Wait(Reason.DELETING)),
    "what is gone is released": (replace(GOING_AWAY, seen=Seen.GONE), Release()),
    "deletionPolicy Stop stops what runs": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.READY),
        Update(STOP),
    ),
    "deletionPolicy Stop stops what is interrupted": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.INTERRUPTED),
        Update(STOP),
    ),
    "deletionPolicy Stop waits for what is on its way": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.PENDING),
        Wait(Reason.DELETING),
    ),
    "deletionPolicy Stop releases what is stopped": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.STOPPED),
        Release(),
    ),
    "an adoptee that fits is adopted": (View(seen=Seen.ADOPTEE), Adopt()),
    "an adoptee that does not fit stalls": (View(seen=Seen.ADOPTEE_REFUSED), Stall(Reason.ADOPTION_REFUSED)),
    "an open intent's resource is adopted": (View(seen=Seen.FOUND), Adopt()),
    "a surely absent create is closed before another": (View(seen=Seen.ABSENT), CloseIntent()),
    "too early to say waits": (View(seen=Seen.UNSURE), Wait(Reason.SEARCHING)),
    "what nobody can find out is held": (View(seen=Seen.UNKNOWABLE), Stall(Reason.CREATE_OUTCOME_UNKNOWN)),
    "a person's word closes what nobody can find out": (
        View(seen=Seen.UNKNOWABLE, undecided=Undecided.GIVE_UP),
        CloseIntent(),
    ),
    "RetryByName sends the same name again": (View(seen=Seen.UNKNOWABLE, undecided=Undecided.RESEND), Resend()),
    "RetryByName keeps to the agreed time": (
        View(seen=Seen.UNKNOWABLE, undecided=Undecided.RESEND, gate=Gate.LATER),
        Wait(Reason.WAITING_FOR_RETRY),
    ),
    "nothing yet creates": (View(), Create()),
    "a create waits until its webhooks would be heard": (
        View(gate=Gate.ACCOUNT_UNFIT),
        Wait(Reason.WAITING_FOR_ACCOUNT),
    ),
    "under an older CRD nothing is created": (View(gate=Gate.OUTDATED), Stall(Reason.CRD_OUTDATED)),
    "under an older CRD nothing is ended to be recreated": (
        replace(LIVE, gate=Gate.OUTDATED, difference=Difference.REPLACEABLE),
        Stall(Reason.CRD_OUTDATED),
    ),
    "under an older CRD what was begun to be recreated is ended": (
        replace(LIVE, gate=Gate.OUTDATED, difference=Difference.REPLACEABLE, replacing=True),
        Delete(),
    ),
    "under an older CRD what exists is changed": (
        replace(LIVE, gate=Gate.OUTDATED, difference=Difference.CHANGE, change=STOP),
        Update(STOP),
    ),
    "a stop waits for what is being made of it": (
        replace(LIVE, difference=Difference.CHANGE, change=STOP, in_use=True),
        Wait(Reason.IN_USE),
    ),
    "a stop that was sent is waited for": (
        replace(LIVE, difference=Difference.CHANGE, change=STOP, in_use=True, sent=STOP),
        Watch(STOP),
    ),
    "any other change waits for nothing that is being made of it": (
        replace(LIVE, difference=Difference.CHANGE, change="visibility", in_use=True),
        Update("visibility"),
    ),
    "a replacement waits for what is being made of it": (
        replace(LIVE, difference=Difference.REPLACEABLE, in_use=True),
        Wait(Reason.IN_USE),
    ),
    "a replacement that was told waits as well": (
        replace(LIVE, difference=Difference.REPLACEABLE, replacing=True, in_use=True),
        Wait(Reason.IN_USE),
    ),
    "missing env waits": (View(gate=Gate.ENV_MISSING), Wait(Reason.ENV_MISSING)),
    "an agreed wait holds a create back": (View(gate=Gate.LATER), Wait(Reason.WAITING_FOR_RETRY)),
    "gone by another's hand stalls": (View(seen=Seen.GONE), Stall(Reason.TERMINATED_EXTERNALLY)),
    "gone as people asked is left at that": (View(seen=Seen.GONE, end_asked=True), Rest()),
    "gone by another's hand is recreated where asked": (
        View(seen=Seen.GONE, recovery=Recovery.RECREATE),
        Forget(),
    ),
    "gone once more and again waits": (
        View(seen=Seen.GONE, recovery=Recovery.RECREATE, held_back=True),
        Wait(Reason.BACK_OFF),
    ),
    "a replacement under way is not held back": (
        View(seen=Seen.GONE, recovery=Recovery.RECREATE, held_back=True, replacing=True),
        Forget(),
    ),
    "gone by our own hand is recreated": (View(seen=Seen.GONE, replacing=True), Forget()),
    "what is not shown is told to end with its object": (
        View(demand=Demand.DELETE, seen=Seen.MISSING, unended=True),
        Delete(),
    ),
    "what is not shown and was told to end is waited for": (
        View(demand=Demand.DELETE, seen=Seen.MISSING),
        Wait(Reason.DELETING),
    ),
    "what others use is not told to end, although it is not shown": (
        View(demand=Demand.DELETE, seen=Seen.GONE, unended=True, in_use=True),
        Wait(Reason.IN_USE),
    ),
    "what is only to be stopped is not told to end": (
        View(demand=Demand.DELETE_STOPPING, seen=Seen.MISSING, unended=True),
        Wait(Reason.DELETING),
    ),
    "another that would differ in the same way waits": (
        replace(LIVE, difference=Difference.SUPERSEDED, held_back=True),
        Wait(Reason.BACK_OFF),
    ),
    "one 404 of a live object is doubted": (View(seen=Seen.MISSING), Wait(Reason.SEARCHING)),
    "a replacement is told before it is begun": (replace(LIVE, difference=Difference.REPLACEABLE), Replace()),
    "a replacement that was told deletes": (
        replace(LIVE, difference=Difference.REPLACEABLE, replacing=True),
        Delete(),
    ),
    "a replacement waits for its deletion": (
        View(seen=Seen.GOING, replacing=True, difference=Difference.REPLACEABLE),
        Wait(Reason.RECREATING),
    ),
    "a replacement that is no longer wanted ends nothing": (replace(LIVE, replacing=True), Keep()),
    "a forbidden change stalls": (
        replace(LIVE, difference=Difference.FORBIDDEN),
        Stall(Reason.IMMUTABLE_FIELD_CHANGED),
    ),
    "a refused start keeps to the agreed time": (
        View(seen=Seen.STOPPED, difference=Difference.CHANGE, change=START, gate=Gate.LATER),
        Wait(Reason.WAITING_FOR_RETRY),
    ),
    "a stop never waits": (
        replace(LIVE, difference=Difference.CHANGE, change=STOP, gate=Gate.LATER),
        Update(STOP),
    ),
    "a failure is restarted where asked": (View(seen=Seen.FAILED, recovery=Recovery.RESTART), Update(START)),
    "a failure is recreated where asked": (View(seen=Seen.FAILED, recovery=Recovery.RECREATE), Replace()),
    "a failure that comes again waits to be restarted": (
        View(seen=Seen.FAILED, recovery=Recovery.RESTART, held_back=True, gate=Gate.LATER),
        Wait(Reason.BACK_OFF),
    ),
    "a failure that comes again waits to be recreated": (
        View(seen=Seen.FAILED, recovery=Recovery.RECREATE, held_back=True),
        Wait(Reason.BACK_OFF),
    ),
    "what never is as asked waits to be recreated": (
        replace(LIVE, difference=Difference.REPLACEABLE, held_back=True),
        Wait(Reason.BACK_OFF),
    ),
    "a person's restart does not wait for a recovery": (
        View(
            seen=Seen.FAILED,
            recovery=Recovery.RECREATE,
            held_back=True,
            gate=Gate.LATER,
            difference=Difference.CHANGE,
            change=RESTART,
        ),
        Update(RESTART),
    ),
    "the old one gets its place back only once the new one is gone": (
        View(former=Former.SERVING, seen=Seen.GOING),
        Wait(Reason.REPLACING),
    ),
    "an object whose time is up is deleted": (View(seen=Seen.STOPPED, expired=True), Expire()),
    "what is as asked is kept": (LIVE, Keep()),
    "what is on its way is left alone": (View(seen=Seen.PENDING), Keep()),
    "an interruption is waited out": (View(seen=Seen.INTERRUPTED), Keep()),
    "a failure is left for people": (View(seen=Seen.FAILED), Keep()),
}


@pytest.mark.parametrize(("view", "action"), SENTENCES.values(), ids=SENTENCES)
def test_rule(view: View, action: Action) -> None:
    assert plan(view) == action

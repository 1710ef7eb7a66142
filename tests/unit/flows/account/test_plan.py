"""Which rule decides over an account: the whole product of what a decision depends on."""

import itertools
from dataclasses import fields

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Ignore, Keep, Stall, Wait
from relay_operator.flows.account.plan import Action, End, Glance, Look, View, plan

SILENT = Reason.CLOUD_UNAVAILABLE
GOING = View(deleting=True)

DECIDED: dict[str, tuple[View, Action]] = {
    "one as it should be is kept": (View(), Keep()),
    "one whose look is due is looked at": (View(look_due=True), Look(read_only=False)),
    "one that is paused is looked at, and nothing is changed": (View(look_due=True, paused=True), Look(read_only=True)),
    "one whose funds are waited for is glanced at": (View(glance_due=True), Glance(read_only=False)),
    "a look shows more than a glance": (View(look_due=True, glance_due=True), Look(read_only=False)),
    "one in use that is deleted is looked at": (View(deleting=True, in_use=True, look_due=True), Look(read_only=True)),
    "one without its Secret waits": (View(usable=False, reason=Reason.SECRET_MISSING), Wait(Reason.SECRET_MISSING)),
    "one that is refused waits for people": (
        View(usable=False, refused=True, reason=Reason.ACCOUNT_UNAUTHORIZED),
        Stall(Reason.ACCOUNT_UNAUTHORIZED),
    ),
    "one that goes is let go": (GOING, End(unsubscribe=False)),
    "its subscription goes first": (View(deleting=True, subscribed=True), End(unsubscribe=True)),
    "a subscription that nobody can end holds nothing up": (
        View(deleting=True, subscribed=True, usable=False, refused=True, reason=Reason.ACCOUNT_UNAUTHORIZED),
        End(unsubscribe=False),
    ),
    "a cloud that does not answer is waited for": (
        View(deleting=True, subscribed=True, usable=False, reason=SILENT),
        Wait(Reason.DELETING),
    ),
    "but not for ever": (
        View(deleting=True, subscribed=True, usable=False, reason=SILENT, overdue=True),
        End(unsubscribe=False),
    ),
    "one that others hold is not ours": (View(deleting=True, finalizer=False), Ignore()),
    "one that is paused is not let go": (View(deleting=True, paused=True), Keep()),
}


@pytest.mark.parametrize(("view", "expected"), DECIDED.values(), ids=DECIDED)
def test_what_is_decided(view: View, expected: Action) -> None:
    assert plan(view) == expected


def test_nothing_is_let_go_that_is_in_use_paused_or_not_deleted() -> None:
    flags = [field.name for field in fields(View) if field.type in {"bool", bool}]
    for values in itertools.product((False, True), repeat=len(flags)):
        for reason in (Reason.AVAILABLE, SILENT, Reason.ACCOUNT_UNAUTHORIZED):
            view = View(**dict(zip(flags, values, strict=True)), reason=reason)
            action = plan(view)
            if isinstance(action, End):
                assert view.deleting
                assert view.finalizer
                assert not view.in_use
                assert not view.paused
            if isinstance(action, Look | Glance) and not action.read_only:
                assert not view.deleting, "whose end has begun is not changed"
                assert not view.paused

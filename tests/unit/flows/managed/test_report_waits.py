"""What status says of what waits or stalls, and when it stays as it is."""

import pytest

from relay_client import CloudUnavailable, Unauthorized
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.account import NOT_ASKED, AccountRefused, AccountWaiting
from relay_operator.engine.actions import Expire, Ignore, Keep, Nothing, Release, Stall, Wait
from relay_operator.engine.report import Return
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.view import Demand, View
from tests.unit.flows.managed.facts import PodFacts, facts, pod
from tests.unit.flows.managed.outcomes import RECONCILING, STALLED, report

NO_ACCOUNT = AccountWaiting(Reason.SECRET_MISSING, "the Secret is missing")
REFUSED = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "the key is refused")

SILENT: dict[str, tuple[PodFacts, Action]] = {
    "an agreed wait": (facts(), Wait(Reason.WAITING_FOR_RETRY)),
    "a first look without an answer": (
        facts(error=CloudUnavailable("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
    ),
    "a cloud that was not asked": (facts(), Wait(Reason.CLOUD_UNAVAILABLE)),
    "letting go": (facts(), Release()),
    "not ours": (facts(), Ignore()),
    "the object's own end": (facts(), Expire()),
    "keeping what was not looked at": (facts(), Keep()),
}


@pytest.mark.parametrize(("known", "action"), SILENT.values(), ids=SILENT)
def test_status_stays_as_it_is_at(known: PodFacts, action: Action) -> None:
    assert report_of(known, action, Nothing(), unreachable=False) is None


MADE = pod(status={"id": "pod-1"})
WAITS: dict[str, tuple[PodFacts, Action, bool, tuple[object, ...]]] = {
    "paused, and not looked at": (
        facts(state=NOT_ASKED),
        Wait(Reason.PAUSED),
        False,
        (None, None, Reason.PAUSED, Return.NEVER),
    ),
    "silence for a while": (
        facts(error=CloudUnavailable("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
        True,
        (None, STALLED, Reason.CLOUD_UNAVAILABLE, Return.TRANSITION),
    ),
    "a key that is refused": (
        facts(error=Unauthorized("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
        False,
        (None, STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.TRANSITION),
    ),
    "an account of something new": (
        facts(state=NO_ACCOUNT),
        Wait(Reason.WAITING_FOR_ACCOUNT),
        False,
        ("False", RECONCILING, Reason.WAITING_FOR_ACCOUNT, Return.SETTLED),
    ),
    "an account of what exists": (
        facts(obj=MADE, state=NO_ACCOUNT),
        Wait(Reason.WAITING_FOR_ACCOUNT),
        False,
        (None, STALLED, Reason.SECRET_MISSING, Return.SETTLED),
    ),
    "an account that does not admit the namespace, whose labels may change": (
        facts(state=AccountWaiting(Reason.ACCOUNT_MISSING, "no account admits it")),
        Wait(Reason.WAITING_FOR_ACCOUNT),
        False,
        ("False", RECONCILING, Reason.WAITING_FOR_ACCOUNT, Return.TRANSITION),
    ),
    "an account that no longer admits the namespace, whose labels may change": (
        facts(obj=MADE, state=AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, "it does not admit it")),
        Stall(Reason.ACCOUNT_REFUSED),
        False,
        (None, STALLED, Reason.ACCOUNT_NOT_ALLOWED, Return.TRANSITION),
    ),
    "a refused account of something new": (
        facts(state=REFUSED),
        Stall(Reason.ACCOUNT_REFUSED),
        False,
        ("False", STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.SETTLED),
    ),
    "a refused account of what exists": (
        facts(obj=MADE, state=REFUSED),
        Stall(Reason.ACCOUNT_REFUSED),
        False,
        (None, STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.SETTLED),
    ),
    "a missing environment": (
        facts(note="no Secret"),
        Wait(Reason.ENV_MISSING),
        False,
        ("False", RECONCILING, Reason.ENV_MISSING, Return.TRANSITION),
    ),
    "a 404": (
        facts(obj=MADE, note="not found"),
        Wait(Reason.SEARCHING),
        False,
        ("False", RECONCILING, Reason.SEARCHING, Return.TRANSITION),
    ),
}


@pytest.mark.parametrize(("known", "action", "unreachable", "expected"), WAITS.values(), ids=WAITS)
def test_waiting_for(known: PodFacts, action: Action, unreachable: bool, expected: tuple[object, ...]) -> None:
    told = report(known, action, unreachable=unreachable)
    assert (told.ready, told.trouble, told.reason, told.back) == expected


def test_a_search_is_told_as_a_create_of_unknown_outcome_until_there_is_an_id() -> None:
    searching = report(facts(note="looking"), Wait(Reason.SEARCHING))
    assert [item.type for item in searching.extra] == [ConditionType.CREATE_OUTCOME_UNKNOWN]
    assert report(facts(obj=MADE), Wait(Reason.SEARCHING)).extra == ()


def test_a_deletion_that_waits_for_its_account_tells_the_way_out() -> None:
    known = facts(View(demand=Demand.DELETE), MADE, state=NO_ACCOUNT)
    told = report(known, Wait(Reason.WAITING_FOR_ACCOUNT))
    assert told.message.startswith("the Secret is missing; the deletion waits for it")
    assert "abandon" in told.message


STALLS: dict[str, tuple[Reason, str, str]] = {
    "an immutable field": (Reason.IMMUTABLE_FIELD_CHANGED, "image", "updateStrategy.type: Recreate"),
    "ended by another hand": (Reason.TERMINATED_EXTERNALLY, "", "the cloud says it is terminated; recovery.onTermin"),
    "not found any more": (Reason.TERMINATED_EXTERNALLY, "the cloud does not find it", "the cloud does not find it;"),
    "an adoption": (Reason.ADOPTION_REFUSED, "it differs", "it differs"),
    "another's resource": (Reason.IDENTITY_MISMATCH, "it is x", "it is x"),
}


@pytest.mark.parametrize(("reason", "note", "told"), STALLS.values(), ids=STALLS)
def test_a_stall_says_what_to_do(reason: Reason, note: str, told: str) -> None:
    stalled = report(facts(note=note), Stall(reason))
    assert (stalled.ready, stalled.trouble, stalled.reason, stalled.back) == ("False", STALLED, reason, Return.SETTLED)
    assert told in stalled.message


def test_an_account_that_is_subscribed_just_now_is_waited_for_on_the_way() -> None:
    told = report(facts(note="is being subscribed"), Wait(Reason.WAITING_FOR_ACCOUNT))
    assert (told.ready, told.trouble, told.reason) == ("False", RECONCILING, Reason.WAITING_FOR_ACCOUNT)
    assert (told.message, told.back) == ("is being subscribed", Return.TRANSITION)

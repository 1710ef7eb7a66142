"""What status says of what the cloud refuses, and of a create whose answer is lost."""

from dataclasses import replace

import pytest

from relay_client import (
    BadRequest,
    CapacityExhausted,
    CircuitOpen,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    PaymentRequired,
    RateLimited,
    Unauthorized,
    Unreadable,
)
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.actions import Stall
from relay_operator.engine.report import RetryKind, Return, refusal
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import START, Action
from relay_operator.flows.managed.result import OutcomeUnknown, Rejected
from relay_operator.flows.managed.view import Seen, View
from tests.unit.flows.managed.facts import INTENT, ago, facts, pod
from tests.unit.flows.managed.outcomes import RECONCILING, STALLED, report

ERRORS: dict[str, tuple[CloudError, Reason, bool, RetryKind]] = {
    "no room": (CapacityExhausted("c", "m"), Reason.WAITING_FOR_CAPACITY, False, RetryKind.ADVISED),
    "too often": (RateLimited("c", "m"), Reason.RATE_LIMITED, False, RetryKind.ADVISED),
    "no funds": (PaymentRequired("c", "m"), Reason.BALANCE_EXHAUSTED, True, RetryKind.SLOW),
    "key refused": (Unauthorized("c", "m"), Reason.ACCOUNT_UNAUTHORIZED, True, RetryKind.ADVISED),
    "key refused a moment ago": (CircuitOpen("c", "m"), Reason.ACCOUNT_UNAUTHORIZED, True, RetryKind.ADVISED),
    "scope lacking": (Forbidden("c", "m"), Reason.ACCOUNT_FORBIDDEN, True, RetryKind.SLOW),
    "suspended": (Forbidden("c", "m", code="account_suspended"), Reason.ACCOUNT_SUSPENDED, True, RetryKind.SLOW),
    "under review": (Forbidden("c", "m", code="account_unavailable"), Reason.ACCOUNT_SUSPENDED, True, RetryKind.SLOW),
    "malformed": (BadRequest("c", "m"), Reason.SPEC_INVALID, True, RetryKind.SLOW),
    "meaningless": (Invalid("c", "m"), Reason.SPEC_INVALID, True, RetryKind.SLOW),
    "no such call": (NotServed("c", "m"), Reason.NOT_SERVED, True, RetryKind.SLOW),
    "not now": (Conflict("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "not now, of an unknown code": (Conflict("c", "m", code="NEW"), Reason.CONFLICT, False, RetryKind.QUICK),
    "node busy": (Conflict("c", "m", code="POD_NODE_BUSY"), Reason.POD_NODE_BUSY, False, RetryKind.QUICK),
    "node offline": (Conflict("c", "m", code="POD_NODE_OFFLINE"), Reason.POD_NODE_OFFLINE, False, RetryKind.QUICK),
    "stopping": (Conflict("c", "m", code="POD_STOPPING"), Reason.POD_STOPPING, False, RetryKind.QUICK),
    "no InfiniBand": (
        Conflict("c", "m", code="POD_NODE_NO_INFINIBAND"),
        Reason.POD_NODE_NO_INFINIBAND,
        True,
        RetryKind.SLOW,
    ),
    **{
        f"a lane with members, as a {status}": (kind, Reason.LANE_INTENT_REQUIRED, True, RetryKind.SLOW)
        for status, kind in {
            400: BadRequest("c", "m", code="LANE_INTENT_REQUIRED"),
            409: Conflict("c", "m", code="LANE_INTENT_REQUIRED"),
            422: Invalid("c", "m", code="LANE_INTENT_REQUIRED"),
        }.items()
    },
    "a conflict's code elsewhere means nothing": (
        RateLimited("c", "m", code="POD_NODE_BUSY"),
        Reason.RATE_LIMITED,
        False,
        RetryKind.ADVISED,
    ),
    "not found": (NotFound("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "gone": (Gone("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "no answer": (CloudUnavailable("c", "m"), Reason.CLOUD_UNAVAILABLE, False, RetryKind.ADVISED),
    "no answer of the cloud": (Unreadable("c", "m"), Reason.CLOUD_UNAVAILABLE, False, RetryKind.ADVISED),
}


@pytest.mark.parametrize(("error", "reason", "stalled", "pace"), ERRORS.values(), ids=ERRORS)
def test_a_refusal_reads_as(error: CloudError, reason: Reason, stalled: bool, pace: RetryKind) -> None:
    row = refusal(error)
    assert (row.reason, row.stalled, row.retry) == (reason, stalled, pace)


def test_a_refusal_is_told_in_the_clouds_words_and_keeps_its_retry_after() -> None:
    told = report(facts(), actions.Create(), Rejected(RateLimited("c", "slow down", retry_after=9.0), INTENT))
    assert (told.ready, told.trouble, told.message, told.retry_after) == ("False", RECONCILING, "slow down", 9.0)


def test_no_room_is_a_condition_of_its_own() -> None:
    told = report(facts(), actions.Create(), Rejected(CapacityExhausted("c", "full", code="NODE_AT_CAPACITY")))
    assert [(item.type, item.status, item.message) for item in told.extra] == [
        (ConditionType.CAPACITY_AVAILABLE, "False", "NODE_AT_CAPACITY: full")
    ]


def test_no_funds_for_something_new_is_waited_for() -> None:
    told = report(facts(View()), actions.Create(), Rejected(PaymentRequired("c", "balance too low")))
    assert (told.trouble, told.reason, told.deletion_deadline) == (RECONCILING, Reason.WAITING_FOR_BUDGET, None)
    assert [item.type for item in told.extra] == [ConditionType.BUDGET_EXCEEDED]


def test_no_funds_for_what_is_stopped_tells_until_when_it_is_kept() -> None:
    known = facts(View(seen=Seen.STOPPED), pod(status={"state": "stopped", "stateSince": ago(0)}))
    told = report(known, actions.Update(START), Rejected(PaymentRequired("c", "balance too low.")))
    assert (told.trouble, told.reason) == (STALLED, Reason.BALANCE_EXHAUSTED)
    assert told.message == (
        "balance too low; deleted by the cloud with its volume on 2026-03-08T12:00:00Z unless it runs again"
    )


UNKNOWNS: dict[str, tuple[Action, CloudError, tuple[object, ...]]] = {
    "a create is looked for": (
        actions.Create(),
        CloudUnavailable("create_pod", "timed out"),
        (RECONCILING, Return.SOON, None),
    ),
    "one sent again keeps a pace": (
        actions.Resend(),
        CloudUnavailable("create_pod", "timed out"),
        (RECONCILING, Return.TRANSITION, RetryKind.QUICK),
    ),
    "one refused when sent again keeps the pace of a refusal": (
        actions.Resend(),
        PaymentRequired("create_pod", "balance too low"),
        (RECONCILING, Return.TRANSITION, RetryKind.SLOW),
    ),
    "a name that is taken is for people": (
        actions.Resend(),
        Conflict("create_pod", "exists"),
        (STALLED, Return.SETTLED, RetryKind.SLOW),
    ),
}


@pytest.mark.parametrize(("action", "error", "expected"), UNKNOWNS.values(), ids=UNKNOWNS)
def test_of_lost_answers(action: Action, error: CloudError, expected: tuple[object, ...]) -> None:
    told = report(facts(), action, OutcomeUnknown(error, INTENT))
    assert (told.trouble, told.back, told.retry) == expected
    assert told.extra[0].type == ConditionType.CREATE_OUTCOME_UNKNOWN
    assert str(error) in told.message


def test_what_is_unknown_names_the_token_where_there_is_one() -> None:
    known = facts(note="look for 'x'")
    told = report(known, Stall(Reason.CREATE_OUTCOME_UNKNOWN))
    assert "look for 'x'" in told.message
    assert "retry-create=t1" in told.message
    told = report(replace(known, intent=None), Stall(Reason.CREATE_OUTCOME_UNKNOWN))
    assert told.message.endswith(
        "run: kubectl annotate --overwrite -n team-a gpupod train gpurelay.dev/retry-create=yes"
    )

"""What `kubectl relay deposit` asks, and what it makes of answers and of none."""

import pytest

from relay_cli.__main__ import main
from relay_cli.deposit import LEAST_CENTS, MOST_CENTS, question, told, unanswered
from relay_cli.failures import Failure
from relay_client import BadRequest, CloudUnavailable, Outcome
from relay_wire.account import Whoami
from relay_wire.billing import Balance, ChargeOutcome


def _charge(status: str) -> ChargeOutcome:
    return ChargeOutcome(charge_id="ch_1", status=status, amount_cents=5000)


@pytest.mark.parametrize(
    ("name", "available", "asked"),
    [
        ("Acme", 1234, "Charge $50.00 to the default card of Acme (org_1), which has $12.34?"),
        (None, -5, "Charge $50.00 to the default card of org_1, which has -$0.05?"),
    ],
)
def test_the_question_says_whose_card_is_charged(name: str | None, available: int, asked: str) -> None:
    who = Whoami(principal_type="api_key", organization_id="org_1", organization_name=name)
    balance = Balance(
        balance_cents=0, available_cents=available, accrued_usage_cents=0, current_month_usage_cents=0, transactions=[]
    )
    assert question(5000, who, balance) == asked


def test_an_answer_that_never_came_shows_the_key_and_how_to_go_on() -> None:
    error = CloudUnavailable("create_deposit", "no complete answer within 60 s", outcome=Outcome.UNKNOWN)
    for repeated in (False, True):
        said = str(unanswered(error, "kubectl relay deposit", repeated=repeated))
        assert said.startswith("the card may have been charged (create_deposit: no complete answer within 60 s): ")
        assert said.endswith("run kubectl relay deposit")


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.NOT_SENT])
def test_what_was_refused_or_not_sent_charged_nothing(outcome: Outcome) -> None:
    error = BadRequest("create_deposit", "no card", status=400, outcome=outcome)
    said = str(unanswered(error, "kubectl relay deposit", repeated=False))
    assert said == "nothing was charged: create_deposit: 400: no card"
    said = str(unanswered(error, "kubectl relay deposit", repeated=True))
    assert said.startswith(
        "this attempt charged nothing (create_deposit: 400: no card), but the earlier one may have: "
    )
    assert said.endswith("run kubectl relay deposit")


@pytest.mark.parametrize("status", ["succeeded", "processing", "a word of tomorrow"])
def test_a_charge_that_goes_on_is_told(status: str) -> None:
    assert told(_charge(status), 4000).startswith("$50.00 (ch_1)")


def test_a_charge_is_told_by_its_status_alone_if_the_cloud_says_no_more() -> None:
    said = told(ChargeOutcome.model_validate({"status": "succeeded"}), 5000)
    assert said == "$50.00 was charged; the balance will show it within moments."


@pytest.mark.parametrize("status", ["failed", "requires_action"])
def test_a_charge_that_brings_no_money_is_a_failure(status: str) -> None:
    with pytest.raises(Failure, match=r"\$50\.00 \(ch_1\)"):
        told(_charge(status), 5000)


@pytest.mark.parametrize(
    ("cents", "misused"),
    [
        (LEAST_CENTS - 1, True),
        (LEAST_CENTS, False),
        (LEAST_CENTS + 1, False),
        (MOST_CENTS - 1, False),
        (MOST_CENTS, False),
        (MOST_CENTS + 1, True),
    ],
)
def test_the_bounds_of_a_deposit(cents: int, misused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # what is well said fails of a kubectl that is not there
    assert main(["deposit", "default", str(cents), "--yes"]) == (2 if misused else 1)

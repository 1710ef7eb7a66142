"""What `kubectl relay deposit` asks, and what it makes of answers and of none."""

import io
import json
import shlex

import pytest

from relay_cli.__main__ import main
from relay_cli.deposit import LEAST_CENTS, MOST_CENTS, deposit, question, told, unanswered
from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl
from relay_client import BadRequest, CloudUnavailable, Outcome
from relay_wire.account import Whoami
from relay_wire.billing import MOST_KEY_CHARACTERS, Balance, ChargeOutcome
from tests.unit.cli.conftest import WHO
from tests.unit.client.scripted import Drop, Reply, ScriptedServer


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


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("succeeded", "$50.00 (ch_1) was charged; the balance will show it within moments."),
        ("processing", "$50.00 (ch_1) is being charged; the balance will show it once the payment is confirmed."),
        ("a word of tomorrow", "$50.00 (ch_1) has the status a word of tomorrow in the cloud."),
    ],
)
def test_a_charge_that_goes_on_is_told(status: str, said: str) -> None:
    assert told(_charge(status), 4000) == said


def test_a_charge_is_told_by_its_status_alone_if_the_cloud_says_no_more() -> None:
    said = told(ChargeOutcome.model_validate({"status": "succeeded"}), 5000)
    assert said == "$50.00 was charged; the balance will show it within moments."


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("failed", "the card was declined and $50.00 (ch_1) was not charged: set another in the cloud's console"),
        ("requires_action", "the bank wants you to confirm $50.00 (ch_1): do so in the cloud's console"),
    ],
)
def test_a_charge_that_brings_no_money_is_a_failure(status: str, said: str) -> None:
    with pytest.raises(Failure) as failed:
        told(_charge(status), 5000)
    assert str(failed.value) == said


@pytest.mark.parametrize(
    "key", [None, "of an earlier attempt", "k" * MOST_KEY_CHARACTERS], ids=["new", "repeated", "longest"]
)
async def test_the_key_of_a_charge_is_on_the_screen_and_repeats_it(
    key: str | None, cloud: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.will(Reply(200, json.dumps(WHO).encode()), Drop())
    with pytest.raises(Failure) as failed:
        await deposit(Kubectl(namespace="ml"), "default", 5000, yes=True, idempotency_key=key, base_url=cloud.url)
    sent = json.loads(cloud.seen[-1].body)
    assert sent == {"amountCents": 5000, "idempotencyKey": key or sent["idempotencyKey"]}
    said = f"kubectl relay: charging with the idempotency key {sent['idempotencyKey']}\n"
    assert capsys.readouterr() == ("", said)
    told_key = shlex.join(["--idempotency-key", sent["idempotencyKey"]])
    again = f"kubectl relay deposit default 5000 {told_key} --namespace=ml --base-url={cloud.url}"
    assert str(failed.value).endswith(f"to find out without charging twice, run {again}")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "declined: nothing was charged"),
        ("of an earlier attempt", "declined: nothing was charged by this attempt"),
    ],
)
async def test_nothing_is_charged_without_a_yes(
    key: str | None, said: str, cloud: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    balance = {"balanceCents": 5, "availableCents": 5, "accruedUsageCents": 0, "currentMonthUsageCents": 0}
    who = Reply(200, json.dumps(WHO).encode())
    cloud.will(who, who, Reply(200, json.dumps(balance | {"transactions": []}).encode()))
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(Failure) as failed:
        await deposit(Kubectl(), "default", 5000, idempotency_key=key, base_url=cloud.url)
    assert str(failed.value) == said
    assert {target.split()[0] for target in cloud.targets} == {"GET"}


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

"""Whether an account's status says that there is no money for what runs."""

import pytest
from pydantic import JsonValue

from relay_operator.engine.account import out_of_funds
from relay_operator.engine.entry import entry_of

LOW: JsonValue = [{"type": "FundsLow", "status": "True"}]
ACCOUNTS: dict[str, tuple[dict[str, JsonValue], bool]] = {
    "nothing is known": ({}, False),
    "enough": ({"availableCents": 500, "autoStopFloorCents": 100}, False),
    "not for long": ({"availableCents": 500, "autoStopFloorCents": 100, "conditions": LOW}, False),
    "as much as the floor": ({"availableCents": 100, "autoStopFloorCents": 100, "conditions": LOW}, False),
    "below the floor": ({"availableCents": 99, "autoStopFloorCents": 100, "conditions": LOW}, True),
    "without a floor": ({"availableCents": -1, "conditions": LOW}, True),
    "a balance that nobody may read": ({"autoStopFloorCents": 100, "conditions": LOW}, False),
}


@pytest.mark.parametrize(("status", "expected"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_an_account_is_out_of_funds(status: dict[str, JsonValue], expected: bool) -> None:
    assert out_of_funds(entry_of({"metadata": {"name": "default"}, "status": status}, "")) is expected


def test_one_that_nobody_knows_is_not() -> None:
    assert not out_of_funds(None)

"""Receivers that leave calls unanswered again and again are called less often, and lose no delivery for it."""

from __future__ import annotations

import pytest

from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.webhooks.circuits import FIRST_REST, HANGS_ALLOWED, LONGEST_REST, Circuits
from relay_localcloud.webhooks.deliveries import RETRY_AFTER

LIMIT = 10 * SECOND


def hung(circuits: Circuits, times: int, at: int = 0) -> None:
    """So many calls that all ended at `at`."""
    for _ in range(times):
        circuits.ended("wh_1", at - LIMIT, LIMIT, hung=True)


def test_one_below_the_calls_that_may_hang_it_is_called_and_at_them_it_rests() -> None:
    circuits = Circuits()
    hung(circuits, HANGS_ALLOWED - 1)
    assert circuits.admit("wh_1", 0, LIMIT) is None
    hung(circuits, 1)
    assert circuits.admit("wh_1", 0, LIMIT) == FIRST_REST
    assert circuits.admit("wh_1", FIRST_REST - 1, LIMIT) == FIRST_REST
    assert circuits.admit("wh_2", 0, LIMIT) is None


def test_after_a_rest_it_is_called_once_and_rests_longer_if_that_hangs() -> None:
    circuits = Circuits()
    hung(circuits, HANGS_ALLOWED)
    assert circuits.admit("wh_1", FIRST_REST, LIMIT) is None
    assert circuits.admit("wh_1", FIRST_REST, LIMIT) == FIRST_REST + LIMIT + FIRST_REST
    hung(circuits, 1, at=FIRST_REST + LIMIT)
    assert circuits.admit("wh_1", FIRST_REST + LIMIT, LIMIT) == FIRST_REST + LIMIT + 2 * FIRST_REST


def test_a_rest_begins_when_the_call_that_hung_has_ended() -> None:
    circuits = Circuits()
    for _ in range(HANGS_ALLOWED):
        circuits.ended("wh_1", 0, LIMIT, hung=True)
    assert circuits.admit("wh_1", LIMIT, LIMIT) == LIMIT + FIRST_REST


def test_whatever_answers_is_called_as_ever() -> None:
    circuits = Circuits()
    hung(circuits, HANGS_ALLOWED + 5)
    circuits.ended("wh_1", 0, LIMIT, hung=False)
    hung(circuits, HANGS_ALLOWED - 1)
    assert circuits.admit("wh_1", 0, LIMIT) is None


def test_no_rest_is_as_long_as_the_wait_for_the_last_attempt() -> None:
    circuits = Circuits()
    hung(circuits, 10_000, at=SECOND)
    assert circuits.admit("wh_1", SECOND, LIMIT) == SECOND + LONGEST_REST
    assert RETRY_AFTER[-1] > LONGEST_REST


def test_receivers_that_hung_are_forgotten_beyond_very_many() -> None:
    circuits = Circuits()
    hung(circuits, HANGS_ALLOWED)
    for number in range(9_999):
        circuits.ended(f"other_{number}", 0, LIMIT, hung=True)
    assert circuits.admit("wh_1", 0, LIMIT) is not None
    circuits.ended("one more", 0, LIMIT, hung=True)
    assert circuits.admit("wh_1", 0, LIMIT) is None


@pytest.mark.parametrize(("due", "called"), [(SECOND, False), (SECOND + 1, True)])
def test_a_last_attempt_is_made_unless_a_call_that_began_since_it_fell_due_hung(due: int, *, called: bool) -> None:
    circuits = Circuits()
    hung(circuits, HANGS_ALLOWED, at=LIMIT + SECOND)  # which began at the first second
    assert circuits.admit("wh_1", LIMIT + SECOND, LIMIT) is not None
    assert (circuits.admit("wh_1", LIMIT + SECOND, LIMIT, due) is None) is called
    circuits.ended("wh_1", 0, LIMIT, hung=True)  # an earlier one, that ends later
    assert (circuits.admit("wh_1", LIMIT + SECOND, LIMIT, due) is None) is called

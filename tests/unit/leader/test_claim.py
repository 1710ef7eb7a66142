"""What a candidate writes into the Lease, and when it may take it. Pure."""

import pytest

from relay_kube.kube import JsonObject
from relay_operator.leader.election import Lease, LeaseTimes, claim, may_take
from tests.unit.leader.lease import TIMES


def test_a_duration_is_never_written_shorter_than_it_is() -> None:
    assert claim(None, "a", LeaseTimes(2.4, 1.2, 0.5), "now")["leaseDurationSeconds"] == 3


def test_the_shortest_duration_is_not_that_of_a_released_lease() -> None:
    body: JsonObject = {"spec": claim(None, "", LeaseTimes(1, 0.8, 0.5), "now")}
    assert not Lease.read(body, least_duration=1).released


def test_transitions_count_the_changes_of_the_holder() -> None:
    held = Lease(version="1", holder="a", duration=15, transitions=4)
    assert claim(held, "b", TIMES, "now")["leaseTransitions"] == 5
    assert "leaseTransitions" not in claim(held, "a", TIMES, "now")


@pytest.mark.parametrize(
    ("holder", "unchanged", "taken"),
    [("", 14.9, False), ("", 15, True), ("me", 0, True), ("other", 14.9, False), ("other", 15, True)],
)
def test_a_lease_is_taken_when_ours_or_expired(holder: str, unchanged: float, taken: bool) -> None:
    assert may_take(Lease("1", holder, 15, 0), "me", unchanged) is taken

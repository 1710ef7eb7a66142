"""Who is called when funds come back, and for how long anybody is."""

import pytest

from relay_operator.accounts.shortage import Shortage
from relay_operator.api.meta import ObjectKey

FIRST, SECOND = ObjectKey("GpuPod", "team-a", "first"), ObjectKey("GpuPod", "team-a", "second")


def test_everybody_is_called_once_and_only_by_more_than_there_was() -> None:
    shortage = Shortage(600.0)
    assert (shortage.refused(FIRST, 0.0), shortage.refused(SECOND, 1.0)) == (True, False)
    assert [shortage.seen(cents, None, 2.0) for cents in (-324, -324, -400)] == [(), (), ()]
    assert shortage.keeps_back(SECOND)
    assert shortage.seen(-300, None, 2.0) == (FIRST, SECOND)
    assert (shortage.seen(1_000, None, 2.0), shortage.keeps_back(SECOND), shortage.waits(2.0)) == ((), False, False)


@pytest.mark.parametrize(
    ("available", "floor", "funded"),
    [(None, 0, None), (1, None, None), (0, 0, None), (1, 0, 9.0), (100, 100, None), (101, 100, 9.0)],
)
def test_funds_are_what_is_above_the_floor(available: int | None, floor: int | None, funded: float | None) -> None:
    assert Shortage(600.0, available, floor, 9.0).funded_at() == funded


def test_who_is_not_refused_again_waits_no_longer() -> None:
    shortage = Shortage(600.0)
    shortage.refused(FIRST, 0.0)
    shortage.refused(SECOND, 10.0)
    shortage.refused(FIRST, 300.0)
    assert shortage.waits(609.0)
    assert (shortage.waits(611.0), shortage.keeps_back(SECOND), shortage.keeps_back(FIRST)) == (True, False, True)
    assert (shortage.waits(900.0), shortage.keeps_back(FIRST)) == (False, False)

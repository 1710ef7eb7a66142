"""Room that organizations share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.kernel.shares import even_share, may_take

HELD = st.lists(st.integers(0, 1000), max_size=20)


def kept(held: list[int], room: int) -> list[int]:
    share = even_share(held, room)
    return [min(amount, share) for amount in held]


@pytest.mark.parametrize(
    ("held", "room", "left"),
    [
        ([], 10, []),
        ([9], 10, [9]),
        ([10], 10, [10]),
        ([11], 10, [10]),
        ([1, 11], 10, [1, 9]),
        ([5, 5], 10, [5, 5]),
        ([6, 5], 10, [5, 5]),
        ([2, 100, 100], 10, [2, 4, 4]),
        ([1, 1, 1], 2, [0, 0, 0]),
    ],
)
def test_who_needs_little_keeps_it(held: list[int], room: int, left: list[int]) -> None:
    assert kept(held, room) == left


@given(HELD, st.integers(0, 5000))
def test_all_fits_nobody_has_less_than_an_even_part_and_little_is_wasted(held: list[int], room: int) -> None:
    left = kept(held, room)
    assert sum(left) <= room
    assert all(after >= min(before, room // len(held)) for before, after in zip(held, left, strict=True))
    assert left == held or sum(left) > room - len(held)


@given(st.integers(4, 1000))
def test_who_takes_places_alone_has_a_quarter_and_each_next_one_finds_room(places: int) -> None:
    taken: list[int] = []
    while may_take(0, places - sum(taken)):
        has = 0
        while may_take(has, places - sum(taken) - has):
            has += 1
        taken.append(has)
    assert taken[0] == -(-places // 4)
    assert sum(taken) == places
    assert taken == sorted(taken, reverse=True)

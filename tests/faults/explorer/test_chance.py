"""Random histories are reproducible, can be saved and read back, and cover every act."""

from __future__ import annotations

from pathlib import Path

from tests.faults.explorer.chance import by_chance
from tests.faults.explorer.history import Do, History

_ACTS = 50


def test_the_same_seed_gives_the_same_history() -> None:
    assert by_chance(7, _ACTS) == by_chance(7, _ACTS)
    assert by_chance(7, _ACTS) != by_chance(8, _ACTS)


def test_a_history_has_as_many_acts_as_were_asked_for() -> None:
    assert {len(by_chance(seed, _ACTS).acts) for seed in range(40)} == {_ACTS}


def test_every_act_comes_in_forty_histories() -> None:
    assert {act.do for seed in range(40) for act in by_chance(seed, _ACTS).acts} == set(Do)


def test_a_history_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    for seed in range(20):
        history = by_chance(seed, _ACTS)
        assert History.load(history.save(tmp_path)) == history

"""The sample of fault plans: something of every class, the same for the same seed, everything with time."""

from __future__ import annotations

from collections import Counter

from tests.faults.sampling import few, some_of_each

PLANS = [f"{scenario} {fault} {when}" for scenario in ("pod", "batch") for fault in ("lost", "cut") for when in "abcd"]


def class_of(plan: str) -> str:
    return plan.rpartition(" ")[0]


def test_of_every_class_there_are_two() -> None:
    for seed in range(20):
        chosen = some_of_each(PLANS, class_of, seed)
        assert len(set(chosen)) == 8
        assert Counter(map(class_of, chosen)) == dict.fromkeys(("pod lost", "pod cut", "batch lost", "batch cut"), 2)


def test_the_same_seed_takes_the_same() -> None:
    assert some_of_each(PLANS, class_of, 7) == some_of_each(PLANS, class_of, 7)
    assert few(PLANS, "writes", 7) == few(PLANS, "writes", 7)


def test_every_plan_has_its_turn() -> None:
    assert {plan for seed in range(100) for plan in some_of_each(PLANS, class_of, seed)} == set(PLANS)
    assert {plan for seed in range(100) for plan in few(PLANS, "writes", seed)} == set(PLANS)


def test_without_a_seed_nothing_is_left_out() -> None:
    assert few(PLANS, "writes", None) == PLANS
    assert few(PLANS[:2], "writes", 1) == PLANS[:2]

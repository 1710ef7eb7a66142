"""The sample of fault plans: something of every class, the same for the same seed, everything with time."""

from __future__ import annotations

from collections import Counter

from tests.faults.every_call import RequestClass, classes, needs_two_operators, plans
from tests.faults.sampling import SHARES, Chosen, one, one_of_each
from tests.support.faultrules import Call, Logged, Side

PLANS = [f"{scenario} {fault} {when}" for scenario in ("pod", "batch") for fault in ("lost", "cut") for when in "abcd"]


def class_of(plan: str) -> str:
    return plan.rpartition(" ")[0]


def test_of_every_class_there_is_one() -> None:
    for seed in range(20):
        chosen = one_of_each(PLANS, class_of, seed)
        assert Counter(map(class_of, chosen)) == dict.fromkeys(("pod lost", "pod cut", "batch lost", "batch cut"), 1)


def test_the_same_seed_takes_the_same() -> None:
    assert one_of_each(PLANS, class_of, 7) == one_of_each(PLANS, class_of, 7)
    assert one(PLANS, "bugs", 7) == one(PLANS, "bugs", 7)


def test_every_plan_has_its_turn() -> None:
    assert {plan for seed in range(100) for plan in one_of_each(PLANS, class_of, seed)} == set(PLANS)
    assert {plan for seed in range(200) for plan in one(PLANS, "bugs", seed)} == set(PLANS)


def test_without_a_seed_nothing_is_left_out() -> None:
    derived = list(plans("pod", classes(_calls())))
    assert Chosen().sample(derived, "pod") == derived


_CREATED = Call(Side.CLOUD, "POST /v1/pods", "ns-trainer-0123456789", phase="create")
_LOOKS = [Call(Side.CLOUD, "GET /v1/vms/{id}", f"pod_{n}", phase="rest", state="Running") for n in "abc"]
_WRITTEN = Call(Side.KUBE, "PATCH gpupods", "trainer", "ns", "create")
_SCAFFOLD = Call(Side.KUBE, "GET secrets", "relay-api-key", "ns", "leave")


def _calls() -> list[Logged]:
    return [Logged(number, call, {}) for number, call in enumerate([_WRITTEN, _CREATED, *_LOOKS, _SCAFFOLD])]


def test_requests_with_the_same_operation_phase_and_state_are_one_class() -> None:
    found = classes(_calls())
    assert list(found.values()) == [1, 1, 3]
    assert classes(_calls(), known=[RequestClass.of(_CREATED)]).keys() == found.keys() - {RequestClass.of(_CREATED)}
    elsewhere = RequestClass.of(Call(Side.CLOUD, "GET /v1/vms/{id}", "pod_d", phase="delete"))
    assert RequestClass.of(_LOOKS[0]) not in classes(_calls(), background=[elsewhere])


def test_every_class_gets_plans_and_each_rule_meets_its_requests_alone() -> None:
    derived = list(plans("pod", classes(_calls())))
    assert len({plan.name for plan in derived}) == len(derived)
    for plan in derived:
        (rule,) = plan.rules
        met = {RequestClass.of(one.call) for one in _calls() if rule.matches(one.call)}
        assert len(met) == 1
        assert str(*met) in plan.name
    assert any(needs_two_operators(plan) for plan in derived)


def test_the_parts_of_all_plans_have_each_of_them_once() -> None:
    derived = list(plans("pod", classes(_calls())))
    parts = [Chosen.part_of(f"{part}/3", None) for part in (1, 2, 3)]
    played = [plan.name for each in parts for number in range(SHARES) for plan in each.of_share(derived, number)]
    assert sorted(played) == sorted(plan.name for plan in derived)


def test_what_matters_most_is_in_every_sample() -> None:
    derived = list(plans("pod", classes(_calls())))
    always = [plan for plan in derived if plan.always]
    assert len(always) == 5
    for seed in range(20):
        sample = Chosen(seed=seed).sample(derived, "pod")
        assert set(always) < set(sample)
        assert len(sample) == len(always) + 1

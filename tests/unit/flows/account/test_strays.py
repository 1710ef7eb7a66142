"""What stands behind a resource that no object records, and what becomes of it."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.flows.account.strays import Stray, fate_of, in_turn, onward, to_end, unseen
from relay_wire.billing import CurrentUsage

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def usage(*items: tuple[str | None, str | None, str | None, float | None]) -> CurrentUsage:
    breakdown = [{"resourceId": one, "kind": kind, "name": name, "hours": hours} for one, kind, name, hours in items]
    return CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": breakdown})


def test_what_was_looked_at_is_looked_at_again_if_its_hours_changed() -> None:
    told = usage(
        ("pod-1", "pod", "same", 2.0),
        ("pod-2", "pod", "grown", 2.5),
        ("pod-3", "pod", "new", 0.1),
        ("pod-4", "pod", "never ran", 0.0),
        ("cl-1", "cluster", "of a new month", 7.0),
        ("vm-1", "vm", "a VM", 7.0),
        ("bk-1", "backend", "of a kind that is not ours", 7.0),
        ("pod-5", "pod", None, 7.0),
        (None, "pod", "without an id", 7.0),
        ("pod-6", "pod", "without hours", None),
        ("p" * 254, "pod", "with an id that is none", 7.0),
        ("../pod", "pod", "with an id that is none", 7.0),
    )
    looked = {"pod-1": 2.0, "pod-2": 2.0, "cl-1": 9.0}
    assert dict(unseen(looked, told)) == {
        Stray("GpuPod", "pod-2", "grown"): 2.5,
        Stray("GpuPod", "pod-3", "new"): 0.1,
        Stray("GpuPod", "pod-4", "never ran"): 0.0,
        Stray("GpuCluster", "cl-1", "of a new month"): 7.0,
        Stray("GpuVm", "vm-1", "a VM"): 7.0,
        Stray("GpuPod", "pod-6", "without hours"): 0.0,
    }
    assert list(unseen({}, None)) == []


@pytest.mark.parametrize("hours", [(1.0, 2.0), (0.0, 2.0), (float("nan"),), (float("inf"), 1.0)])
def test_several_lines_of_one_resource_or_odd_hours_do_not_have_it_looked_at_for_ever(hours: tuple[float, ...]) -> None:
    told = usage(*(("pod-1", "pod", "ended", each) for each in hours))
    looked = {stray.id: total for stray, total in unseen({}, told)}
    assert list(looked) == ["pod-1"]
    assert list(unseen(looked, told)) == []


@pytest.mark.parametrize("facts", list(itertools.product([True, False], repeat=4)))
def test_every_stray_has_one_fate_or_is_left_alone(facts: tuple[bool, ...]) -> None:
    given, here, settled, watched = facts
    fate = fate_of(given=given, here=here, settled=settled, watched=watched)
    assert fate is None or settled, "nothing is decided beside a pass that may be recording it"
    match fate:
        case Fate.LATE:
            assert given
            assert here, "another account's key says nothing of it"
        case Fate.ORPHAN:
            assert not given
            assert watched, "its object may be there, unseen"
        case _:
            assert not settled or (given and not here) or not (given or watched)


@pytest.mark.parametrize("policy", Orphans)
@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("age", [timedelta(hours=23), timedelta(days=1)])
@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("ours", [True, False])
def test_what_is_ended(policy: Orphans, fate: Fate, age: timedelta, *, everywhere: bool, ours: bool) -> None:
    account = ObjectKey("CloudAccount", "team-a", "default")
    record = Leftover(fate=fate, kind="GpuPod", account=account, organization="org-1", id="pod-1", since=NOW - age)
    asked = policy is Orphans.DELETE and age == timedelta(days=1) and everywhere and ours
    ends = {Fate.LATE: True, Fate.ORPHAN: asked, Fate.KEPT: False}
    assert to_end(record, policy, NOW, everywhere=everywhere, ours=ours) is ends[fate]


def test_all_are_looked_at_in_turn() -> None:
    those, looked, order = [Stray("GpuPod", f"pod-{number}", "x") for number in range(5)], dict[str, int](), list[str]()
    for sweep in (1, 2, 3):
        chosen = [one.id for one in in_turn(those, looked, 2)]
        looked |= dict.fromkeys(chosen, sweep)
        order += chosen
    assert order == ["pod-0", "pod-1", "pod-2", "pod-3", "pod-4", "pod-0"]


@pytest.mark.parametrize(("after", "order"), [("", "2 3 11"), ("2", "3 11 2"), ("10", "11 2 3"), ("11", "2 3 11")])
def test_those_after_the_last_one_come_first(after: str, order: str) -> None:
    assert [one.id for one in onward([Stray("GpuPod", one, "x") for one in ("3", "11", "2")], after)] == order.split()

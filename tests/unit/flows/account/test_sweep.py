"""One sweep: what is found, what is asked of the cloud about it, and what the cloud does not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_client import CloudError, Forbidden, Unauthorized
from relay_client.operations import LIST_BATCHES
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftover import Fate
from relay_operator.flows.account import sweep
from relay_operator.flows.account.sweep import SweepMemory
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus
from relay_wire.billing import CurrentUsage
from tests.unit.flows.account.swept import ORPHAN, Listed, Swept, used
from tests.unit.flows.managed.cloudpods import MemoryPods, Pods, lost
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from relay_client import Cloud
    from relay_operator.engine.entry import Entry
    from relay_operator.engine.unclaimed_ids import UnclaimedIds
    from relay_operator.flows.managed.resource import Look
    from relay_wire.vms import VmRecord


class Refused(MemoryPods):
    """A kind whose list the key may not read."""

    error: CloudError = Forbidden("list", "the key lacks a scope")

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        raise self.error


class Revoked(Refused):
    """A kind of an account whose key is refused."""

    error = Unauthorized("list", "the key was revoked")


class Elsewhere(Refused):
    """A kind of an account whose inferenceUrl is that of another service."""

    error = Unauthorized(LIST_BATCHES.name, "who are you?")


class Noted(Listed):
    """A kind that notes what it is asked about."""

    def __init__(self, pods: Pods) -> None:
        super().__init__(pods)
        self.asked: list[str] = []

    async def observe(self, cloud: Cloud, cloud_id: str, last: GpuPodStatus, look: Look) -> VmRecord:
        self.asked.append(cloud_id)
        return await super().observe(cloud, cloud_id, last, look)


class Found:
    """What a sweep found, which cannot be gone through, only asked for an id."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def __contains__(self, cloud_id: object) -> bool:
        self.asked.append(cloud_id)
        return cloud_id != "gone"


@pytest.mark.parametrize(("kind", "refused"), [("GpuCluster", Refused), ("InferenceBatch", Elsewhere)])
async def test_what_one_kind_may_not_list_keeps_no_other_from_being_found(
    swept: Swept, kind: str, refused: type[Refused]
) -> None:
    swept.traces = {}
    swept.knows(kind, refused)
    swept.knows("GpuPod", Listed)
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_a_key_that_is_refused_ends_the_sweep(swept: Swept) -> None:
    swept.knows("GpuPod", Revoked)
    with pytest.raises(Unauthorized):
        await swept()


async def test_what_a_list_told_too_late_is_not_believed(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    swept.world.pods.hidden.add(made.id)
    await swept()
    assert swept.told() == []


async def test_the_lists_are_read_at_the_beginning_and_while_something_is_unknown(swept: Swept) -> None:
    await swept()
    await swept()
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == []
    swept.world.account.state = ready = replace(swept.world.account.ready)
    ready.unclaimed.add(made.id)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_a_breakdown_that_cannot_be_read_is_not_taken_for_one_that_lacks_what_was_there(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept(used(made))
    known = dict(swept.memory.hours)
    assert made.id in known
    await swept(CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": {"gpu": 5}}))
    assert swept.memory.hours == known


async def test_what_the_usage_tells_is_found_without_a_list(swept: Swept) -> None:
    """That its object was forced away nobody saw; it stands still and costs nothing."""
    swept.memory.sweeps = 9
    made = swept.world.pods.add(ORPHAN, "stopped")
    await swept(used(made))
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_each_line_of_the_usage_has_its_turn_and_is_looked_at_once(swept: Swept) -> None:
    swept.memory.sweeps = 9
    names = [cloud_name(NAMESPACE, f"gone-{number}", f"{number:08x}-89ab", "c0ffe", 1) for number in range(25)]
    ended = [swept.world.pods.add(name, "terminated") for name in names]
    for looks in (10, 20, 25, 25):
        await swept(used(*ended))
        assert swept.world.pods.count("observe") == looks
    await swept(used(*ended[:3], hours=2.0))
    assert swept.world.pods.count("observe") == 28


async def test_what_did_not_answer_is_looked_at_again(swept: Swept) -> None:
    swept.memory.sweeps = 9
    made = swept.world.pods.add(ORPHAN)
    swept.world.pods.fail("observe", lost(acted=False))
    await swept(used(made))
    assert swept.told() == []
    await swept(used(made))
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_a_sweep_asks_about_few_at_a_time(swept: Swept) -> None:
    for number in range(30):
        swept.world.pods.add(cloud_name(NAMESPACE, f"gone-{number}", f"{number:08x}-89ab", "c0ffe", 1))
    await swept()
    assert len(swept.told()) == 10
    swept.world.pods.calls.clear()
    await swept()
    assert len(swept.told()) == 20
    assert swept.world.pods.count("observe") == 20


@pytest.mark.parametrize("listed", [True, False])
async def test_each_has_its_turn_also_if_fewer_are_remembered(
    swept: Swept, monkeypatch: pytest.MonkeyPatch, *, listed: bool
) -> None:
    """The listed ones cannot be looked at; those of the usage have ended."""
    monkeypatch.setattr(sweep, "REMEMBERED", 5)
    world, memory = swept.world, swept.memory
    noted = Noted(world.pods)
    swept.traces["GpuPod"] = ManagedTraces(noted, GpuPodStatus(), world.cache, world.flow.installation)
    memory.sweeps, memory.anxious_until = 9, 1e9 if listed else 0.0
    names = [cloud_name(NAMESPACE, f"gone-{number}", f"{number:08x}-89ab", "c0ffe", 1) for number in range(25)]
    made = [world.pods.add(name, "running" if listed else "terminated") for name in names]
    world.pods.hidden |= {one.id for one in made if listed}
    for _ in range(3):
        await swept(None if listed else used(*made))
        assert len(memory.looked) <= 5 + 10
        assert len(memory.hours) <= 5
    assert (len(noted.asked), set(noted.asked)) == (30, {one.id for one in made})


async def test_a_look_at_a_leftover_is_remembered_however_many_strays_are_looked_at(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "REMEMBERED", 1)
    for number in range(12):
        swept.world.pods.add(cloud_name(NAMESPACE, f"gone-{number}", f"{number:08x}-89ab", "c0ffe", 1))
    for _ in range(3):
        await swept()
    assert swept.memory.looked.keys() == {cloud_id for _, cloud_id in swept.told()}


def test_for_what_was_looked_at_not_all_that_is_found_is_gone_through() -> None:
    memory, found = SweepMemory(looked={"pod-1": 1, "gone": 1, "pod-2": 2, "left": 1}), Found()
    memory.only(found, {"left", "other"})
    assert memory.looked == {"pod-1": 1, "pod-2": 2, "left": 1}
    assert len(found.asked) == 4


async def test_what_may_be_another_operators_costs_no_walk_through_all_objects(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[Cache] = []
    everything = Cache.items

    def counted(cache: Cache) -> Iterator[tuple[ObjectKey, Entry]]:
        walks.append(cache)
        return everything(cache)

    monkeypatch.setattr(Cache, "items", counted)
    for number in range(30):
        swept.world.pods.add(cloud_name(NAMESPACE, f"gone-{number}", f"{number:08x}-89ab", "c0ffe", 1))
    swept.everywhere = False
    await swept()
    assert (swept.told(), walks) == ([], [])
    swept.everywhere = True
    await swept()
    assert (len(swept.told()), len(walks)) == (10, 10)


async def test_strays_that_cannot_be_looked_at_keep_no_other_from_being_found(swept: Swept) -> None:
    pods = swept.world.pods
    hidden = {pods.add(cloud_name(NAMESPACE, f"gone-{one}", f"{one:08x}-89ab", "c0ffe", 1)).id for one in range(10)}
    pods.hidden |= hidden
    made = pods.add(ORPHAN)
    await swept()
    assert swept.told() == []
    swept.memory.anxious_until = 1e9
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_others_have_their_turn_while_a_long_month_is_swept(swept: Swept) -> None:
    engine, turns = swept.world.reconciler.engine, list[float]()

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    swept.world.reconciler.engine = replace(engine, sleep=sleep)
    lines = [{"resourceId": f"pod-{number}", "kind": "pod", "name": "by-hand", "hours": 1} for number in range(1000)]
    await swept(CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": lines}))
    assert turns == [0, 0]

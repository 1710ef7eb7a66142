"""What the cloud created too late for an object that has another is ended, unless the object is paused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftover import Fate
from tests.unit.engine.apiserver import Json
from tests.unit.flows.account.swept import ACCOUNT, ELSEWHERE, ORPHAN, Swept, asking
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.leftovers import leftover
from tests.unit.flows.managed.world import NAMESPACE

KEY = ObjectKey("GpuPod", NAMESPACE, "train")


async def test_nothing_is_ended_for_a_paused_object(swept: Swept) -> None:
    world = swept.world
    world.apply()
    await world.wait(10)
    late = world.pods.add(cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 7))
    world.annotate(paused="true")
    await swept()
    assert swept.told() == [(Fate.LATE, late.id)]
    assert late in world.pods.live
    world.annotate(paused=None)
    await world.settle()
    await swept()
    assert late not in world.pods.live


async def test_what_its_object_tells_of_is_ended_though_the_first_try_failed(swept: Swept) -> None:
    world = swept.world
    world.apply()
    await world.wait(10)
    late = world.pods.add(cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 7))
    world.pods.fail("delete", lost(acted=False))
    await swept()
    await world.settle()
    told = world.condition(ConditionType.LATE_CREATE)
    assert told is not None
    assert late.id in told.message
    assert late in world.pods.live
    await swept()
    assert late not in world.pods.live


@pytest.mark.parametrize(
    ("organization", "told"),
    [("org-2", [(Fate.LATE, "pod-2")]), ("org-1", []), (None, [])],
    ids=["of another organization", "of the same", "not known"],
)
async def test_what_came_too_late_for_an_object_that_moved_is_ended_where_nobody_else_sees_it(
    swept: Swept, organization: str | None, told: list[tuple[Fate, str]]
) -> None:
    world, elsewhere = swept.world, ObjectKey("CloudAccount", NAMESPACE, "other")
    world.server.put("cloudaccounts", {"metadata": {"name": "other", "namespace": NAMESPACE}})
    world.apply(accountRef={"kind": "CloudAccount", "name": "other"})
    await world.wait(10)
    world.cache.put(KEY, world.raw())
    swept.organizations |= {} if organization is None else {elsewhere: organization}
    status: Json = {"account": {"kind": "CloudAccount", "name": "other"}}
    world.server.edit("gpupods", NAMESPACE, "train", {"status": status}, status=True)
    world.pods.add(cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 7))
    await swept()
    assert swept.told() == told


async def test_what_came_too_late_is_ended_if_the_object_uses_another_cloud_that_claims_the_organization(
    swept: Swept,
) -> None:
    world, elsewhere = swept.world, ObjectKey("CloudAccount", NAMESPACE, "other")
    world.server.put("cloudaccounts", {"metadata": {"name": "other", "namespace": NAMESPACE}})
    world.apply(accountRef={"kind": "CloudAccount", "name": "other"})
    await world.wait(10)
    own: Json = {"apiKeySecretRef": {}, "baseUrl": "https://own.example"}
    world.cache.put(elsewhere, {"metadata": {"name": "other", "uid": "a"}, "spec": own})
    swept.organizations[elsewhere] = "org-1"
    status: Json = {"account": {"kind": "CloudAccount", "name": "other"}}
    world.server.edit("gpupods", NAMESPACE, "train", {"status": status}, status=True)
    late = world.pods.add(cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 7))
    await swept()
    assert swept.told() == [(Fate.LATE, late.id)]


async def late_of(swept: Swept) -> str:
    """The id of what the cloud created too late for the object `train`."""
    swept.world.apply()
    await swept.world.wait(10)
    return swept.world.pods.add(cloud_name(NAMESPACE, "train", swept.world.obj().metadata.uid, "c0ffe", 7)).id


async def test_a_late_create_is_ended_though_its_object_which_has_another_asks_for_it(swept: Swept) -> None:
    late = await late_of(swept)
    swept.world.annotate(adopt_id=late)
    await swept()
    assert late not in [one.id for one in swept.world.pods.live]
    assert len(swept.world.pods.live) == 1


async def test_a_late_create_is_ended_whoever_else_says_its_id(swept: Swept) -> None:
    late = await late_of(swept)
    swept.has(ELSEWHERE)
    for account in (ELSEWHERE, ACCOUNT):
        asking(swept, late, account)
    await swept()
    assert late not in [one.id for one in swept.world.pods.live]


async def test_what_an_intent_that_cannot_be_read_may_be_about_is_left_to_people(swept: Swept) -> None:
    world = swept.world
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(100)
    world.annotate(create_intent="{")
    await world.settle()
    await swept()
    assert (swept.told(), len(world.pods.live)) == ([], 1)


@pytest.mark.parametrize(("endpoint", "anxious"), [("", True), ("here", True), ("former", False)])
async def test_a_late_create_that_another_url_cannot_end_asks_for_no_frequent_sweeps(
    swept: Swept, endpoint: str, *, anxious: bool
) -> None:
    account = swept.world.account
    account.state = replace(account.ready, endpoints=Endpoints("here"))
    swept.world.informer.vanished.leftovers.note(leftover(Fate.LATE, endpoint=endpoint))
    swept.memory.sweeps = 9
    stray = swept.world.pods.add(ORPHAN)  # which only a list shows
    await swept()
    assert ((Fate.ORPHAN, stray.id) in swept.told()) is anxious


async def test_what_a_restored_object_had_runs_on_as_an_orphan_until_the_object_has_something(swept: Swept) -> None:
    """The backup is of the first attempt, whose pod is gone; the second runs."""
    world = swept.world
    world.apply()
    await world.wait(10)
    first = world.pods.live[0]
    second = world.pods.add(cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 2))
    world.pods.become(first.id, "terminated")
    await swept()
    assert swept.told() == [(Fate.ORPHAN, second.id)]
    assert second in world.pods.live
    world.pods.become(first.id, "running")  # the answer was wrong
    await swept()
    await world.settle()
    await swept()
    assert [one.id for one in world.pods.live] == [first.id]


async def test_what_an_edited_status_names_no_more_runs_on_as_an_orphan_until_the_object_names_it_again(
    swept: Swept,
) -> None:
    world = swept.world
    world.apply()
    await world.wait(10)
    own = world.pods.live[0]
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"id": "pod-999"}}, status=True)
    await swept()
    await swept()
    assert swept.told() == [(Fate.ORPHAN, own.id)]
    assert own in world.pods.live
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"id": own.id}}, status=True)
    await world.settle()
    await swept()
    assert (swept.told(), world.pods.live, world.reason()) == ([], [own], "Running")

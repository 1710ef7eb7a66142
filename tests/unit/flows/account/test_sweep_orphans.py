"""To whom an orphan is left, what of it is ended, and how an object comes to leave one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Identity, ObjectKey
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.leftovers import _MOST
from relay_wire.billing import CurrentUsage
from tests.unit.engine.apiserver import Json
from tests.unit.flows.account.swept import ACCOUNT, ELSEWHERE, ORPHAN, Swept, asking
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.leftovers import leftover
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

if TYPE_CHECKING:
    from pydantic import JsonValue


async def test_an_orphan_that_an_object_asks_for_is_left_to_it(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept()
    swept.world.apply(annotations={"gpurelay.dev/adopt-id": made.id, "gpurelay.dev/paused": "true"})
    swept.world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert [record.id for record in swept.world.pods.live] == [made.id]
    swept.world.delete()
    await swept(policy=Orphans.DELETE)
    assert swept.world.pods.live == []


@pytest.mark.parametrize("deleting", [False, True])
async def test_an_orphan_of_which_only_the_name_is_known_is_forgotten_once_an_object_has_it(
    swept: Swept, deleting: bool
) -> None:
    """Somebody adopted it, or a restored object did, before any sweep found it."""
    made, leftovers = swept.world.pods.add(ORPHAN), swept.world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN, "", name=ORPHAN))
    metadata: dict[str, JsonValue] = {"name": "adopter", "namespace": NAMESPACE, "uid": "its-own"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    key = ObjectKey("GpuPod", NAMESPACE, "adopter")
    swept.world.cache.put(key, {"kind": "GpuPod", "metadata": metadata, "status": {"id": made.id}})
    await swept()
    assert swept.told() == ([(Fate.ORPHAN, "")] if deleting else [])


async def test_more_than_a_namespace_may_leave_is_not_recorded_before_there_is_room(swept: Swept) -> None:
    """A cloud of one's own lists whatever it likes."""
    made, leftovers = swept.world.pods.add(ORPHAN), swept.world.informer.vanished.leftovers
    for number in range(_MOST):
        leftovers.note(leftover(Fate.KEPT, f"former-{number}"))
    await swept()
    assert leftovers.counts() == {Fate.KEPT: _MOST}
    leftovers.forget(leftover(Fate.KEPT, "former-0"))
    await swept()
    assert (Fate.ORPHAN, made.id) in swept.told()


async def test_what_an_object_says_the_id_of_is_left_to_people(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    swept.world.apply(annotations={"gpurelay.dev/adopt-id": made.id, "gpurelay.dev/paused": "true"})
    await swept()
    assert swept.told() == []


async def test_an_orphan_that_an_open_intent_names_is_left_to_it(swept: Swept) -> None:
    """A backup was restored without status: its id is not known, and its object may take it over."""
    made, world = swept.world.pods.add(ORPHAN), swept.world
    await swept()
    world.clock.seconds += 2 * 86400
    former = Identity(installation="c0ffe", namespace=NAMESPACE, name="gone", uid="01234567-89ab", organization="org-1")
    intent = CreateIntent(
        token="t", name=ORPHAN, attempt=1, spec_hash="", started_at=BEGINNING, account="", identity=former
    )
    world.apply("gone", annotations={CREATE_INTENT: intent.to_annotation(), "gpurelay.dev/paused": "true"})
    await swept(policy=Orphans.DELETE)
    assert [record.id for record in world.pods.live] == [made.id]
    world.delete("gone")
    await swept(policy=Orphans.DELETE)
    assert world.pods.live == []


async def test_an_orphan_that_is_asked_for_while_its_end_waits_for_a_connection_is_not_ended(swept: Swept) -> None:
    made, world = swept.world.pods.add(ORPHAN), swept.world
    await swept()
    world.clock.seconds += 2 * 86400
    world.pods.before_change = lambda _call: world.apply(annotations={"gpurelay.dev/adopt-id": made.id}) and None
    await swept(policy=Orphans.DELETE)
    assert [record.id for record in world.pods.live] == [made.id]


@pytest.mark.parametrize(
    ("organization", "before", "recorded", "left"),
    [
        ("org-1", "", "", True),
        ("org-2", "", "", False),
        (None, "org-1", "", True),
        (None, "", "", False),
        ("org-2", "", "org-1", True),
    ],
    ids=["of the organization", "of another", "of it as status says", "never usable", "restored, from it"],
)
async def test_an_orphan_is_left_to_those_who_may_have_it(
    swept: Swept, organization: str | None, before: str, recorded: str, *, left: bool
) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept()
    swept.world.clock.seconds += 2 * 86400
    swept.organizations |= {} if organization is None else {ELSEWHERE: organization}
    swept.has(ELSEWHERE, organizationId=before)
    asking(swept, f"{made.id}2", ACCOUNT, "another-id")
    identity: JsonValue = {"organization": recorded, "uid": "former"}
    asking(swept, made.id, ELSEWHERE, identity=identity)
    await swept(policy=Orphans.DELETE)
    assert (made in swept.world.pods.live) is left


async def test_who_has_no_account_has_nothing_to_ask_for(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept()
    swept.world.clock.seconds += 2 * 86400
    asking(swept, made.id, ELSEWHERE)
    await swept(policy=Orphans.DELETE)
    assert made not in swept.world.pods.live


async def test_an_orphan_with_a_name_of_peoples_is_told_and_not_ended(swept: Swept) -> None:
    """Only a status tells that it was an object's, and whoever may write one could name anything."""
    world = swept.world
    made = world.pods.add("somebodys-own")
    status: Json = {"id": made.id, "cloudName": "somebodys-own", "account": {"kind": "CloudAccount", "name": "default"}}
    world.watching = False
    world.apply("forged")
    world.watching = True
    world.server.edit("gpupods", NAMESPACE, "forged", {"status": status}, status=True)
    world.delete("forged", force=True)
    world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert (swept.told(), made in world.pods.live) == ([(Fate.ORPHAN, made.id)], True)


async def test_what_is_kept_by_its_name_is_not_ended_though_another_record_has_its_id(swept: Swept) -> None:
    made, leftovers = swept.world.pods.add(ORPHAN), swept.world.informer.vanished.leftovers
    told = {"kind": "GpuPod", "account": ACCOUNT, "organization": "org-1", "name": ORPHAN, "since": BEGINNING}
    leftovers.note(Leftover.model_validate({"fate": Fate.ORPHAN, "id": made.id, **told}))
    leftovers.note(Leftover.model_validate({"fate": Fate.KEPT, **told}))
    swept.world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert made in swept.world.pods.live


def replaced_and_deleted(world: World) -> None:
    """As `kubectl replace` of a manifest does it, right before `kubectl delete`."""
    bare: Json = {"annotations": {CREATE_INTENT: None}, "finalizers": None}
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": bare})
    world.delete()


async def test_what_is_replaced_and_deleted_at_once_is_an_orphan_by_its_id(swept: Swept) -> None:
    world = swept.world
    world.apply()
    await world.wait(10)
    replaced_and_deleted(world)
    assert (world.exists(), swept.told()) == (False, [(Fate.ORPHAN, "pod-1")])


async def test_what_is_replaced_and_deleted_while_its_create_is_unknown_is_an_orphan_once_it_costs(
    swept: Swept,
) -> None:
    world = swept.world
    swept.memory.sweeps = 9
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(100)
    (made,) = world.pods.live
    replaced_and_deleted(world)
    assert (world.exists(), swept.told()) == (False, [])
    for hours in (0.1, 0.2):
        row = {"resourceId": made.id, "kind": "pod", "name": made.name, "hours": hours}
        await swept(CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": [row]}))
    assert swept.told() == [(Fate.ORPHAN, made.id)]

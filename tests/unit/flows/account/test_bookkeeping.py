"""What an account's organization spent, of objects that come and go, over restarts of the operator."""

from __future__ import annotations

import json
from datetime import timedelta

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.intent import cloud_name
from relay_operator.flows.account.bookkeeping import HOLDERS, REMEMBERED
from tests.unit.engine.apiserver import part
from tests.unit.flows.account.books_kept import OWN, SHARED, Kept
from tests.unit.flows.managed.world import NAMESPACE


async def test_what_is_gone_counts_for_whom_it_was_also_after_a_restart(kept: Kept) -> None:
    await kept.created("train", 300, "research")
    await kept.created("serve", 50)
    assert await kept.spent() == {(NAMESPACE, "research"): 300, (NAMESPACE, "unattributed"): 50}
    await kept.deleted("train")
    await kept.restart()
    assert await kept.spent() == {(NAMESPACE, "research"): 300, (NAMESPACE, "unattributed"): 50}


async def test_what_came_and_went_between_two_looks_counts_for_whom_it_was(kept: Kept) -> None:
    await kept.created("train", 300, "research")
    await kept.deleted("train")
    assert await kept.spent() == {(NAMESPACE, "research"): 300}
    await kept.restart()
    assert await kept.spent() == {(NAMESPACE, "research"): 300}


async def test_what_came_and_went_counts_however_many_others_came_and_went_since(kept: Kept) -> None:
    await kept.created("train", 300, "research")
    await kept.deleted("train")
    for number in range(REMEMBERED + 2):
        noisy = ObjectKey("GpuPod", "team-b", f"noisy-{number}")
        kept.records(noisy, "99887766-5678", f"pod-of-noisy-{number}")
        kept.world.cache.drop(noisy)
    assert await kept.spent() == {(NAMESPACE, "research"): 300}


def test_former_holders_are_bounded_and_of_namespaces_with_equally_many_the_oldest_goes(kept: Kept) -> None:
    for number in range(REMEMBERED + 2):
        key = ObjectKey("GpuPod", f"team-{number}", "train")
        kept.records(key, "99887766-5678", f"pod-{number}")
        kept.world.cache.drop(key)
    assert kept.departed.of(SHARED.account).keys() == {f"pod-{number}" for number in range(2, REMEMBERED + 2)}


def test_a_former_holder_counts_once_however_often_it_goes_and_as_the_latest(kept: Kept) -> None:
    for name in ("train", "serve", "train", "train"):
        key = ObjectKey("GpuPod", "team-a", name)
        kept.records(key, f"uid-of-{name}", "pod-1")
        if (entry := kept.world.cache.get(key)) is not None:
            kept.departed.note(key, entry, SHARED.account)
    assert [one.key.name for one in kept.departed.of(SHARED.account)["pod-1"]] == ["train", "serve"]


def test_of_the_former_holders_of_an_id_each_namespace_has_its_latest(kept: Kept) -> None:
    for namespace, number in [("team-a", 0), *(("team-b", number) for number in range(HOLDERS + 2))]:
        key = ObjectKey("GpuPod", namespace, f"train-{number}")
        kept.records(key, f"uid-{number}", "pod-1")
        kept.world.cache.drop(key)
    told = [(one.key.namespace, one.uid) for one in kept.departed.of(SHARED.account)["pod-1"]]
    assert told == [("team-a", "uid-0"), *(("team-b", f"uid-{number}") for number in range(HOLDERS + 1, 1, -1))]


async def test_what_came_and_went_before_a_process_died_that_had_not_looked_is_of_nobody(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.deleted("train")
    await kept.restart()
    assert await kept.spent() == {("unattributed", "unattributed"): 300}


async def test_what_nobody_had_is_of_nobody(kept: Kept) -> None:
    kept.cents[kept.world.pods.add("by-hand").id] = 7
    assert await kept.spent() == {("unattributed", "unattributed"): 7}
    assert kept.config_map is None


async def test_a_line_that_names_no_resource_is_of_nobody_whatever_it_is_called(kept: Kept) -> None:
    record = await kept.created("train", 300)
    kept.without_id.append({"name": record.name, "cents": 5})
    kept.without_id.append({"resourceId": "x" * 254, "name": record.name, "cents": 0})
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert kept.config_map is not None
    (group,) = json.loads(str(part(kept.config_map, "data")["owners.json"]))["current"]
    assert group["ids"] == [record.id]


async def test_a_cost_centre_that_changes_takes_along_what_its_object_spent_this_month(kept: Kept) -> None:
    await kept.created("train", 300, "research")
    await kept.spent()
    kept.label("train", "sales")
    await kept.world.settle()
    assert await kept.spent() == {(NAMESPACE, "sales"): 300}
    await kept.deleted("train")
    await kept.restart()
    assert await kept.spent() == {(NAMESPACE, "sales"): 300}


async def test_what_goes_on_without_an_object_is_of_the_same_in_the_next_month(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.spent()
    kept.world.delete(force=True)
    kept.world.clock.seconds += timedelta(days=31).total_seconds()
    await kept.restart()
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    kept.world.clock.seconds += timedelta(days=61).total_seconds()
    await kept.restart()
    assert await kept.spent() == {("unattributed", "unattributed"): 300}


async def test_an_account_that_namespaces_share_has_its_books_beside_the_operator(kept: Kept) -> None:
    kept.page = SHARED
    for number, namespace in enumerate(("team-a", "team-b"), start=1):
        key, uid = ObjectKey("GpuPod", namespace, "train"), f"{number}234abcd-5678"
        record = kept.world.pods.add(cloud_name(namespace, "train", uid, "c0ffe", 1))
        kept.cents[record.id] = number
        kept.records(key, uid, record.id)
    assert await kept.spent() == {("team-a", "unattributed"): 1, ("team-b", "unattributed"): 2}
    assert kept.config_map is not None
    await kept.restart()
    assert await kept.spent() == {("team-a", "unattributed"): 1, ("team-b", "unattributed"): 2}


async def test_what_another_account_of_the_organization_has_is_of_nobody_here(kept: Kept) -> None:
    uid = "1234abcd-5678"
    record = kept.world.pods.add(cloud_name("team-b", "train", uid, "c0ffe", 1))
    kept.cents[record.id] = 9
    kept.records(ObjectKey("GpuPod", "team-b", "train"), uid, record.id)
    assert await kept.spent() == {("unattributed", "unattributed"): 9}


async def test_what_an_object_adopted_is_its_own(kept: Kept) -> None:
    record = kept.world.pods.add("by-hand")
    kept.cents[record.id] = 4
    kept.records(ObjectKey("GpuPod", NAMESPACE, "train"), "1234abcd-5678", record.id, OWN.account)
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 4}


async def test_what_went_with_another_account_of_the_organization_is_of_nobody_here(kept: Kept) -> None:
    uid, key = "1234abcd-5678", ObjectKey("GpuPod", "team-b", "train")
    record = kept.world.pods.add(cloud_name("team-b", "train", uid, "c0ffe", 1))
    kept.cents[record.id] = 9
    kept.records(key, uid, record.id)
    kept.world.cache.drop(key)
    assert await kept.spent() == {("unattributed", "unattributed"): 9}


async def test_a_status_that_was_forged_has_no_cost_of_another(kept: Kept) -> None:
    kept.page = SHARED
    uid, thief = "1234abcd-5678", ObjectKey("GpuPod", "team-b", "thief")
    record = kept.world.pods.add(cloud_name("team-a", "train", uid, "c0ffe", 1))
    kept.cents[record.id] = 300
    kept.records(thief, "99887766-5678", record.id)
    kept.records(ObjectKey("GpuPod", "team-a", "train"), uid, record.id)
    assert await kept.spent() == {("team-a", "unattributed"): 300}
    kept.world.cache.drop(ObjectKey("GpuPod", "team-a", "train"))
    assert await kept.spent() == {("team-a", "unattributed"): 300}


async def test_a_create_whose_answer_was_lost_is_of_the_object_that_gave_its_name(kept: Kept) -> None:
    kept.world.apply()
    await kept.world.settle()
    lost = kept.world.pods.add(cloud_name(NAMESPACE, "train", kept.world.obj().metadata.uid, "c0ffe", 2))
    kept.cents[lost.id] = 8
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 8}

"""The ConfigMap of an account's books: written once, read again, and refused, edited or somebody else's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.flows.account.bookkeeping import Books, Page
from relay_operator.flows.account.owners import MOST_VALUES, Owners
from relay_operator.flows.account.spend import Owner
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.account.books_kept import OWN, SHARED, Kept
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue


async def test_a_look_that_finds_nothing_new_writes_nothing_and_one_that_does_writes_once(kept: Kept) -> None:
    await kept.spent()
    assert kept.writes == []
    await kept.created("train", 300)
    await kept.created("serve", 300)
    await kept.spent()
    assert kept.writes == ["POST configmaps"]
    kept.cents["pod-1"] += 1_000
    await kept.spent()
    await kept.restart()
    await kept.spent()
    assert kept.writes == ["POST configmaps"]
    await kept.created("more", 5)
    await kept.spent()
    assert kept.writes == ["POST configmaps", "PATCH configmaps"]


async def test_the_config_map_goes_with_the_account(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.spent()
    assert kept.config_map is not None
    metadata = part(kept.config_map, "metadata")
    assert metadata["labels"] == {"gpurelay.dev/spend": "true"}
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    assert [(one["kind"], one["uid"]) for one in owners if isinstance(one, dict)] == [("CloudAccount", OWN.uid)]


async def test_books_that_cannot_be_read_at_the_moment_leave_what_was_told(kept: Kept) -> None:
    await kept.created("train", 300)
    kept.world.server.faults.append(Fault(503, method="GET", plural="configmaps"))
    assert (await kept.month(), kept.trouble, kept.writes) == (None, "", [])
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}


async def test_a_write_that_fails_is_made_by_the_next_look(kept: Kept) -> None:
    await kept.created("train", 300)
    kept.world.server.faults.append(Fault(503, method="POST", plural="configmaps"))
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert (kept.config_map, kept.trouble) == (None, "")
    await kept.spent()
    assert kept.config_map is not None


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_the_api_server_refuses_is_told_and_what_lives_is_accounted_for(kept: Kept, method: str) -> None:
    await kept.created("train", 300)
    kept.world.server.faults.append(Fault(403, method=method, plural="configmaps"))
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert "Scripted: scripted" in kept.trouble
    await kept.spent()
    assert (kept.trouble, kept.config_map is not None) == ("", True)


async def test_a_config_map_of_somebody_else_is_told_and_left(kept: Kept) -> None:
    theirs: Json = {"metadata": {"name": "relay-spend-default", "namespace": NAMESPACE}, "data": {"a": "b"}}
    kept.world.server.put("configmaps", theirs)
    await kept.created("train", 300)
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert kept.trouble == (
        "the owners of what is gone cannot be read: Taken: the ConfigMap relay-spend-default in the namespace team-a "
        "is not this account's: delete it"
    )
    assert kept.config_map is not None
    assert kept.config_map["data"] == {"a": "b"}


@pytest.mark.parametrize("name", ["default", "cluster-default"])
async def test_an_account_in_the_namespace_of_the_operator_and_a_shared_one_keep_a_book_each(
    kept: Kept, name: str
) -> None:
    record = kept.world.pods.add("by-hand")
    kept.cents[record.id] = 4
    beside = Page(ObjectKey("CloudAccount", OPERATOR_NAMESPACE, name), "uid-of-the-account-beside")
    for page in (SHARED, beside):
        kept.page, kept.books = page, Books()
        holder = ObjectKey("GpuPod", OPERATOR_NAMESPACE, f"train-{page.uid}")
        kept.records(holder, "1234abcd-5678", record.id, page.account)
        assert await kept.spent() == {(OPERATOR_NAMESPACE, "unattributed"): 4}
        assert kept.trouble == ""


async def test_the_accounts_of_a_namespace_have_room_together_and_a_shared_one_for_itself(kept: Kept) -> None:
    beside = Page(ObjectKey("CloudAccount", NAMESPACE, "beside"), "uid-of-the-account-beside")
    month, ids = kept.world.clock.wall().strftime("%Y-%m"), range(MOST_VALUES - 4 - (4 + 2))
    full = Owners("org-1", month, {f"gone-{number}": Owner(NAMESPACE, "") for number in ids})
    references: JsonValue = [{"uid": beside.uid}]
    metadata: JsonValue = {"name": beside.name, "namespace": NAMESPACE, "ownerReferences": references}
    kept.world.server.put("configmaps", {"metadata": metadata, "data": {"owners.json": full.text()}})
    for number in range(3):
        await kept.created(f"train-{number}", 300 + number)
    kept.page, its = beside, kept.books
    await kept.spent()
    assert (its.owners, kept.writes) == (full, [])
    kept.page, kept.books = OWN, Books()
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 903}
    assert kept.books.owners is not None
    assert set(kept.books.owners.current) == {"pod-2", "pod-3"}
    del its
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 903}
    assert set(kept.books.owners.current) == {"pod-1", "pod-2", "pod-3"}
    kept.bookkeeper.kept.clear()
    others = [Books(full) for _ in range(2)]
    for number, books in enumerate(others):
        kept.bookkeeper.kept[ObjectKey("ClusterCloudAccount", "", f"beside-{number}")] = books
    await kept.spent()
    assert len(kept.books.owners.current) == 3


@pytest.mark.parametrize(
    "ids", [[f"{number:03x}" for number in range(150_000)], ["pod-1", "../vms"]], ids=["too many", "no ids"]
)
async def test_a_book_that_nobody_wrote_so_is_written_again_and_not_kept(kept: Kept, ids: list[str]) -> None:
    await kept.created("train", 300)
    await kept.spent()
    first = kept.books.owners
    forged = Owners("org-1", kept.world.clock.wall().strftime("%Y-%m"), dict.fromkeys(ids, Owner(NAMESPACE, "")))
    kept.world.server.edit("configmaps", NAMESPACE, "relay-spend-default", {"data": {"owners.json": forged.text()}})
    await kept.restart()
    await kept.spent()
    assert kept.books.owners == first
    assert kept.writes == ["POST configmaps", "PATCH configmaps"]


@pytest.mark.parametrize("text", ["garbage", None])
async def test_what_was_made_unreadable_is_written_anew(kept: Kept, text: str | None) -> None:
    await kept.created("train", 300)
    await kept.spent()
    kept.world.server.edit("configmaps", NAMESPACE, "relay-spend-default", {"data": {"owners.json": text}})
    await kept.restart()
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert kept.config_map is not None
    assert json.loads(str(part(kept.config_map, "data")["owners.json"]))["organization"] == "org-1"


async def test_an_edited_book_spoils_the_report_of_its_own_namespace_alone(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.spent()
    assert kept.config_map is not None
    forged = str(part(kept.config_map, "data")["owners.json"]).replace(f'"{NAMESPACE}"', '"team-b"')
    kept.world.server.edit("configmaps", NAMESPACE, "relay-spend-default", {"data": {"owners.json": forged}})
    await kept.deleted("train")
    await kept.restart()
    assert await kept.spent() == {("unattributed", "unattributed"): 300}


async def test_an_account_that_ends_writes_nothing(kept: Kept) -> None:
    await kept.created("train", 300)
    assert await kept.month(read_only=True) is not None
    assert kept.writes == []


def test_the_name_of_the_config_map_fits_whatever_the_account_is_called() -> None:
    long = Page(ObjectKey("CloudAccount", NAMESPACE, "a" * 240 + ".b" + "c" * 11), "uid")
    assert (len(long.name), long.name[:13]) == (252, "relay-spend-a")

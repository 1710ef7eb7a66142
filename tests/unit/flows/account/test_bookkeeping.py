"""What an account's organization spent, of objects that come and go, over restarts of the operator."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.meta import COST_CENTER, ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import gave
from relay_operator.engine.intent import cloud_name
from relay_operator.flows.account import owners
from relay_operator.flows.account.bookkeeping import HOLDERS, REMEMBERED, Bookkeeper, Books, Departed, Page
from relay_operator.flows.account.owners import MOST_VALUES, Owners
from relay_operator.flows.account.spend import Month, Owner
from relay_wire.billing import CurrentUsage
from tests.support.turns import others
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE, World

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_wire.vms import VmRecord

OWN = Page(ObjectKey("CloudAccount", NAMESPACE, "default"), "uid-of-the-account")
SHARED = Page(ObjectKey("ClusterCloudAccount", "", "default"), "uid-of-the-shared-account")


@dataclass
class Kept:
    """One account's books in a world; the usage is of what the world's cloud has."""

    world: World
    page: Page = OWN
    cents: dict[str, int] = field(default_factory=dict)
    """Of each id."""
    without_id: list[Json] = field(default_factory=list)
    """Lines of the usage that name no resource."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.books, self.departed, cache = Books(), Departed(), self.world.cache
        self.bookkeeper = Bookkeeper(self.world.reconciler.engine, self.departed, OPERATOR_NAMESPACE)
        cache.on_left = lambda key, entry: self.departed.note(key, entry, cache.account_meant(key, entry))
        for page in (OWN, SHARED):
            metadata: JsonValue = {"name": page.account.name, "namespace": page.account.namespace, "uid": page.uid}
            cache.put(page.account, {"metadata": metadata})

    async def restart(self) -> None:
        """The process dies, and another begins."""
        await self.world.restart()
        self._begin()

    async def created(self, name: str, cents: int, cost_center: str = "") -> VmRecord:
        """An object that has a pod, which cost so much."""
        self.world.apply(name)
        if cost_center:
            self.label(name, cost_center)
        await self.world.settle()
        record = next(one for one in self.world.pods.live if one.id == self.world.status(name).id)
        self.cents[record.id] = cents
        return record

    def label(self, name: str, cost_center: str) -> None:
        self.world.server.edit("gpupods", NAMESPACE, name, {"metadata": {"labels": {COST_CENTER: cost_center}}})

    async def deleted(self, name: str) -> None:
        self.world.delete(name)
        await self.world.wait(10)
        assert not self.world.exists(name)

    def records(self, key: ObjectKey, uid: str, cloud_id: str, account: ObjectKey = SHARED.account) -> None:
        """An object whose status says that it has this id, truly or not."""
        status: JsonValue = {
            "id": cloud_id,
            "identity": {"installation": "c0ffe", "namespace": key.namespace, "name": key.name, "uid": uid},
            "account": {"kind": account.kind, "name": account.name},
        }
        metadata: JsonValue = {"name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": "1"}
        self.world.cache.put(key, {"metadata": metadata, "status": status})

    async def month(self, *, read_only: bool = False) -> Month | None:
        state = self.world.account.ready
        lines = [
            {"resourceId": cloud_id, "name": self.world.pods.records[cloud_id].name, "cents": cents}
            for cloud_id, cents in self.cents.items()
        ]
        told = {"usageCents": sum(self.cents.values()), "usageHours": 1.0, "breakdown": [*self.without_id, *lines]}
        usage, now = CurrentUsage.model_validate(told), self.world.clock.wall()
        month, self.trouble = await self.bookkeeper.account(
            self.page, state, usage, self.books, now, read_only=read_only
        )
        return month

    async def spent(self) -> dict[tuple[str, str], int]:
        month = await self.month()
        assert month is not None
        return {(namespace, center): cents for namespace, center, cents in month.shares}

    @property
    def config_map(self) -> Json | None:
        namespace = self.page.account.namespace
        name = "relay-spend-default" if namespace else "relay-cluster-spend-default"
        return self.world.server.objects.get(("configmaps", namespace or OPERATOR_NAMESPACE, name))

    @property
    def writes(self) -> list[str]:
        """Of ConfigMaps."""
        return [one for one in self.world.server.writes if "configmaps" in one]


@pytest.fixture
def kept(world: World) -> Kept:
    return Kept(world)


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


async def test_others_have_their_turn_while_a_long_month_is_accounted_for(kept: Kept) -> None:
    for number in range(500):
        kept.cents[kept.world.pods.add(f"by-hand-{number}").id] = 1
    assert await kept.spent() == {("unattributed", "unattributed"): 500}


async def test_others_have_their_turn_between_the_steps_of_a_look_that_finds_nothing_new(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.spent()
    with others() as beside:
        await kept.spent()
    assert beside.turns >= 3


async def test_an_id_on_many_lines_is_looked_for_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    record, asked, with_cloud_id = await kept.created("train", 300), list[str](), Cache.with_cloud_id

    def counted(cache: Cache, cloud_id: str) -> frozenset[ObjectKey]:
        asked.append(cloud_id)
        return with_cloud_id(cache, cloud_id)

    monkeypatch.setattr(Cache, "with_cloud_id", counted)
    kept.without_id += [{"resourceId": record.id, "name": record.name, "cents": 0}] * 50
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert asked == [record.id]


async def test_of_the_holders_of_an_id_few_of_each_namespace_are_looked_at(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.page, compared = SHARED, list[str]()

    def counted(key: ObjectKey, uid: str, installation: str, name: str) -> bool:
        compared.append(key.namespace)
        return gave(key, uid, installation, name)

    monkeypatch.setattr(owners, "gave", counted)
    record = kept.world.pods.add("by-hand")
    kept.cents[record.id] = 4
    for namespace, number in [("team-b", 0), *(("team-a", number) for number in range(HOLDERS + 2))]:
        kept.records(ObjectKey("GpuPod", namespace, f"train-{number}"), f"uid-{number}", record.id)
    assert await kept.spent() == {("unattributed", "unattributed"): 4}
    assert sorted(compared) == ["team-a"] * HOLDERS + ["team-b"]


@pytest.mark.parametrize(("holders", "turns"), [(1, 3), (498, 3), (499, 4)])
async def test_holders_count_when_others_have_their_turn(kept: Kept, holders: int, turns: int) -> None:
    taken = list[float]()

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    kept.bookkeeper = replace(kept.bookkeeper, engine=replace(kept.bookkeeper.engine, sleep=sleep))
    for number in range(holders):
        kept.records(ObjectKey("GpuPod", NAMESPACE, f"train-{number}"), f"uid-{number}", "pod-1", OWN.account)
    kept.without_id += [{"resourceId": cloud_id, "name": "by-hand", "cents": 0} for cloud_id in ("pod-1", "pod-2")]
    await kept.spent()
    assert len(taken) == turns

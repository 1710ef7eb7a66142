"""One sweep: what is found, what is asked of the cloud about it, and what the cloud does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from relay_client import CloudError, Forbidden, Unauthorized
from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Identity, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftovers import Fate, Leftover
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus
from relay_wire.billing import CurrentUsage
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import MemoryPods, lost
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

    from relay_client import Cloud
    from relay_operator.engine.entry import Entry
    from relay_operator.engine.traces import Traces
    from relay_operator.engine.unclaimed_ids import UnclaimedIds
    from relay_operator.flows.managed.resource import Look
    from relay_wire.vms import VmRecord

KEY = ObjectKey("GpuPod", NAMESPACE, "train")
ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")
ORPHAN = cloud_name(NAMESPACE, "gone", "01234567-89ab", "c0ffe", 1)


class Refused(MemoryPods):
    """A kind whose list the key may not read."""

    error: CloudError = Forbidden("list", "the key lacks a scope")

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        raise self.error


class Revoked(Refused):
    """A kind of an account whose key is refused."""

    error = Unauthorized("list", "the key was revoked")


class Listed(MemoryPods):
    """A kind whose list tells all pods of the world."""

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        return {record.id: record.name for record in self.pods.live}


@dataclass
class Swept:
    """An account's sweeps in a world."""

    world: World
    traces: dict[str, Traces] = field(default_factory=dict)
    memory: SweepMemory = field(default_factory=SweepMemory)
    late: list[str] = field(default_factory=list)
    organizations: dict[ObjectKey, str] = field(default_factory=dict)
    everywhere: bool = True

    def knows(self, kind: str, pods: type[MemoryPods]) -> None:
        """What such a kind can tell of the world's pods."""
        world = self.world
        self.traces[kind] = ManagedTraces(pods(world.pods), GpuPodStatus(), world.cache, world.flow.installation)

    def has(self, account: ObjectKey, **status: JsonValue) -> None:
        """There is such an account."""
        metadata: JsonValue = {"name": account.name, "namespace": account.namespace, "uid": f"of-{account}"}
        self.world.cache.put(account, {"kind": account.kind, "metadata": metadata, "status": status})

    @property
    def ready(self) -> AccountReady:
        assert isinstance(self.world.account.state, AccountReady)
        return self.world.account.state

    async def __call__(self, usage: CurrentUsage | None = None, policy: Orphans = Orphans.REPORT) -> None:
        sweeper = Sweeper(
            self.world.reconciler.engine,
            self.traces,
            everywhere=self.everywhere,
            on_late=self.late.append,
            organization_of=self.organizations.get,
        )
        await sweeper.sweep(self.ready, usage, policy, self.memory, self.world.clock.wall())

    def told(self) -> list[tuple[Fate, str]]:
        return [(one.fate, one.id) for one in self.world.informer.vanished.leftovers.of(ACCOUNT)]


@pytest.fixture
def swept(world: World) -> Swept:
    made = Swept(world)
    made.knows("GpuPod", Listed)
    made.has(ACCOUNT)
    return made


async def test_what_one_kind_may_not_list_keeps_no_other_from_being_found(swept: Swept) -> None:
    swept.traces = {}
    swept.knows("GpuCluster", Refused)
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
    swept.world.account.state = ready = replace(swept.ready)
    ready.unclaimed.add(made.id)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


def used(*resources: VmRecord, hours: float = 1.0) -> CurrentUsage:
    """The month's usage, with as many hours of each."""
    lines = [{"resourceId": one.id, "kind": "pod", "name": one.name, "hours": hours} for one in resources]
    return CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": lines})


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


async def test_what_is_gone_is_told_until_two_looks_in_a_row_say_so(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept()
    swept.world.pods.become(made.id, "terminated")
    swept.world.pods.failures.clear()
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    await swept()
    assert swept.told() == []


async def test_what_is_part_of_something_is_asked_for_there_until_it_is_gone(swept: Swept) -> None:
    asked = list[str]()

    class Parts(Listed):
        async def observe(self, cloud: Cloud, cloud_id: str, last: GpuPodStatus, look: Look) -> VmRecord:
            asked.append(cloud_id)
            return await super().observe(cloud, cloud_id.removeprefix("vm-1/"), last, look)

    swept.knows("GpuPod", Parts)
    made, leftovers = swept.world.pods.add("nightly"), swept.world.informer.vanished.leftovers
    kept = Leftover(
        fate=Fate.KEPT,
        kind="GpuPod",
        account=ACCOUNT,
        organization="org-1",
        id=made.id,
        part_of="vm-1",
        since=BEGINNING,
    )
    leftovers.note(kept)
    await swept()
    assert (swept.told(), asked) == ([(Fate.KEPT, made.id)], [f"vm-1/{made.id}"])
    swept.world.pods.hidden.add(made.id)
    await swept()
    await swept()
    assert swept.told() == []


async def test_what_cannot_be_looked_at_is_not_gone(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    of_another = Leftover(
        fate=Fate.ORPHAN, kind="GpuPod", account=ACCOUNT, organization="org-2", id="pod-7", since=BEGINNING
    )
    made = swept.world.pods.add(ORPHAN)
    await swept()
    leftovers.note(of_another)
    swept.world.pods.random_failure = lambda _call: lost(acted=False)
    for _ in range(3):
        await swept()
    assert sorted(swept.told()) == [(Fate.ORPHAN, made.id), (Fate.ORPHAN, "pod-7")]


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


@pytest.mark.parametrize("now", ["gone", "of another organization"])
async def test_what_an_account_left_is_looked_after_by_another_of_its_organization(swept: Swept, now: str) -> None:
    made = swept.world.pods.add(ORPHAN)
    gone, leftovers = ObjectKey("CloudAccount", "team-b", "default"), swept.world.informer.vanished.leftovers
    if now == "of another organization":
        swept.has(gone)
        swept.organizations[gone] = "org-2"
    for organization, cloud_id in (("org-1", made.id), ("org-2", "pod-7")):
        leftovers.note(
            Leftover(
                fate=Fate.ORPHAN, kind="GpuPod", account=gone, organization=organization, id=cloud_id, since=BEGINNING
            )
        )
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    assert [one.id for one in leftovers.of(gone)] == ["pod-7"]


async def test_what_was_only_known_by_its_name_is_told_once_when_it_is_found(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    told = {"kind": "GpuPod", "account": ACCOUNT, "organization": "org-1", "name": ORPHAN, "since": BEGINNING}
    leftovers.note(Leftover.model_validate({"fate": Fate.ORPHAN, **told}))
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


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


async def late_of(swept: Swept) -> str:
    """The id of what the cloud created too late for the object `train`."""
    swept.world.apply()
    await swept.world.wait(10)
    return swept.world.pods.add(cloud_name(NAMESPACE, "train", swept.world.obj().metadata.uid, "c0ffe", 7)).id


ELSEWHERE = ObjectKey("CloudAccount", "team-b", "default")


def asking(swept: Swept, cloud_id: str, account: ObjectKey, name: str = "asking", **status: JsonValue) -> None:
    """An object that uses this account, and asks to adopt this id."""
    metadata: JsonValue = {
        "name": name,
        "namespace": account.namespace,
        "uid": f"{name}-{cloud_id}",
        "annotations": {"gpurelay.dev/adopt-id": cloud_id},
    }
    swept.world.cache.put(
        ObjectKey("GpuPod", account.namespace, name), {"kind": "GpuPod", "metadata": metadata, "status": status}
    )


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

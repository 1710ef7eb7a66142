"""What is part of another resource of the cloud is asked for in that one, also if the object has another by now."""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from pydantic import Field, JsonValue

from relay_client import Cloud, NotFound
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, CreateIntent, MalformedIntent, ObjectKey
from relay_operator.api.workload import PartStatus
from relay_operator.engine.address import parts_of
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Change, Inputs, Look, SearchResult
from relay_operator.kinds.gpupod import GpuPod, GpuPodStatus, Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods, lost
from tests.unit.flows.managed.leftovers import reach
from tests.unit.flows.managed.world import NAMESPACE, World

AN_HOUR = 3600.0
BOX = ObjectKey("GpuVm", NAMESPACE, "box")


class PartPodStatus(GpuPodStatus, PartStatus):
    """With the id of what it is part of."""


class PartPod(GpuPod):
    """The same."""

    status: PartPodStatus = Field(default_factory=PartPodStatus)


class PartPods(MemoryPods):
    """Pods of a VM, by the name that people gave them; the cloud tells the VM as the organization."""

    model: type[GpuPod] = PartPod
    now: ClassVar[str] = "vm-1"
    """The id of that VM."""

    def whole(self, obj: Pod) -> str:
        return self.now

    def _in(self, address: str) -> str:
        vm_id, pod_id = parts_of(address)
        if pod_id in self.pods.records and self.pods.records[pod_id].organization_id != vm_id:
            raise NotFound("get_vm", "it is in another VM", status=404)
        return pod_id

    async def observe(self, cloud: Cloud, cloud_id: str, last: GpuPodStatus, look: Look) -> VmRecord:
        return await super().observe(cloud, self._in(cloud_id), last, look)

    async def existing(self, cloud: Cloud, obj: Pod) -> VmRecord | None:
        assert isinstance(obj.status, PartPodStatus)
        self.pods.end("existing", self.pods.begin("existing"))
        return next((one for one in self.pods.live if one.organization_id == obj.status.part_of), None)

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        raise AssertionError("the name of an attempt finds nothing")

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        failure = self.pods.begin_change("create", cloud)
        fields = {"organizationId": intent.part_of, "imageUrl": obj.spec.image, "gpuCount": 1, "public": False}
        record = self.pods.add("nightly", fields=fields)
        self.pods.end("create", failure)
        return record

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await super().delete(cloud, self._in(cloud_id))


@pytest.fixture
def parts(world: World) -> Iterator[World]:
    world.kind = PartPods
    world.assemble()
    yield world
    PartPods.now = "vm-1"


def part_of(world: World) -> object:
    return part(world.raw(), "status").get("partOf")


def sent_to(world: World) -> str:
    return world.readable_intent().part_of


def left(world: World) -> list[Leftover]:
    return list(world.informer.vanished.leftovers.of(world.account.ready.key))


async def test_it_is_made_where_the_object_says_and_found_and_ended_there(parts: World) -> None:
    parts.apply()
    await parts.wait(10)
    status = parts.status()
    assert (parts.reason(), status.id, status.cloud_name) == ("Running", "pod-1", "nightly")
    assert (part_of(parts), sent_to(parts)) == ("vm-1", "vm-1")
    assert parts.pods.count("existing") == 1  # its answer is believed, though the name is not the attempt's
    PartPods.now = "vm-2"  # another VM has the name by now
    await parts.restart()
    await parts.wait(400)
    assert (parts.reason(), part_of(parts)) == ("Running", "vm-1")
    parts.annotate(create_intent=None)
    await parts.wait(400)
    assert sent_to(parts) == "vm-1"
    parts.delete()
    await parts.wait(60)
    assert (parts.exists(), parts.pods.live, parts.pods.count("delete")) == (False, [], 1)


class MadeOfBox(PartPods):
    """Pods that refer to the VM which they are made of."""

    def references(self, obj: Pod) -> tuple[ObjectKey, ...]:
        return () if obj.status.id else (BOX,)

    def giving(self, obj: Pod, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        return ()


def box(world: World, cloud_id: str, version: int) -> None:
    """The VM as the watch tells of it, Ready."""
    conditions: JsonValue = [{"type": "Ready", "status": "True", "reason": "Running"}]
    status: Json = {"id": cloud_id, "observedGeneration": 1, "conditions": conditions}
    metadata: Json = {"name": BOX.name, "namespace": NAMESPACE, "uid": "box", "resourceVersion": str(version)}
    world.cache.put(BOX, {"metadata": metadata | {"generation": 1}, "spec": {}, "status": status})


async def test_it_holds_what_it_is_made_of_only_as_long_as_its_status_says_so(world: World) -> None:
    world.kind = MadeOfBox
    world.assemble()
    box(world, "vm-1", 1)
    world.apply()
    await world.wait(10)
    assert (world.reason(), world.status().references) == ("Running", None)


async def test_it_is_not_ended_while_there_is_nothing_to_make_another_of(parts: World) -> None:
    parts.kind = MadeOfBox
    parts.assemble()
    account: Json = {"name": "default", "namespace": NAMESPACE, "finalizers": [FINALIZER]}
    parts.cache.put(parts.account.ready.key, {"metadata": account})
    box(parts, "vm-1", 1)
    parts.apply(updateStrategy={"type": "Recreate"})
    await parts.wait(10)
    parts.cache.drop(BOX)
    parts.change(image="another")
    await parts.wait(60)
    assert (parts.reason(), parts.pods.count("delete")) == ("ReferenceNotFound", 0)
    PartPods.now = "vm-2"
    box(parts, "vm-2", 2)
    await parts.wait(60)
    assert (parts.reason(), part_of(parts), parts.pods.count("create")) == ("Running", "vm-2", 2)


async def test_nothing_is_sent_to_what_it_was_part_of_a_moment_ago(parts: World) -> None:
    parts.kind = MadeOfBox
    parts.assemble()
    box(parts, "vm-1", 1)

    def another(call: str) -> None:
        if call == "existing" and MadeOfBox.now == "vm-1":
            MadeOfBox.now = "vm-2"
            box(parts, "vm-2", 2)

    parts.pods.on_call = another
    parts.apply()
    await parts.one_pass()
    assert (parts.reason(), parts.pods.count("create")) == ("ReferenceNotReady", 0)
    await parts.wait(30)
    assert (parts.reason(), part_of(parts), parts.pods.count("create")) == ("Running", "vm-2", 1)
    del MadeOfBox.now


async def test_until_something_is_sent_it_follows_what_the_object_refers_to(parts: World) -> None:
    parts.account.deaf_until = 100.0
    parts.apply()
    await parts.settle()
    assert part_of(parts) == "vm-1"
    PartPods.now = ""
    await parts.wait(150)
    assert part_of(parts) is None


@pytest.mark.parametrize("acted", [True, False])
async def test_an_answer_that_was_lost_is_searched_for_where_it_was_sent(parts: World, acted: bool) -> None:
    parts.pods.fail("create", lost(acted=acted))
    parts.apply()
    await parts.one_pass()
    PartPods.now = "vm-2"
    await parts.restart()
    await parts.wait(AN_HOUR, step=30)
    assert parts.reason() == "Running"
    assert [one.organization_id for one in parts.pods.live] == [part_of(parts)] == ["vm-1" if acted else "vm-2"]
    assert parts.pods.count("create") == (1 if acted else 2)


async def test_what_exists_is_adopted_by_its_own_id(parts: World) -> None:
    fields = {"imageUrl": "pytorch/pytorch", "public": False}
    there = parts.pods.add("nightly", fields=fields | {"organizationId": "vm-1"})
    elsewhere = parts.pods.add("nightly", fields=fields | {"organizationId": "vm-2"})
    parts.apply(annotations={"gpurelay.dev/adopt-id": elsewhere.id})
    await parts.wait(10)
    assert parts.reason() == "AdoptionRefused"
    parts.annotate(adopt_id=there.id)
    await parts.wait(10)
    assert (parts.reason(), parts.status().id, part_of(parts)) == ("Running", there.id, "vm-1")


async def test_an_intent_finds_nothing_elsewhere_through_a_shared_account(parts: World) -> None:
    """People may write annotations: what is in somebody else's VM is none of theirs."""
    parts.account.share()
    theirs = parts.pods.add("nightly", fields={"organizationId": "vm-9"})
    parts.pods.fail("create", lost(acted=False))
    parts.apply()
    await parts.one_pass()
    forged = parts.readable_intent().model_copy(update={"part_of": "vm-9"})
    parts.annotate(**{CREATE_INTENT.partition("/")[2]: forged.to_annotation()})
    await parts.restart()
    await parts.wait(AN_HOUR, step=30)
    told = parts.condition(ConditionType.STALLED)
    assert told is not None
    assert (told.reason, "sent to 'vm-9'" in told.message) == ("AdoptionRefused", True)
    parts.delete()
    await parts.wait(10)
    assert (parts.exists(), parts.pods.live) == (False, [theirs])
    assert [(one.fate, one.part_of) for one in left(parts)] == [(Fate.ORPHAN, "vm-9")]


async def test_a_shared_account_finds_what_it_was_sent_for(parts: World) -> None:
    parts.account.share()
    parts.pods.fail("create", lost(acted=True))
    parts.apply()
    await parts.wait(30)
    assert (parts.reason(), parts.pods.count("create")) == ("Running", 1)


async def test_what_stays_is_known_by_its_id_and_not_by_a_name_that_others_have(parts: World) -> None:
    parts.apply(deletionPolicy="Orphan")
    await parts.wait(10)
    parts.delete()
    await parts.wait(10)
    (kept,) = left(parts)
    assert (kept.fate, kept.address, kept.name) == (Fate.KEPT, "vm-1/pod-1", "nightly")
    leftovers = parts.informer.vanished.leftovers
    assert leftovers.kept(reach("org-1"), "pod-1", "nightly")
    assert not leftovers.kept(reach("org-1"), "pod-2", "nightly")


async def test_what_is_forced_away_is_told_with_what_it_is_part_of(parts: World) -> None:
    parts.apply()
    await parts.wait(10)
    parts.delete(force=True)
    await parts.settle()
    assert [(one.fate, one.address) for one in left(parts)] == [(Fate.ORPHAN, "vm-1/pod-1")]


class OfItsImage(PartPods):
    """Pods whose spec has to be read to tell what they are part of."""

    def whole(self, obj: Pod) -> str:
        return f"vm-{len(obj.spec.image)}"


@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
async def test_one_whose_spec_cannot_be_read_is_ended_where_it_is(parts: World, created: bool, is_shared: bool) -> None:
    parts.kind = OfItsImage
    parts.assemble()
    if is_shared:
        parts.account.share()
    parts.pods.fail("create", lost(acted=created))
    parts.apply()
    await parts.one_pass()
    parts.server.edit("gpupods", NAMESPACE, "train", {"spec": {"image": 7}})
    parts.delete()
    await parts.wait(AN_HOUR, step=30)
    assert not parts.exists()
    assert bool(parts.pods.live) == (is_shared and created)


@pytest.mark.parametrize("odd", ["..", "vm-1/", "/vm-1", "vm-1//x", "vm-1/../x", "../../orgs", "a b", "x" * 254])
def test_an_intent_that_names_no_id_cannot_be_read(odd: str) -> None:
    text = '{"token":"t","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z","partOf":%s}'
    assert isinstance(CreateIntent.parse(text % json.dumps(odd)), MalformedIntent)
    for one in ('"vm-1"', '"meta-llama/Llama-3"'):
        assert isinstance(CreateIntent.parse(text % one), CreateIntent)

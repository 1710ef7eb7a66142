"""What an object is given of others: it waits for them, wakes with them, and they do not go before it does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, ObjectKey
from relay_operator.api.references import HeldReference
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.queue import Priority
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Change, Inputs
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus, Pod
from relay_wire.vms import VmRecord
from tests.support.turns import others
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import MemoryPods, lost
from tests.unit.flows.managed.references import ADA, BOB, given, put
from tests.unit.flows.managed.world import NAMESPACE, World

UID = "01234567-89ab-4cde-8f01-23456789abcd"
KEY = ObjectKey("GpuPod", NAMESPACE, "train")


class ReferringPods(MemoryPods):
    """Pods that are given the SshKeys which `sshKeys` names; one that has the word `bad` is not to be used."""

    def immutable(self, obj: Pod) -> Mapping[str, JsonValue]:
        return {name: value for name, value in super().immutable(obj).items() if not name.startswith("ssh")}

    def references(self, obj: Pod) -> tuple[ObjectKey, ...]:
        return tuple(ObjectKey("SshKey", NAMESPACE, name) for name in obj.spec.ssh_keys or ())

    def giving(self, obj: Pod, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        has = {each.id for each in obj.status.references or ()}
        return tuple(self._gift(key, ids[key]) for key in ids if ids[key] not in has)

    def _gift(self, key: ObjectKey, key_id: str) -> Change:
        async def send(cloud: Cloud) -> None:
            self.pods.end("attach", self.pods.begin_change("attach", cloud))

        gives = HeldReference(kind=key.kind, name=key.name, id=key_id)
        return Change("attach", Reason.UPDATING, send, to=key.name, gives=gives)

    def unusable(self, obj: Pod, inputs: Inputs) -> str | None:
        return "env: BAD cannot be used" if "BAD" in inputs.env else None


@pytest.fixture
def referring(world: World) -> World:
    world.kind = ReferringPods
    world.assemble()

    def related(key: ObjectKey) -> None:
        if key.kind == "GpuPod":
            world.queue.add(key, Priority.CHANGE)

    world.cache.on_related = related
    account: Json = {
        "name": "default",
        "namespace": NAMESPACE,
        "uid": "account",
        "resourceVersion": "1",
        "finalizers": [FINALIZER],
    }
    world.cache.put(ObjectKey("CloudAccount", NAMESPACE, "default"), {"metadata": account})
    return world


def refers(*names: str) -> dict[str, Any]:
    return {"sshKeys": list(names), "sshKeyRefs": [{"name": name} for name in names]}


async def test_it_waits_until_all_are_there_and_is_made_with_their_ids(referring: World) -> None:
    referring.apply(**refers("ada", "bob"))
    await referring.wait(1)
    assert referring.reason() == "ReferenceNotFound"
    condition = referring.condition()
    assert condition is not None
    assert condition.message == "there is no SshKey ada in the namespace team-a"
    put(referring, ADA, 10)
    await referring.settle()
    put(referring, BOB, 11, "", status={"conditions": []})
    await referring.settle()
    assert (referring.reason(), referring.pods.created) == ("ReferenceNotReady", [])
    put(referring, BOB, 12, "ssh-2")
    await referring.settle()
    assert referring.reason() == "Running"
    assert referring.pods.sent[0][1].ids == {ADA: "ssh-1", BOB: "ssh-2"}
    assert given(referring) == {"ada": "ssh-1", "bob": "ssh-2"}
    assert referring.pods.count("attach") == 0


async def test_it_is_made_with_what_is_ready_and_has_a_schedule(referring: World) -> None:
    put(referring, ADA, 10, status={"conditions": []})
    referring.apply(**refers("ada"))
    await referring.wait(1)
    assert referring.reason() == "ReferenceNotReady"
    put(referring, ADA, 11, status={"nextScheduleTime": "2026-03-02T12:00:00Z"})
    await referring.settle()
    assert (referring.reason(), given(referring)) == ("Running", {"ada": "ssh-1"})


@pytest.mark.parametrize(
    ("changes", "reason", "stalled"),
    [
        ({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, "ReferenceDeleting", False),
        ({"status": {"account": {"kind": "CloudAccount", "name": "other"}}}, "ReferenceOtherAccount", True),
    ],
)
async def test_nothing_is_made_with_what_goes_or_is_of_another_account(
    referring: World, changes: dict[str, Any], reason: str, stalled: bool
) -> None:
    put(referring, ADA, 10, **changes)
    referring.apply(**refers("ada"))
    await referring.wait(1)
    assert (referring.reason(), referring.pods.created) == (reason, [])
    assert any(one.type == "Stalled" for one in referring.status().conditions) is stalled


async def test_what_is_added_is_given_in_place_once_it_is_there(referring: World) -> None:
    put(referring, ADA, 10)
    referring.apply(**refers("ada"))
    await referring.settle()
    referring.change(**refers("ada", "bob"))
    await referring.wait(1)
    assert referring.reason() == "ReferenceNotFound"
    assert referring.pods.count("attach") == 0
    put(referring, BOB, 11, "ssh-2")
    await referring.wait(10)
    assert referring.reason() == "Running"
    assert given(referring) == {"ada": "ssh-1", "bob": "ssh-2"}
    assert referring.pods.count("attach") == 1
    put(referring, ADA, 12, "ssh-3")  # made anew
    await referring.wait(10)
    assert given(referring) == {"ada": "ssh-3", "bob": "ssh-2"}
    assert (referring.pods.count("attach"), referring.pods.created) == (2, referring.pods.created[:1])


async def test_what_it_has_been_given_may_be_unwell_or_gone(referring: World) -> None:
    put(referring, ADA, 10)
    key = referring.apply(**refers("ada"))
    await referring.settle()
    put(referring, ADA, 11, status={"conditions": []})
    referring.cache.drop(ADA)
    referring.queue.add(key, Priority.CHANGE)
    await referring.settle()
    assert referring.reason() == "Running"


async def test_what_others_were_given_stays_until_they_let_go(referring: World) -> None:
    key = referring.apply()
    await referring.settle()
    rows: JsonValue = [{"kind": "GpuPod", "name": "train", "id": "pod-1"}]
    users = [ObjectKey("GpuVm", NAMESPACE, f"box-{number}") for number in range(4)]
    for number, user in enumerate(users):
        put(referring, user, 10 + number, status={"references": rows})
    referring.delete()
    await referring.wait(1)
    condition = referring.condition()
    assert condition is not None
    assert condition.reason == "InUse"
    assert condition.message.startswith("in use by GpuVm box-0, GpuVm box-1, GpuVm box-2 and 1 more: delete")
    assert referring.pods.count("delete") == 0
    for user in users[:3]:
        referring.cache.drop(user)
    await referring.settle()
    assert referring.reason() == "InUse"
    put(referring, users[3], 20)
    await referring.wait(10)
    assert not referring.exists()
    assert referring.cache.holders(key) == frozenset()


async def test_who_was_let_go_of_holds_it_no_longer_though_others_keep_that_object(referring: World) -> None:
    referring.apply()
    await referring.settle()
    user = ObjectKey("GpuVm", NAMESPACE, "box")
    given: Json = {"references": [{"kind": "GpuPod", "name": "train", "id": "pod-1"}]}
    going: Json = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": [FINALIZER, "example.com/theirs"]}
    put(referring, user, 10, metadata=going, status=given)
    referring.delete()
    await referring.wait(1)
    assert referring.reason() == "InUse"
    put(referring, user, 11, metadata=going | {"finalizers": ["example.com/theirs"]}, status=given)
    await referring.wait(10)
    assert not referring.exists()


async def test_who_only_names_it_does_not_hold_it_and_a_create_under_way_does(referring: World) -> None:
    put(referring, ADA, 10)
    naming: Json = {"sshKeyRefs": [{"name": "ada"}, {"no": "name"}, "odd"]}
    user = ObjectKey("GpuVm", NAMESPACE, "box")
    put(referring, user, 11, "", spec=naming)
    assert referring.cache.holders(ADA) == frozenset()
    intent = '{"token":"t1","name":"n","attempt":1,"spec_hash":"","started_at":"2026-03-01T12:00:00Z"}'
    put(referring, user, 12, "", spec=naming, metadata={"annotations": {CREATE_INTENT: intent}})
    assert referring.cache.holders(ADA) == {user}
    put(referring, user, 13, "vm-1", spec=naming, status={"references": "odd"})
    assert referring.cache.holders(ADA) == frozenset()
    put(referring, user, 14, "vm-1", status={"references": [{"kind": 1, "name": "ada"}]})
    assert referring.cache.holders(ADA) == frozenset()
    assert referring.cache.cloud_id_of(BOB) == ""


async def test_a_start_wakes_only_who_is_not_settled(referring: World) -> None:
    told = list[ObjectKey]()
    referring.cache.on_related = told.append
    settled, waiting = (ObjectKey("GpuVm", NAMESPACE, name) for name in ("settled", "waiting"))
    naming: Json = {"sshKeyRefs": [{"name": "ada"}]}
    put(referring, settled, 10, spec=naming)
    put(referring, waiting, 11, "", spec=naming, status={"conditions": []})
    put(referring, ADA, 12)
    assert told == [waiting]
    put(referring, ADA, 13, "ssh-9")
    assert set(told[1:]) == {waiting, settled}


async def test_what_was_read_and_cannot_be_used_is_told_before_anything_is_sent(referring: World) -> None:
    referring.apply(env=[{"name": "BAD", "value": "1"}])
    await referring.wait(1)
    condition = referring.condition()
    assert condition is not None
    assert (condition.reason, condition.message) == ("EnvMissing", "env: BAD cannot be used")
    assert referring.pods.created == []


async def test_what_was_adopted_is_given_all_that_the_spec_names(referring: World) -> None:
    record = referring.pods.add("by-hand", fields={"imageUrl": "pytorch/pytorch", "public": False})
    referring.account.state = replace(referring.account.ready, adoption_allowed=True)
    put(referring, ADA, 10)
    referring.apply(**refers("ada"), annotations={"gpurelay.dev/adopt-id": record.id})
    await referring.wait(10)
    assert (referring.reason(), given(referring)) == ("Running", {"ada": "ssh-1"})
    assert referring.pods.count("attach") == 1


class BornWith(ReferringPods):
    """Pods that are given their SshKeys only when they are made."""

    def immutable(self, obj: Pod) -> Mapping[str, JsonValue]:
        return MemoryPods.immutable(self, obj)

    def giving(self, obj: Pod, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        return ()


@pytest.fixture
def bearing(referring: World) -> World:
    referring.kind = BornWith
    referring.assemble()
    account: Json = {
        "name": "default",
        "namespace": NAMESPACE,
        "uid": "account",
        "resourceVersion": "1",
        "finalizers": [FINALIZER],
    }
    referring.cache.put(ObjectKey("CloudAccount", NAMESPACE, "default"), {"metadata": account})
    put(referring, ADA, 10)
    return referring


async def test_what_exists_is_not_ended_for_one_that_could_not_be_given_what_it_has(bearing: World) -> None:
    bearing.apply(**refers("ada"), updateStrategy={"type": "Recreate"})
    await bearing.wait(5)
    put(bearing, ADA, 11, metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"})  # waits, since it is in use
    bearing.change(image="another")
    await bearing.wait(60)
    assert (bearing.reason(), bearing.pods.count("delete")) == ("ReferenceDeleting", 0)
    put(bearing, ADA, 12)
    await bearing.wait(60)
    assert (bearing.reason(), bearing.pods.count("create"), len(bearing.pods.live)) == ("Running", 2, 1)


@pytest.fixture
async def unheard(bearing: World) -> World:
    """The pod was made with ada, the answer is lost, and lists do not show it so far."""
    bearing.pods.misses = lambda _name: True
    bearing.pods.fail("create", lost(acted=True))
    bearing.apply(**refers("ada"))
    await bearing.wait(5)
    assert (bearing.reason(), set(bearing.cache.holders(ADA))) == ("Searching", {KEY})
    return bearing


async def test_what_was_found_after_its_lost_create_holds_what_it_was_made_with(unheard: World) -> None:
    put(unheard, ADA, 11, metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"})  # waits, since it is in use
    unheard.pods.misses = lambda _name: False
    await unheard.wait(30)
    assert (unheard.reason(), given(unheard), set(unheard.cache.holders(ADA))) == ("Running", {"ada": "ssh-1"}, {KEY})


@pytest.mark.parametrize("change", [{"image": "another"}, {"sshKeys": ["bob"]}])
async def test_what_it_was_made_with_is_unknown_if_the_spec_has_changed_since(unheard: World, change: Json) -> None:
    put(unheard, BOB, 12, "ssh-2")
    unheard.change("train", **change)
    unheard.pods.misses = lambda _name: False
    await unheard.wait(30)
    assert (unheard.status().id, given(unheard)) == ("pod-1", {})


async def test_what_can_be_given_in_place_is_given_again_after_a_lost_create(referring: World) -> None:
    put(referring, ADA, 10)
    referring.pods.fail("create", lost(acted=True))
    referring.apply(**refers("ada"))
    await referring.wait(30)
    assert (referring.reason(), given(referring), referring.pods.count("attach")) == ("Running", {"ada": "ssh-1"}, 1)


async def test_what_an_object_of_another_kind_named_is_none_of_ours(referring: World) -> None:
    class Listed(MemoryPods):
        async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
            return {"vm-1": cloud_name(NAMESPACE, "box", UID, "c0ffe", 1), "pod-1": "by-hand"}

    put(referring, ObjectKey("GpuVm", NAMESPACE, "box"), 10, metadata={"uid": UID})
    traces = ManagedTraces(Listed(referring.pods), GpuPodStatus(), referring.cache, Installation("c0ffe"))
    assert await traces.living(referring.account.ready.cloud, UnclaimedIds()) == {"pod-1": "by-hand"}


async def test_others_have_their_turn_while_the_names_of_a_long_list_are_looked_into(world: World) -> None:
    class Listed(MemoryPods):
        async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
            return {f"pod-{number}": "by-hand" for number in range(1_500)}

    traces = ManagedTraces(Listed(world.pods), GpuPodStatus(), world.cache, Installation("c0ffe"))
    with others() as beside:
        found = await traces.living(world.account.ready.cloud, UnclaimedIds())
    assert (len(found), beside.turns) == (1_500, 3)

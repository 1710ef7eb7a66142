"""What comes to the cloud by another way is adopted by the id that the spec names, and never created or ended."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.flows.managed.resource import Change, Progress
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import World


class FoundPods(MemoryPods):
    """Pods that people name by `image`, and want gone where they are `public`."""

    def given_id(self, obj: Pod) -> str:
        return obj.spec.image

    def end_asked(self, obj: Pod) -> bool:
        return obj.spec.public

    def changes(self, obj: Pod, observed: VmRecord, *, running: bool) -> tuple[Change, ...]:
        async def send(cloud: Cloud) -> None:
            failure = self.pods.begin_change("remove", cloud)
            self.pods.become(observed.id, "terminated")
            self.pods.end("remove", failure)

        ended = self.progress(observed) is Progress.GONE
        return (Change("remove", Reason.UPDATING, send),) if obj.spec.public and not ended else ()

    def immutable(self, obj: Pod) -> Mapping[str, JsonValue]:
        return {"image": obj.spec.image}

    def differences(self, obj: Pod, observed: VmRecord) -> tuple[str, ...]:
        return ()

    def progress(self, observed: VmRecord) -> Progress:
        return Progress.OFFLINE if observed.status == "silent" else super().progress(observed)


@pytest.fixture
def found(world: World) -> World:
    world.kind = FoundPods
    world.assemble()
    world.pods.add("pod-1")
    return world


def node(world: World, name: str = "train", **spec: JsonValue) -> None:
    world.apply(name, **({"image": "pod-1", "deletionPolicy": "Orphan"} | spec))


def told(world: World, name: str = "train") -> str:
    """What Ready says."""
    ready = world.condition(name=name)
    assert ready is not None
    return f"{ready.status} {ready.reason}: {ready.message}"


def changed(world: World) -> list[str]:
    return [call for call in world.pods.calls if call not in {"observe", "find"}]


async def test_what_the_spec_names_is_adopted_and_left_as_it_is(found: World) -> None:
    node(found, annotations={"gpurelay.dev/adopt-id": "pod-9"})
    await found.wait(10)
    assert (found.status().id, found.status().cloud_name, found.reason()) == ("pod-1", "pod-1", "Running")
    found.delete()
    await found.wait(10)
    assert (found.exists(), changed(found), [each.id for each in found.pods.live]) == (False, [], ["pod-1"])


async def test_what_is_not_there_is_not_created_and_is_adopted_once_it_is(found: World) -> None:
    node(found, image="pod-2")
    await found.wait(10)
    assert told(found) == "False AdoptionRefused: the cloud does not find pod-2"
    assert found.intent() is None
    found.pods.add("pod-2")
    await found.wait(400)
    assert (found.status().id, found.reason(), changed(found)) == ("pod-2", "Running", [])


async def test_one_object_has_it_and_another_is_told_which(found: World) -> None:
    node(found)
    await found.wait(10)
    node(found, "later")
    await found.wait(10)
    assert told(found, "later") == "False AdoptionRefused: the resource pod-1 belongs to GpuPod/team-a/train"
    found.delete("later")
    await found.wait(10)
    assert (found.exists("later"), found.reason(), changed(found)) == (False, "Running", [])


async def test_a_shared_account_takes_nothing_over(found: World) -> None:
    found.account.share()
    node(found)
    await found.wait(10)
    assert told(found) == "False AdoptionRefused: the account is shared, and its spec.allowAdoption is not true"
    assert changed(found) == []


async def test_an_end_that_people_ask_for_is_what_they_asked_for(found: World) -> None:
    node(found)
    await found.wait(10)
    found.change(public=True)
    await found.wait(60)
    assert told(found).startswith("True Removed: the cloud says terminated")
    assert found.condition(ConditionType.STALLED) is None
    assert (found.status().state, changed(found)) == ("terminated", ["remove"])
    found.delete()
    await found.wait(10)
    assert (found.exists(), changed(found)) == (False, ["remove"])


@pytest.mark.parametrize("forgotten", [True, False], ids=["not found any more", "shown as ended"])
async def test_what_ended_before_is_as_asked_and_else_somebody_elses_doing(found: World, *, forgotten: bool) -> None:
    node(found)
    await found.wait(60)
    found.pods.become("pod-1", "terminated")
    found.pods.hidden |= {"pod-1"} if forgotten else set()
    await found.wait(400)
    says = "the cloud does not find pod-1 any more" if forgotten else "the cloud says terminated"
    assert told(found) == (
        f"False TerminatedExternally: {says}; the operator cannot create this kind: delete this object, and "
        "create one that names an existing resource"
    )
    found.change(public=True)
    await found.wait(60)
    assert (told(found), changed(found)) == (f"True Removed: {says}", [])


async def test_what_had_ended_before_it_was_named(found: World) -> None:
    found.pods.become("pod-1", "terminated")
    node(found)
    await found.wait(10)
    assert told(found) == "False AdoptionRefused: the resource pod-1 is terminated"
    found.change(public=True)
    await found.wait(60)
    assert (found.reason(), changed(found)) == ("Removed", [])


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_process_that_dies_while_it_adopts_is_followed_by_one_that_goes_on(
    found: World, *, deleted: bool
) -> None:
    node(found)
    found.server.faults.append(Fault(500, method="PATCH", plural="gpupods", status_write=True, times=1000))
    await found.wait(3)
    assert (found.intent() is not None, found.status().id) == (True, None)
    found.server.faults.clear()
    if deleted:
        found.delete()
    await found.restart()
    await found.wait(60)
    assert (found.exists(), changed(found), len(found.pods.live)) == (not deleted, [], 1)


@pytest.mark.parametrize("recorded", [True, False])
async def test_an_object_that_is_gone_at_once_takes_nothing_along(found: World, *, recorded: bool) -> None:
    node(found)
    if not recorded:
        found.server.faults.append(Fault(500, method="PATCH", plural="gpupods", status_write=True, times=3))
    await found.wait(2)
    found.vanish()
    await found.wait(700, step=10)
    assert (found.exists(), changed(found), len(found.pods.live)) == (False, [], 1)


async def test_a_status_that_is_never_taken_ends_nothing(found: World) -> None:
    node(found)
    found.server.faults.append(Fault(500, method="PATCH", plural="gpupods", status_write=True, times=1000))
    await found.wait(3)
    assert found.intent() is not None
    found.server.faults.clear()
    found.server.faults.append(Fault(422, method="PATCH", plural="gpupods", status_write=True, times=1000))
    await found.restart()
    await found.wait(700, step=10)
    assert (changed(found), len(found.pods.live)) == ([], 1)
    found.server.faults.clear()
    await found.wait(400)
    assert (found.status().id, found.reason(), changed(found)) == ("pod-1", "Running", [])


async def test_one_that_does_not_report_is_waited_for(found: World) -> None:
    node(found)
    await found.wait(10)
    found.pods.become("pod-1", "silent")
    await found.wait(400)
    assert told(found) == "False Offline: the cloud says silent"
    assert found.condition(ConditionType.RECONCILING) is not None
    found.pods.become("pod-1", "running")
    await found.wait(400)
    assert (found.reason(), changed(found)) == ("Running", [])

"""The id of what was just paid for reaches status through conflicts and outages, or the resource is ended."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from pydantic import JsonValue

from relay_client import NotFound
from relay_operator.api import meta
from relay_operator.engine.actions import Nothing
from relay_operator.engine.persist import PaidFor
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Told
from relay_operator.engine.workers import Workers
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.kinds.gpupod import GpuPodSpec, GpuPodStatus
from relay_wire.vms import VmRecord
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.unit.engine.apiserver import Call, Fault, Json, status_fault
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World, at_the_status_write


@pytest.mark.parametrize("status", [0, 409, 429, 500, 503])
async def test_the_id_is_written_again_until_it_lands(world: World, status: int) -> None:
    world.server.faults.append(status_fault(status, times=6))
    world.apply()
    await world.wait(10)
    assert world.status().id == "pod-1"
    assert world.pods.count("create") == 1


async def test_an_outage_keeps_no_worker_and_the_id_is_remembered_meanwhile(world: World) -> None:
    world.server.faults.append(status_fault(500, times=100_000))
    world.apply()
    await world.one_pass()
    assert world.clock.seconds < 3
    await world.wait(1200, step=10)
    assert (world.status().id, world.pods.count("create")) == (None, 1)
    world.server.faults.clear()
    await world.wait(60)
    assert (world.status().id, world.pods.count("create"), world.pods.count("find")) == ("pod-1", 1, 0)


@pytest.mark.parametrize("go", ["it is forced away", "a namesake takes its place"])
async def test_an_id_that_is_remembered_outlives_its_object(world: World, go: str) -> None:
    world.pods.listable = False
    world.server.faults.append(status_fault(500, times=9))
    world.apply()
    await world.one_pass()
    world.delete(force=True)
    if go == "a namesake takes its place":
        world.apply()
    await world.wait(60)
    assert world.pods.records["pod-1"].status == "terminated"
    assert world.left_behind() == []
    assert [record.id for record in world.pods.live] == ([] if go == "it is forced away" else ["pod-2"])


async def test_what_is_remembered_is_written_before_the_process_ends(world: World) -> None:
    world.server.faults.append(status_fault(500, times=9))
    world.apply()
    await world.one_pass()
    assert world.status().id is None
    await world.reconciler.persist()
    assert world.status().id == "pod-1"


async def test_what_a_pass_is_to_record_is_left_to_it_when_the_process_ends(world: World) -> None:
    world.server.faults.append(status_fault(500, times=9))
    key = world.apply()
    await world.one_pass()
    world.server.faults.clear()
    world.queue.add(key, Priority.CHANGE)
    assert (await world.queue.take()).key == key
    later, recording = world.clock.seconds + 10, asyncio.create_task(world.reconciler.persist())

    async def waited() -> bool:
        return world.clock.seconds >= later or recording.done()

    await eventually(waited, bool, every=0.01)
    assert (world.status().id, recording.done()) == (None, False)
    world.queue.done(key)
    await recording
    assert world.status().id == "pod-1"


async def test_what_is_remembered_is_written_by_a_process_that_lost_its_lease(world: World) -> None:
    world.server.faults.append(status_fault(500, times=9))
    key = world.apply()
    await world.one_pass()
    world.server.faults.clear()
    world.queue.add(key, Priority.RETRY)
    workers = Workers(world.queue, {"GpuPod": world.reconciler}, 1, lambda: False)
    await asyncio.wait_for(workers.run(), PATIENCE_SECONDS)
    assert world.status().id is None
    await workers.drain(PATIENCE_SECONDS)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_what_cannot_be_recorded_is_ended_and_made_again_only_later(world: World, status: int) -> None:
    world.pods.listable = False
    world.server.faults.append(status_fault(status))
    world.apply()
    await world.settle()
    assert (world.pods.count("create"), world.pods.live) == (1, [])
    assert (world.status().id, world.reason(), world.status().failures) == (None, "SpecInvalid", 1)
    await world.wait(200)
    assert world.pods.count("create") == 1
    await world.wait(200)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_nothing_is_made_while_no_status_is_taken(world: World) -> None:
    world.pods.listable = False
    world.server.faults.append(status_fault(422, times=100_000))
    world.apply()
    await world.wait(3600, step=10)
    assert (world.pods.count("create"), world.pods.live, world.clock.seconds) == (1, [], 3600)
    world.server.faults.clear()
    await world.wait(600)
    assert [record.id for record in world.pods.live] == [world.status().id]


async def test_what_cannot_be_recorded_is_ended_before_another_is_made(world: World) -> None:
    world.pods.fail("delete", *[lost(acted=False)] * 1000)
    world.server.faults.append(status_fault(422))
    world.apply()
    await world.wait(2000, step=10)
    assert (world.pods.count("create"), len(world.pods.live)) == (1, 1)
    world.pods.failures.clear()
    await world.wait(600)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_the_next_process_too_ends_what_cannot_be_recorded_before_another_is_made(world: World) -> None:
    world.pods.fail("delete", *[lost(acted=False)] * 1000)
    world.server.faults.append(status_fault(422))
    world.apply()
    await world.settle()
    await world.restart()
    await world.wait(2000, step=10)
    assert (world.pods.count("create"), len(world.pods.live)) == (1, 1)
    world.pods.failures.clear()
    await world.wait(600)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_a_former_leader_keeps_the_intent_of_what_cannot_be_recorded_open(world: World) -> None:
    at_the_status_write(world, lambda: setattr(world, "leading", False))
    world.server.faults.append(status_fault(422))
    world.apply()
    await world.one_pass()
    assert (world.status().create_token, world.reason(), len(world.left_behind())) == (None, "CreateOutcomeUnknown", 1)
    world.leading = True
    await world.restart()
    await world.wait(1200, step=10)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_a_right_that_is_lacking_ends_nothing(world: World) -> None:
    world.server.faults.append(status_fault(403, times=30))
    world.apply()
    await world.wait(900)
    assert (world.pods.count("create"), world.pods.count("delete"), world.status().id) == (1, 0, "pod-1")


async def test_nothing_is_made_for_an_object_whose_status_might_not_fit(world: World) -> None:
    world.apply(annotations={f"example.com/{number}": "x" * 60_000 for number in range(10)})
    await world.wait(60)
    assert (world.reason(), world.pods.count("create")) == ("ObjectTooLarge", 0)
    assert f"{meta.GROUP}/cloud-resource" not in world.obj().metadata.finalizers
    world.server.edit(
        "gpupods", NAMESPACE, "train", {"metadata": {"annotations": {f"example.com/{n}": None for n in range(10)}}}
    )
    await world.wait(60)
    assert (world.reason(), world.pods.count("create")) == ("Running", 1)


async def test_an_object_that_grew_later_can_be_deleted(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"annotations": {"example.com/a": "x" * 600_000}}})
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_what_was_made_for_an_object_that_vanished_is_ended(world: World) -> None:
    at_the_status_write(world, lambda: world.delete(force=True))
    world.apply()
    await world.settle()
    assert (len(world.pods.created), world.pods.live) == (1, [])


async def test_a_namesake_does_not_inherit_what_was_made_for_another(world: World) -> None:
    def recreate() -> None:
        world.delete(force=True)
        world.apply()

    at_the_status_write(world, recreate)
    world.apply()
    await world.settle()
    assert world.pods.records["pod-1"].status == "terminated"
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_an_object_that_vanishes_after_a_conflict_is_noticed(world: World) -> None:
    world.server.faults.append(status_fault(409))

    def before(call: Call) -> None:
        if call.method == "GET" and call.name:
            world.server.before = lambda _: None
            world.delete(force=True)

    world.server.before = before
    world.apply()
    await world.settle()
    assert (len(world.pods.created), world.pods.live) == (1, [])


async def test_a_look_that_fails_after_a_conflict_is_no_proof_of_anything(world: World) -> None:
    world.server.faults += [status_fault(409), Fault(500, method="GET", plural="gpupods")]
    world.apply()
    await world.settle()
    assert (world.status().id, len(world.pods.live)) == ("pod-1", 1)


async def test_a_404_of_a_proxy_does_not_end_what_was_made(world: World) -> None:
    world.server.faults.append(Fault(404, method="PATCH", status_write=True, times=3, body="404 page not found"))
    world.apply()
    await world.wait(10)
    assert (world.status().id, len(world.pods.live)) == ("pod-1", 1)


async def test_ending_what_has_no_owner_is_tried_until_the_cloud_answers(world: World) -> None:
    world.pods.fail("delete", lost(acted=False), lost(acted=False))
    at_the_status_write(world, lambda: world.delete(force=True))
    world.apply()
    await world.wait(60)
    assert (world.pods.count("delete"), world.pods.live, world.left_behind()) == (3, [], [])


async def test_what_has_no_owner_and_is_gone_already_is_done_with(world: World) -> None:
    world.pods.fail("delete", refused(NotFound))
    at_the_status_write(world, lambda: world.delete(force=True))
    world.apply()
    await world.settle()
    assert world.pods.count("delete") == 1


async def test_the_id_is_written_even_while_the_process_is_told_to_end(world: World) -> None:
    working = asyncio.create_task(_reconcile(world))
    at_the_status_write(world, working.cancel)
    world.server.faults.append(status_fault(500))
    world.apply()
    with pytest.raises(asyncio.CancelledError):
        await working

    async def recorded() -> str | None:
        return world.status().id

    assert await eventually(recorded, every=0.01) == "pod-1"


async def _reconcile(world: World) -> None:
    await asyncio.sleep(0)
    await world.one_pass()


async def test_an_object_that_vanishes_before_a_later_status_is_written_is_no_error(world: World) -> None:
    world.pods.born = "deploying"
    world.apply()
    await world.settle()
    world.pods.become("pod-1", "running")
    at_the_status_write(world, lambda: world.delete(force=True))
    world.hint()
    assert await world.one_pass() is not None
    assert (world.passes[-1].outcome, world.exists()) == ("Keep", False)


async def test_a_status_that_was_wiped_unseen_is_not_patched_as_if_it_were_there(world: World) -> None:
    world.apply()
    await world.settle()
    world.watching = False
    kept = world.raw()["status"]
    assert isinstance(kept, dict)
    wiped: Json = {"status": dict.fromkeys(kept) | {"observedGeneration": -1}}
    world.server.edit("gpupods", NAMESPACE, "train", wiped, status=True)
    world.pods.become("pod-1", "failed")
    world.hint()
    await world.one_pass()
    assert world.raw()["status"] == {"observedGeneration": -1}, "half of a status would pass for all of it"
    await world.wait(120)
    assert (world.status().id, world.status().observed_generation, world.reason()) == ("pod-1", 1, "Failed")
    assert world.pods.count("create") == 1


@dataclass
class Forgetful:
    """A flow that forgets something once status tells it."""

    flow: ManagedFlow[GpuPodSpec, GpuPodStatus, VmRecord]
    forgot: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.flow, name)

    def tell(self, *known: object) -> Told:
        return replace(self.flow.tell(*known), once_written=self.forget_it)  # type: ignore[arg-type]

    def forget_it(self) -> None:
        self.forgot += 1


async def test_what_status_is_to_tell_is_forgotten_only_once_it_does(world: World) -> None:
    flow = Forgetful(world.flow)
    world.reconciler.flow = flow  # type: ignore[assignment]
    world.apply()
    world.server.faults.append(Fault(409, method="PATCH", plural="gpupods"))
    await world.one_pass()
    assert flow.forgot == 0
    await world.settle()
    await world.wait(1)
    assert flow.forgot > 0


def test_of_several_batches_only_the_one_that_cannot_be_recorded_is_ended() -> None:
    parts: list[JsonValue] = [{"part": 1, "batchId": "batch-1"}, {"part": 2, "batchId": "batch-2"}]
    raw: Json = {"spec": {"model": "echo", "deletionPolicy": "Orphan"}, "status": {"parts": parts[:1]}}
    left = PaidFor("batch-2", "Discard").alone(raw, {"createToken": "t", "parts": parts})
    assert left["spec"] == {"model": "echo", "deletionPolicy": "Discard"}
    assert left["status"] == {"createToken": "t", "parts": parts[1:]}


def test_what_made_nothing_is_told_as_it_is(world: World) -> None:
    assert world.flow.unrecorded(Nothing(), ManagedMemory("uid"), "too large") == Nothing()

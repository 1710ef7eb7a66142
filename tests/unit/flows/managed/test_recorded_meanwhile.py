"""What others write while the id of what was just paid for is on its way to status."""

import json
from datetime import UTC, datetime

from relay_client import BadRequest
from relay_operator.api.meta import CREATE_INTENT, CreateIntent
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.world import NAMESPACE, World, at_the_status_write


async def test_what_others_write_while_the_id_is_on_its_way_stays(world: World) -> None:
    def write() -> None:
        world.server.edit("gpupods", NAMESPACE, "train", {"status": {"aFieldOfALaterRelease": 1}}, status=True)

    at_the_status_write(world, write)
    world.apply()
    await world.settle()
    status = world.raw()["status"]
    assert isinstance(status, dict)
    assert (status["id"], status["aFieldOfALaterRelease"]) == ("pod-1", 1)


def _intent_of(world: World, **changed: str | int | datetime) -> Json:
    """The annotation with another intent, as another process writes it."""
    text = world.readable_intent().model_copy(update=changed).to_annotation()
    return {"metadata": {"annotations": {CREATE_INTENT: text}}}


async def test_an_id_that_another_process_recorded_meanwhile_stays_and_what_was_made_besides_is_ended(
    world: World,
) -> None:
    """This process was frozen; the next one took the create for lost, and made another attempt."""

    def decide() -> None:
        second = world.pods.add(world.pods.created[0] + "-2")
        world.server.edit("gpupods", NAMESPACE, "train", _intent_of(world, token="token-9", attempt=2))
        recorded: Json = {"status": {"id": second.id, "cloudName": second.name, "createToken": "token-9"}}
        world.server.edit("gpupods", NAMESPACE, "train", recorded, status=True)

    at_the_status_write(world, decide)
    world.apply(deletionPolicy="Orphan")
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]
    assert (world.pods.records["pod-1"].status, world.left_behind()) == ("terminated", [])


async def test_an_intent_that_another_process_closed_meanwhile_stays_closed(world: World) -> None:
    def close() -> None:
        intent = world.readable_intent()
        world.server.edit("gpupods", NAMESPACE, "train", {"status": {"createToken": intent.token}}, status=True)

    at_the_status_write(world, close)
    world.apply()
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]
    assert world.pods.records["pod-1"].status == "terminated"


async def test_an_id_that_another_process_found_meanwhile_is_the_objects_own(world: World) -> None:
    def find() -> None:
        recorded: Json = {"status": {"id": "pod-1", "createToken": world.readable_intent().token}}
        world.server.edit("gpupods", NAMESPACE, "train", recorded, status=True)

    at_the_status_write(world, find)
    world.apply()
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]
    assert world.pods.count("delete") == 0


async def test_an_intent_in_other_words_is_the_same(world: World) -> None:
    """Another process rebuilt it from status, or wrote down what it reserved for a create that is sent again."""

    def rebuild() -> None:
        change = _intent_of(world, spec_hash="", started_at=datetime(2026, 1, 1, tzinfo=UTC))
        world.server.edit("gpupods", NAMESPACE, "train", change)

    at_the_status_write(world, rebuild)
    world.apply()
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]
    assert (world.pods.count("delete"), world.pods.count("find")) == (0, 0)


async def test_an_intent_that_cannot_be_read_is_another(world: World) -> None:
    at_the_status_write(world, lambda: world.annotate(create_intent="torn"))
    world.apply()
    await world.wait(60)
    assert world.pods.records["pod-1"].status == "terminated"


async def test_an_id_is_written_though_another_process_clears_what_a_copy_brought_along(world: World) -> None:
    world.apply()
    await world.settle()
    copied = json.loads(json.dumps(world.raw()))
    copied["metadata"] = {"name": "other", "namespace": NAMESPACE}
    cleared: Json = {"status": dict.fromkeys(("id", "createToken", "cloudName", "identity"))}
    at_the_status_write(world, lambda: world.server.edit("gpupods", NAMESPACE, "other", cleared, status=True))
    world.server.put("gpupods", copied)
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id, world.status("other").id]
    assert world.pods.count("delete") == 0


async def test_a_status_that_is_lost_while_the_id_is_on_its_way_is_no_decision(world: World) -> None:
    world.pods.fail("create", refused(BadRequest))
    world.apply()
    await world.settle()
    cleared: Json = {"status": {"createToken": None, "attempt": None}}
    at_the_status_write(world, lambda: world.server.edit("gpupods", NAMESPACE, "train", cleared, status=True))
    world.change(image="pytorch/pytorch:2")
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]
    assert world.pods.count("delete") == 0


async def test_an_intent_that_is_wiped_while_the_id_is_on_its_way_is_put_back(world: World) -> None:
    at_the_status_write(world, lambda: world.annotate(create_intent=None))
    world.apply()
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]
    assert isinstance(world.intent(), CreateIntent)

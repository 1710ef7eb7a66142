"""An object that cannot be parsed says which field is to blame, and nothing that it may have is forgotten."""

import pytest
from pydantic import JsonValue, ValidationError

from relay_kube.nesting import MOST
from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey, Reservation
from relay_operator.engine.leftover import Fate
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import Failure, lost
from tests.unit.flows.managed.world import NAMESPACE, World

ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")


def conditions(world: World) -> list[tuple[str, str, str, str]]:
    """Type, status, reason and message of each, as they stand in the API."""
    told = part(world.raw(), "status").get("conditions")
    assert isinstance(told, list)
    rows = [row for row in told if isinstance(row, dict)]
    return [(str(row["type"]), str(row["status"]), str(row["reason"]), str(row["message"])) for row in rows]


def spoil(world: World, spec: Json) -> None:
    world.server.edit("gpupods", NAMESPACE, "train", {"spec": spec})


async def test_status_names_the_field_and_is_about_this_generation(world: World) -> None:
    world.apply()
    spoil(world, {"gpu": {"count": "many"}})
    await world.settle()
    (ready, stalled) = conditions(world)
    assert ready[:3] == ("Ready", "False", "Unreadable")
    assert stalled[:3] == ("Stalled", "True", "Unreadable")
    assert stalled[3].startswith("spec.gpu.count cannot be read: ")
    assert part(world.raw(), "status")["observedGeneration"] == part(world.raw(), "metadata")["generation"]


async def test_what_is_unknown_of_its_create_stays_told(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(200)
    spoil(world, {"gpu": {"count": "many"}})
    await world.settle()
    (ready, stalled, unknown) = conditions(world)
    assert (ready[2], stalled[2]) == ("Unreadable", "Unreadable")
    assert unknown[:3] == ("CreateOutcomeUnknown", "True", "CreateOutcomeUnknown")


async def test_what_no_request_can_carry_is_told_and_tried_again(world: World) -> None:
    with pytest.raises(ValidationError) as invalid:
        Reservation(token="t", cents=-1, gpus=0)
    world.pods.fail("create", Failure(invalid.value))
    world.apply()
    with pytest.raises(ValidationError):
        await world.one_pass()
    assert conditions(world)[1][2:] == (
        "Unreadable",
        "cents cannot be read: Input should be greater than or equal to 0",
    )
    world.hint()
    await world.wait(1500, step=5)
    assert (world.reason(), len(world.pods.live)) == ("Running", 1)


@pytest.mark.parametrize("field", ["attempt", "failures", "recoveries"])
async def test_a_number_in_status_that_is_too_large_is_named(world: World, field: str) -> None:
    world.apply()
    await world.settle()
    world.server._validate = lambda _raw: None  # an API server whose CRD had no such bound
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {field: 10**12}}, status=True)
    world.hint()
    await world.settle()
    assert conditions(world)[1][3].startswith(f"status.{field} cannot be read: Input should be less than or equal to")
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {field: 1}}, status=True)
    world.hint()
    await world.settle()
    assert (world.reason(), world.pods.count("create")) == ("Running", 1)


async def test_what_is_put_right_goes_on_as_if_nothing_had_been(world: World) -> None:
    world.apply()
    await world.settle()
    spoil(world, {"image": 7})
    await world.settle()
    assert conditions(world)[1][2] == "Unreadable"
    spoil(world, {"image": "pytorch/pytorch"})
    await world.settle()
    assert (world.status().id, world.reason(), world.pods.count("create")) == ("pod-1", "Running", 1)


@pytest.mark.parametrize(
    ("status", "named"),
    [({"conditions": [{"type": 7}]}, "status.conditions.0.type"), ({"conditions": "none"}, "status.conditions")],
)
async def test_conditions_that_cannot_be_read_either_are_written_anew(
    world: World, status: dict[str, JsonValue], named: str
) -> None:
    world.apply()
    world.server.edit("gpupods", NAMESPACE, "train", {"status": status}, status=True)
    await world.settle()
    ready, stalled = conditions(world)
    assert (ready[:3], stalled[:3]) == (("Ready", "False", "Unreadable"), ("Stalled", "True", "Unreadable"))
    assert stalled[3].startswith(f"{named} cannot be read: ")


async def test_one_that_never_had_anything_can_be_deleted(world: World) -> None:
    world.apply()
    spoil(world, {"image": 7})
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [meta.FINALIZER]}})
    world.delete()
    await world.settle()
    assert not world.exists()


async def test_one_with_a_pod_ends_it_when_it_is_deleted(world: World) -> None:
    world.apply()
    await world.settle()
    spoil(world, {"image": 7})
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_one_whose_policy_cannot_be_read_waits_for_people(world: World) -> None:
    world.apply()
    await world.settle()
    spoil(world, {"deletionPolicy": "Perhaps"})
    world.delete()
    await world.wait(60)
    assert (world.exists(), len(world.pods.live)) == (True, 1)
    assert "the annotation abandon lets go" in conditions(world)[0][3]
    world.annotate(abandon="true")
    await world.settle()
    assert (world.exists(), len(world.pods.live)) == (False, 1)
    (left,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (left.fate, left.id, left.name) == (Fate.KEPT, "pod-1", world.pods.created[0])


async def test_an_abandoned_one_goes_only_once_what_it_leaves_is_recorded(world: World) -> None:
    world.apply()
    await world.settle()
    spoil(world, {"deletionPolicy": "Perhaps"})
    world.delete()
    world.annotate(abandon="true")
    world.server.faults.append(outage := Fault(500, plural="configmaps", times=2))
    await world.settle()
    assert (world.exists(), world.informer.vanished.leftovers.of(ACCOUNT)[0].id) == (True, "pod-1")
    await world.wait(60)
    assert (world.exists(), len(world.pods.live), outage.times) == (False, 1, 0)


async def test_what_is_told_once_is_not_written_again(world: World) -> None:
    world.apply()
    spoil(world, {"image": 7})
    await world.settle()
    world.hint()
    await world.settle()
    assert world.server.writes == ["PATCH gpupods/status"]


async def test_one_of_which_nothing_is_left_can_be_deleted(world: World) -> None:
    world.apply()
    await world.settle()
    spoil(world, {"deletionPolicy": "Perhaps"})
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"cleared": True}}, status=True)
    world.delete()
    await world.settle()
    assert not world.exists()


async def test_one_that_others_hold_is_not_ours_to_touch(world: World) -> None:
    world.apply()
    spoil(world, {"deletionPolicy": "Perhaps"})
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": ["example.com/other"]}})
    world.delete()
    await world.settle()
    assert world.server.writes == []


@pytest.mark.parametrize("status", [404, 422])
async def test_a_status_that_cannot_be_written_is_not_tried_in_a_loop(world: World, status: int) -> None:
    world.apply()
    spoil(world, {"image": 7})
    reason = '{"kind": "Status", "reason": "NotFound"}' if status == 404 else None
    world.server.faults.append(Fault(status, method="PATCH", status_write=True, times=100, body=reason))
    await world.wait(100)
    assert len(world.server.writes) == 1


FULL: JsonValue = [[]] * (MOST + 1)


async def test_one_that_is_full_of_lists_says_so_is_not_created_and_can_be_deleted(world: World) -> None:
    world.apply()
    spoil(world, {"env": FULL})
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [meta.FINALIZER]}})
    await world.restart()
    await world.settle()
    told = "the object cannot be read: it has more than 200 levels, or more than 40,000 lists and objects"
    assert conditions(world)[1] == ("Stalled", "True", "Unreadable", told)
    world.server.on_change = lambda _event, _raw: None
    world.delete()
    await world.restart()
    await world.settle()
    assert (world.exists(), world.pods.count("create")) == (False, 0)


async def test_one_that_is_full_of_lists_keeps_its_pod_until_people_let_it_go(world: World) -> None:
    world.apply()
    await world.settle()
    world.server.on_change = lambda _event, _raw: None  # what the watch tells is cut before
    spoil(world, {"env": FULL})
    world.delete()
    await world.restart()
    await world.settle()
    assert (world.exists(), len(world.pods.live)) == (True, 1)
    assert "40,000 lists and objects; the deletion waits for it" in conditions(world)[0][3]
    world.annotate(abandon="true")
    await world.restart()
    await world.settle()
    assert (world.exists(), len(world.pods.live)) == (False, 1)
    (left,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (left.fate, left.id) == (Fate.KEPT, "pod-1")


async def test_answers_about_one_that_is_full_of_lists_are_cut(world: World) -> None:
    world.apply()
    world.server.on_change = lambda _event, _raw: None
    spoil(world, {"env": FULL, "gpu": {"count": 1}})
    kind, spec = world.flow.type, {"env": "", "gpu": {"count": 1}}
    label: Json = {"metadata": {"labels": {"a": "b"}}}
    read = await world.kube.get(kind, NAMESPACE, "train")
    written = await world.kube.patch(kind, NAMESPACE, "train", label)
    (listed,) = [raw async for page in world.kube.pages(kind) for raw in page]
    for raw in (read, written, listed):
        assert len(str(part(raw, "spec")["env"])) < 1_000
        assert {**part(raw, "spec"), "env": ""} == {**spec, "image": "pytorch/pytorch"}

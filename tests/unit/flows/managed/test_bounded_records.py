"""A namespace leaves only so much behind: what the operator keeps of it does not count for its own quota."""

import json

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.leftover import Fate
from relay_operator.engine.leftovers import _MOST
from relay_operator.engine.vanished import _LARGEST
from relay_operator.engine.vanished import _MOST as _MOST_VANISHED
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.leftovers import ACCOUNT, leftover
from tests.unit.flows.managed.world import NAMESPACE, World


def fill(world: World) -> None:
    """The namespace has as many records as it may have."""
    for number in range(_MOST):
        world.informer.vanished.leftovers.note(leftover(Fate.KEPT, f"former-{number}"))


async def test_an_object_that_leaves_more_than_is_recorded_stays_until_there_is_room(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    fill(world)
    world.delete()
    await world.wait(60)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.reason == Reason.LEFTOVER_UNRECORDED
    assert f"the namespace {NAMESPACE} has {_MOST} records" in stalled.message
    assert (world.exists(), len(world.pods.live)) == (True, 1)
    leftovers = world.informer.vanished.leftovers
    leftovers.forget(leftover(Fate.KEPT, "former-0"))
    await world.wait(60)
    assert world.exists() is False
    assert "pod-1" in {record.id for record in leftovers.of(ACCOUNT)}


async def test_what_is_known_already_and_what_is_anothers_needs_no_room(world: World) -> None:
    fill(world)
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.KEPT, "former-0"))
    shared = ObjectKey("ClusterCloudAccount", "", "default")
    leftovers.note(leftover(Fate.KEPT, "another").model_copy(update={"account": shared, "of": "team-b/train"}))
    assert leftovers.counts() == {Fate.KEPT: _MOST + 1}


async def test_what_is_forced_away_beyond_that_is_not_recorded(world: World) -> None:
    world.apply()
    await world.wait(10)
    fill(world)
    world.delete(force=True)
    assert world.informer.vanished.leftovers.counts() == {Fate.KEPT: _MOST}


def take_over(world: World, name: str, cloud_id: str, *, note: str = "") -> None:
    """The object vanishes while it has this resource."""
    metadata: Json = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"}
    spec: Json = {"image": "x", "note": note, "accountRef": {"kind": ACCOUNT.kind, "name": ACCOUNT.name}}
    raw: Json = {"metadata": metadata, "spec": spec, "status": {"id": cloud_id}}
    world.informer.vanished.take_over(ObjectKey("GpuPod", NAMESPACE, name), raw)


async def test_what_vanishes_beyond_so_many_is_reported_and_not_ended(world: World) -> None:
    for number in range(_MOST_VANISHED + 1):
        take_over(world, f"pod-{number}", f"id-{number}")
    assert len([key for key, _ in world.cache.items() if key.vanished]) == _MOST_VANISHED
    (orphan,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (orphan.fate, orphan.id) == (Fate.ORPHAN, f"id-{_MOST_VANISHED}")
    take_over(world, "pod-0", "id-0")  # what is known of it is completed
    assert len(world.informer.vanished.leftovers.of(ACCOUNT)) == 1


async def test_what_vanishes_beyond_so_many_bytes_is_reported_and_not_ended(world: World) -> None:
    take_over(world, "large", "id-1", note="x" * _LARGEST)
    take_over(world, "next", "id-2")
    assert [record.id for record in world.informer.vanished.leftovers.of(ACCOUNT)] == ["id-2"]


async def test_an_object_that_cannot_be_read_tells_why_it_stays(world: World) -> None:
    world.apply()
    await world.wait(10)
    fill(world)
    world.server._validate = lambda _raw: None  # an API server whose CRD had no such bound
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"attempt": 10**12}}, status=True)
    world.annotate(abandon="true")
    world.delete()
    await world.wait(60)
    told = part(world.raw(), "status")["conditions"]
    assert f"the namespace {NAMESPACE} has {_MOST} records" in json.dumps(told)
    world.informer.vanished.leftovers.forget(leftover(Fate.KEPT, "former-0"))
    await world.wait(600)
    assert (world.exists(), len(world.pods.live)) == (False, 1)

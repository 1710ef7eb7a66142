"""Adoption: what an object may take over, and what it leaves alone."""

import pytest

from relay_operator.api import meta
from tests.unit.engine.apiserver import metadata_fault
from tests.unit.flows.managed.cloudpods import POD
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_adopting_takes_over_what_fits(world: World) -> None:
    found = world.pods.add("made-by-hand", fields=POD)
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    status = world.status()
    assert (status.id, status.cloud_name, world.reason()) == (found.id, "made-by-hand", "Running")
    assert world.obj().metadata.finalizers == [meta.FINALIZER]
    assert world.pods.count("create") == 0
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


REFUSED_ADOPTIONS: dict[str, tuple[str, str]] = {
    "it differs": (
        "pod-1",
        "the spec differs from the resource, so correct the spec: image: asked pytorch/pytorch, has another",
    ),
    "it is gone": ("pod-2", "the resource pod-2 is terminated"),
    "it never was": ("pod-9", "the cloud does not find pod-9"),
}


@pytest.mark.parametrize(("cloud_id", "told"), REFUSED_ADOPTIONS.values(), ids=REFUSED_ADOPTIONS)
async def test_an_adoption_that_cannot_be_says_why_and_touches_nothing(world: World, cloud_id: str, told: str) -> None:
    world.pods.add("one", fields={"imageUrl": "another"})
    world.pods.add("two", state="terminated")
    world.apply(annotations={meta.ADOPT_ID: cloud_id})
    await world.wait(1000, step=10)
    assert (world.reason(), world.message()) == ("AdoptionRefused", told)
    assert set(world.pods.calls) == {"observe"}
    assert world.status().id is None


async def test_an_adoption_goes_on_once_the_spec_fits(world: World) -> None:
    found = world.pods.add("one", fields=POD | {"imageUrl": "another"})
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    world.change(image="another")
    await world.settle()
    assert world.status().id == found.id


async def test_a_shared_account_adopts_only_where_it_says_so(world: World) -> None:
    world.account.share()
    found = world.pods.add("made-by-hand", fields=POD)
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    assert "spec.allowAdoption is not true" in world.message()
    assert world.pods.calls == []


async def test_two_objects_cannot_adopt_one_id(world: World) -> None:
    found = world.pods.add("made-by-hand", fields=POD)
    for name in ("first", "second"):
        world.apply(name, annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    assert world.status("first").id == found.id
    assert world.status("second").id is None
    assert world.message("second") == f"the resource {found.id} belongs to GpuPod/{NAMESPACE}/first"


async def test_an_id_that_another_claimed_during_the_look_is_not_adopted(world: World) -> None:
    found = world.pods.add("made-by-hand", fields=POD)
    world.apply("second", annotations={meta.ADOPT_ID: found.id})
    rival = meta.ObjectKey("GpuPod", NAMESPACE, "first")

    def claim(_: str) -> None:
        world.cache.claim(found.id, rival)

    world.pods.on_call = claim
    await world.settle()
    assert world.status("second").id is None
    assert "belongs to" in world.message("second")


async def test_a_claim_lasts_for_one_pass_also_of_an_object_that_is_paused_by_then(world: World) -> None:
    """The adoption could not be written."""
    found = world.pods.add("made-by-hand", fields=POD)
    first = world.apply("first", annotations={meta.ADOPT_ID: found.id, meta.PAUSED: "true"})
    await world.settle()
    world.cache.claim(found.id, first)
    world.hint("first")
    world.apply("second", annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    assert world.status("second").id == found.id


async def test_a_refused_adoption_is_let_go_without_touching_what_it_named(world: World) -> None:
    found = world.pods.add("one", fields={"imageUrl": "another"})
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    world.delete()
    await world.settle()
    assert len(world.pods.live) == 1
    assert not world.exists()


async def test_an_id_whose_adoption_was_given_up_is_free_for_another(world: World) -> None:
    found = world.pods.add("made-by-hand", fields=POD)
    world.server.faults.append(metadata_fault(409))
    world.apply("first", annotations={meta.ADOPT_ID: found.id})
    await world.one_pass()
    world.annotate("first", adopt_id=None)
    await world.settle()
    world.apply("second", annotations={meta.ADOPT_ID: found.id})
    await world.settle()
    assert (world.status("first").id, world.status("second").id) == ("pod-2", found.id)


async def test_something_with_a_long_name_is_adopted_and_looked_after(world: World) -> None:
    found = world.pods.add("n" * 200, fields=POD)
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.wait(10)
    assert (world.status().id, world.reason()) == (found.id, "Running")
    world.annotate(create_intent=None)
    await world.wait(10)
    assert isinstance(world.intent(), meta.CreateIntent)


async def test_what_was_adopted_is_replaced_as_if_it_had_been_created(world: World) -> None:
    adopted = world.pods.add("by-hand", fields=POD).id
    world.apply(annotations={meta.ADOPT_ID: adopted}, updateStrategy={"type": "Recreate"})
    await world.wait(5)
    world.change(image="another")
    await world.wait(60)
    assert (world.reason(), world.status().id, len(world.pods.live)) == ("Running", "pod-2", 1)
    world.change(image="yet-another")
    await world.wait(60)
    assert (world.reason(), world.status().id, len(world.pods.live)) == ("Running", "pod-3", 1)


async def test_what_was_adopted_is_recovered_and_only_asked_for_again_adopted_again(world: World) -> None:
    adopted = world.pods.add("by-hand", fields=POD).id
    world.apply(annotations={meta.ADOPT_ID: adopted}, recovery={"onTerminated": "Recreate"})
    await world.wait(5)
    world.pods.become(adopted, "terminated")
    world.hint()
    await world.wait(60)
    assert (world.reason(), world.status().id, world.status().adopted_before) == ("Running", "pod-2", adopted)
    world.annotate(adopt_id=None)
    await world.wait(5)
    assert world.status().adopted_before is None
    world.pods.become("pod-2", "terminated")
    world.annotate(adopt_id=adopted)
    await world.wait(60)
    assert world.stalled().startswith("AdoptionRefused")

"""What the cloud shows otherwise than it was asked for, or does not show at all, is not made again and again."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_operator.flows.managed import recovery
from relay_operator.flows.managed.view import Difference, Recovery, Seen
from relay_operator.kinds.gpupod import Pod
from relay_operator.kinds.runnerpool import RunnerPool
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.facts import INTENT, NOW
from tests.unit.flows.managed.former import KeptPods
from tests.unit.flows.managed.world import World

RECREATE: JsonValue = {"type": "Recreate"}


class PodsOfAnotherImage(KeptPods):
    """Pods that are replaced as credentials are, and that the cloud may show with another image."""

    def differences(self, obj: Pod, observed: VmRecord) -> tuple[str, ...]:
        same = obj.spec.image == observed.image_url
        return () if same else (f"image: asked {obj.spec.image}, has {observed.image_url}",)


@pytest.fixture
async def strange(world: World) -> World:
    """The cloud shows each pod with another image than the one that was asked for."""
    world.kind = PodsOfAnotherImage
    world.assemble()

    def otherwise(call: str) -> None:
        if call == "create":
            last = world.pods.live[-1]
            world.pods.become(last.id, last.status, image_url=f"docker.io/{last.image_url}")

    world.pods.on_call = otherwise
    world.apply(updateStrategy=RECREATE)
    return world


async def test_what_is_made_beside_it_is_made_every_five_minutes_at_most(strange: World) -> None:
    await strange.wait(5)
    strange.hint()
    await strange.wait(285)
    assert (strange.reason(), len(strange.pods.created)) == ("BackOff", 1)
    assert strange.message() == (
        "image: asked pytorch/pytorch, has docker.io/pytorch/pytorch, although it was created from this very spec: "
        "another is created at 2026-03-01T12:05:00Z, or as soon as the spec changes"
    )
    await strange.restart()
    await strange.wait(3300, step=5)
    assert len(strange.pods.created) == 12
    assert len(strange.pods.live) == 1


@pytest.mark.parametrize("asked", ["spec", "refresh"])
async def test_people_do_not_wait_for_that(strange: World, asked: str) -> None:
    await strange.wait(5)
    if asked == "spec":
        strange.change(image="docker.io/pytorch/pytorch")
        strange.pods.on_call = lambda _call: None
    else:
        strange.annotate(reconcile_at="now")
    await strange.wait(5)
    assert len(strange.pods.created) == 2
    assert strange.reason() == ("Running" if asked == "spec" else "BackOff")


@pytest.mark.parametrize(("as_made", "minutes", "expected"), [(True, 4, True), (True, 5, False), (False, 4, False)])
def test_what_status_counts_no_recreations_of_waits_as_well(*, as_made: bool, minutes: int, expected: bool) -> None:
    intent = INTENT.model_copy(update={"started_at": NOW - timedelta(minutes=minutes)})
    noted = {"gpurelay.dev/create-intent": intent.to_annotation()}
    metadata: JsonValue = {"name": "ci", "namespace": "team-a", "uid": "u1", "generation": 1, "annotations": {**noted}}
    spec: JsonValue = {"installationId": 1, "poolRamGb": 64, "diskSizeGb": 100, "updateStrategy": RECREATE}
    told: JsonValue = {"observedGeneration": 1, "id": "pool-1"}
    pool = RunnerPool.model_validate({"metadata": metadata, "spec": spec, "status": told})
    held = recovery.held_back(pool, Seen.READY, Recovery.NONE, Difference.REPLACEABLE, NOW, as_made=as_made)
    assert held is expected


def test_what_has_no_intent_to_tell_when_it_was_made_does_not_wait() -> None:
    pool = RunnerPool.model_validate(
        {"metadata": {"name": "ci", "namespace": "team-a", "uid": "u1"}, "spec": {"installationId": 1, "poolRamGb": 64}}
    )
    assert recovery.next_like_it(pool, NOW) == NOW


async def test_creates_whose_answers_are_all_lost_are_repeated_ever_more_slowly(showing: World) -> None:
    showing.pods.fail("create", *[lost(acted=True)] * 100)
    showing.apply()
    await showing.wait(1800)
    assert 8 <= len(showing.pods.created) <= 16
    assert len(showing.pods.live) <= 1

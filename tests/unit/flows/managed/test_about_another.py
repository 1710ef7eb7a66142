"""An answer to a create that shows something else than was sent: nothing is recorded, and nothing is made again."""

import pytest

from relay_operator.api.meta import CreateIntent
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import OnePod
from tests.unit.flows.managed.world import World


class Misspelled(OnePod):
    """Pods that people name, and whose answer is about another one; only an exact name finds them."""

    def of_another(self, obj: Pod, intent: CreateIntent, made: VmRecord) -> tuple[str, ...]:
        return (f"image: asked {obj.spec.image}, has another",)

    async def existing(self, cloud: object, obj: Pod) -> VmRecord | None:
        return None


class Unsure(Misspelled):
    """The list has one that may be it."""

    async def may_exist(self, cloud: object, obj: Pod) -> bool:
        return True


@pytest.fixture(params=[Misspelled, Unsure])
async def misspelled(world: World, request: pytest.FixtureRequest) -> World:
    world.kind = request.param
    world.assemble()
    world.apply()
    await world.wait(60)
    return world


async def test_its_id_is_kept_in_the_intent_and_told(misspelled: World) -> None:
    assert (misspelled.status().id, misspelled.readable_intent().answered) == (None, "pod-1")
    await misspelled.wait(1800, step=5)
    assert len(misspelled.pods.created) == 1
    await misspelled.restart()
    await misspelled.wait(1800, step=5)
    assert (len(misspelled.pods.created), misspelled.reason()) == (1, "CreateOutcomeUnknown")
    assert (
        "the answer was about pod-1, which shows something else than was sent, or belonged to another object"
        in misspelled.stalled()
    )


async def test_people_may_adopt_it(misspelled: World) -> None:
    await misspelled.wait(1800, step=5)
    misspelled.annotate(adopt_id="pod-1")
    await misspelled.wait(5)
    assert (misspelled.status().id, misspelled.reason()) == ("pod-1", "Running")

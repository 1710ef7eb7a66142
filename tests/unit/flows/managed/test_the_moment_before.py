"""Nothing is sent for what people changed in the moment before."""

from dataclasses import replace

from tests.unit.flows.managed.cloudpods import POD, lost
from tests.unit.flows.managed.world import World


async def test_nothing_is_created_for_what_people_changed_in_the_moment_before(world: World) -> None:
    world.pods.once_before_change(lambda: world.change(image="another"))
    world.apply()
    await world.wait(10)
    assert [record.image_url for record in world.pods.records.values()] == ["another"]
    assert (world.reason(), world.status().id) == ("Running", "pod-1")


async def test_nothing_is_sent_again_for_what_people_changed_in_the_moment_before(world: World) -> None:
    world.pods.listable = False
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.fail("create", lost(acted=False))

    def just_then(_: str) -> None:
        if world.pods.count("create") == 1:
            world.pods.before_change = lambda _: None
            world.change(image="another")

    world.pods.before_change = just_then
    world.apply()
    await world.wait(200)
    assert (world.reason(), len(world.pods.live)) == ("Running", 1)


async def test_nothing_is_created_for_what_was_deleted_in_the_moment_before(world: World) -> None:
    world.pods.before_change = lambda _: world.delete()
    world.apply()
    await world.wait(10)
    assert (world.exists(), world.pods.created) == (False, [])


async def test_nothing_is_created_for_what_was_forced_away_in_the_moment_before(world: World) -> None:
    world.pods.once_before_change(lambda: world.delete(force=True))
    world.apply()
    await world.wait(10)
    world.apply()
    await world.wait(10)
    assert len(world.pods.created) == 1


async def test_nothing_is_ended_that_people_abandon_in_the_moment_before(world: World) -> None:
    world.apply()
    await world.wait(10)

    world.pods.once_before_change(lambda: world.annotate(abandon="true"))
    world.delete()
    await world.wait(10)
    assert (world.exists(), world.pods.count("delete"), [each.id for each in world.pods.live]) == (False, 0, ["pod-1"])


async def test_nothing_is_created_if_people_name_what_to_adopt_in_the_moment_before(world: World) -> None:
    there = world.pods.add("by-hand", fields=POD)

    world.pods.once_before_change(lambda: world.annotate(adopt_id=there.id))
    world.apply()
    await world.wait(10)
    assert (world.reason(), world.status().id, world.pods.created) == ("Running", there.id, ["by-hand"])

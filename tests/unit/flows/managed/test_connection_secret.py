"""The Secret by which others connect: written, repaired, and what is in its way."""

import pytest

from relay_kube.kube import SECRETS
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.resource import Look
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_the_endpoint_is_written_for_others_and_what_is_in_the_way_is_told(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "taken"}, "data": {}})
    await made(world, connection={"secret": {"name": "taken"}})
    world.hint()
    await world.settle()
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, ready.status, "taken" in ready.message) == ("ConnectionRefused", "False", True)
    world.server.remove("secrets", NAMESPACE, "taken")
    world.hint()
    await world.settle()
    assert world.reason() == "Running"
    assert ("secrets", NAMESPACE, "taken") in world.server.objects


async def test_texts_that_would_be_too_long_are_told_once_and_nothing_more_is_written(world: World) -> None:
    keys: Json = {f"k{at}": "{{endpointUrl}}" * 136 for at in range(32)}
    await made(world, connection={"configMap": {"name": "there", "keys": keys}})
    await becomes(world, "running", endpoint_url=f"https://{'x' * 4000}.example/")
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "the ConfigMap there" in ready.message) == ("ConnectionRefused", True)
    writes, looks = len(world.server.writes), len(world.resource.looks)
    await world.wait(1500, step=5)
    assert len(world.resource.looks) > looks
    assert len(world.server.writes) == writes


async def connected(world: World) -> None:
    await made(world, connection={"secret": {"name": "there"}, "configMap": {"name": "there"}})
    world.hint()
    await world.settle()


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
@pytest.mark.parametrize("deed", ["deleted", "edited"])
async def test_what_others_connect_by_is_written_again_where_somebody_took_or_changed_it(
    world: World, plural: str, deed: str
) -> None:
    await connected(world)
    before = world.server.objects[plural, NAMESPACE, "there"]["data"]
    if deed == "deleted":
        world.server.remove(plural, NAMESPACE, "there", force=True)
    else:
        world.server.edit(plural, NAMESPACE, "there", {"data": {"endpointUrl": "eA=="}})
    await world.wait(800, step=5)
    assert world.server.objects[plural, NAMESPACE, "there"]["data"] == before


async def test_what_others_connect_by_is_written_at_once_where_a_refresh_is_asked_for(world: World) -> None:
    await connected(world)
    for plural in ("secrets", "configmaps"):
        world.server.remove(plural, NAMESPACE, "there", force=True)
    world.annotate(reconcile_at="now")
    await world.settle()
    assert {("secrets", NAMESPACE, "there"), ("configmaps", NAMESPACE, "there")} <= set(world.server.objects)


async def test_what_others_connect_by_costs_one_read_a_poll_and_no_write(world: World) -> None:
    await connected(world)
    await world.wait(10)
    calls, looks = len(world.server.calls), len(world.resource.looks)
    await world.wait(1500, step=5)
    made_since = [call.method for call in world.server.calls[calls:]]
    assert made_since == ["GET"] * (len(world.resource.looks) - looks)


async def test_what_others_connect_by_is_read_by_exact_looks_where_a_list_does_not_tell_it(world: World) -> None:
    """As with clusters, whose list has no deploy token."""
    await connected(world)
    whole = world.resource.reached

    def in_part(seen: VmRecord) -> Reached | None:
        return whole(seen) if world.resource.looks[-1] is Look.EXACT else None

    world.resource.reached = in_part  # type: ignore[method-assign,assignment]
    for plural in ("secrets", "configmaps"):
        world.server.remove(plural, NAMESPACE, "there", force=True)
    await world.wait(1300, step=5)
    assert {("secrets", NAMESPACE, "there"), ("configmaps", NAMESPACE, "there")} <= set(world.server.objects)

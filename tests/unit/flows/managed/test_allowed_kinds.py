"""A kind that its account does not serve: nothing is sent for it, and what it has is taken to its end."""

from dataclasses import replace

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import not_served
from tests.unit.flows.managed.world import World

SHARED = ObjectKey("ClusterCloudAccount", "", "shared")


def serve(world: World, *kinds: str) -> None:
    world.account.state = replace(world.account.ready, key=SHARED, serves=frozenset(kinds))


async def test_nothing_is_asked_for_a_kind_that_is_not_served_and_the_message_says_what_to_do(world: World) -> None:
    serve(world, "InferenceBatch")
    world.apply()
    await world.wait(400)
    assert world.pods.calls == []
    assert world.reason() == "AccountNotAllowed"
    assert world.stalled() == (
        "AccountNotAllowed: the ClusterCloudAccount/shared may not be used for objects of the kind GpuPod: a cluster "
        "administrator can add the kind to its spec.allowedKinds; or recreate the object with an accountRef to a "
        "CloudAccount of this namespace"
    )
    serve(world, "GpuPod")
    await world.wait(400)
    assert (world.stalled(), world.pods.count("create")) == ("", 1)


@pytest.mark.parametrize(
    ("serves", "grants", "why"),
    [
        (None, None, ""),
        ({"ApiKey"}, {"a", "b", "c"}, ""),
        (
            {"ApiKey"},
            {"b"},
            "used for a key with a, c: a cluster administrator can add what it is to open to its",
        ),
        ({"ApiKey"}, set(), "used for a key with a, b, c: "),
        ({"SshKey"}, {"a", "b", "c"}, "used for objects of the kind ApiKey: "),
    ],
    ids=["an account of its own", "all allowed", "some", "none", "not the kind"],
)
def test_a_key_may_open_what_its_account_allows_and_can_always_be_ended(
    world: World, serves: set[str] | None, grants: set[str] | None, why: str
) -> None:
    ready = world.account.ready
    served, granted = (None if words is None else frozenset(words) for words in (serves, grants))
    account, key = replace(ready, serves=served, grants=granted), ObjectKey("ApiKey", "team-a", "ci")
    refused = not_served(key, account, ending=False, scopes=["c", "a", "b"])
    assert (why in refused.message) if refused is not None else not why
    assert not_served(key, account, ending=True, scopes=["c"]) is None


async def test_an_object_that_has_nothing_goes_at_once(world: World) -> None:
    serve(world)
    world.apply()
    await world.settle()
    world.delete()
    await world.settle()
    assert (world.exists(), world.pods.live) == (False, [])


async def test_what_was_made_before_is_left_as_it_is(world: World) -> None:
    world.apply()
    await world.wait(20)
    calls = list(world.pods.calls)
    serve(world)
    world.apply(powerState="Stopped")
    await world.wait(400)
    assert world.stalled().startswith("AccountNotAllowed: ")
    assert world.pods.calls == calls
    assert [each.status for each in world.pods.live] == ["running"]


async def test_what_was_made_before_is_ended_when_its_object_is_deleted(world: World) -> None:
    world.apply()
    await world.wait(20)
    serve(world)
    await world.wait(400)
    world.delete()
    await world.wait(20)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (False, [], 1)

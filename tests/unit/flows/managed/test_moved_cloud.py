"""The account has another URL than a resource was created with: its cloud may be another."""

from dataclasses import replace

import pytest

from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import Identity
from relay_operator.engine.endpoints import Endpoints
from relay_operator.flows.managed import gather as gather_module
from relay_operator.flows.managed import predicates
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.former import KeptPods, former, status, uses
from tests.unit.flows.managed.world import NAMESPACE, World


def calls(world: World, endpoint: str) -> None:
    world.account.state = replace(world.account.ready, endpoints=Endpoints(endpoint))


@pytest.fixture
async def made(world: World) -> World:
    calls(world, "former")
    world.apply(recovery={"onTerminated": "Recreate"})
    await world.wait(60)
    assert world.reason() == "Running"
    calls(world, "other")
    return world


@pytest.fixture
async def kept(world: World) -> World:
    """A pod of a kind that has former ones; the account has another URL by now."""
    world.kind = KeptPods
    world.assemble()
    calls(world, "former")
    world.apply()
    await world.wait(60)
    calls(world, "other")
    return world


async def unanswered(world: World, *, acted: bool) -> None:
    """A create by the former URL whose outcome is not known."""
    calls(world, "former")
    world.pods.fail("create", lost(acted=acted))
    world.pods.fail("find", lost(acted=False))
    world.apply()
    await world.settle()


def recorded(world: World) -> str:
    identity = status(world).identity if world.kind is KeptPods else world.status().identity
    assert isinstance(identity, Identity)
    return identity.endpoint


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_the_other_cloud_does_not_find_is_neither_recreated_nor_let_go(made: World, deleted: bool) -> None:
    made.pods.hidden.add("pod-1")
    if deleted:
        made.delete()
    made.hint()
    await made.wait(2000)
    assert (made.exists(), made.status().id, recorded(made), made.pods.count("create")) == (True, "pod-1", "former", 1)
    assert (
        "another URL now than at the create, and its cloud does not find pod-1, which proves nothing" in made.stalled()
    )
    assert "gpurelay.dev/abandon=true" in made.stalled()
    calls(made, "former")
    made.pods.hidden.clear()
    await made.wait(600)
    assert (made.exists(), made.pods.count("create"), len(made.pods.live)) == (not deleted, 1, 0 if deleted else 1)


async def test_what_the_other_cloud_never_showed_is_not_ended_there_while_it_cannot_be_read(made: World) -> None:
    made.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    made.delete()
    await made.wait(600)
    assert (made.exists(), made.pods.count("delete")) == (True, 0)
    calls(made, "former")
    await made.wait(600)
    assert (made.exists(), made.pods.count("delete"), made.pods.live) == (True, 1, [])


async def test_what_it_shows_is_there_and_its_404_is_believed_from_then_on(made: World) -> None:
    made.hint()
    await made.wait(600)
    assert (made.reason(), recorded(made)) == ("Running", "other")
    writes = made.server.writes
    await made.wait(600)
    assert made.server.writes == writes
    del made.pods.records["pod-1"]
    await made.wait(2000)
    assert (made.status().id, made.pods.count("create")) == ("pod-2", 2)


async def test_nothing_is_written_that_an_older_crd_would_drop(made: World) -> None:
    made.reconciler.engine.served.outdated = "the CRDs are older"
    made.hint()
    await made.wait(600)
    assert recorded(made) == "former"


async def test_what_an_early_release_recorded_says_where_it_is_once_it_is_shown(world: World) -> None:
    world.apply(recovery={"onTerminated": "Recreate"})
    await world.wait(60)
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"identity": None}}, status=True)
    calls(world, "former")
    world.hint()
    await world.wait(600)
    uid = world.obj().metadata.uid
    assert world.status().identity == Identity(
        installation="c0ffe", namespace=NAMESPACE, name="train", uid=uid, organization="org-1", endpoint="former"
    )
    calls(world, "other")
    world.pods.hidden.add("pod-1")
    world.hint()
    await world.wait(2000)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


@pytest.mark.parametrize("name", ["", "somebody's"])
async def test_what_does_not_have_its_name_there_does_not_show_the_same_cloud(made: World, name: str) -> None:
    made.pods.records["pod-1"] = made.pods.records["pod-1"].model_copy(update={"name": name})
    made.hint()
    await made.wait(600)
    assert (made.status().id, recorded(made)) == ("pod-1", "former")


async def test_what_has_no_names_in_the_cloud_is_shown_by_its_id(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "nameless", lambda _resource: True)
    calls(world, "former")
    world.apply()
    await world.wait(60)
    world.pods.records["pod-1"] = world.pods.records["pod-1"].model_copy(update={"name": ""})
    calls(world, "other")
    world.hint()
    await world.wait(600)
    assert (world.status().id, recorded(world)) == ("pod-1", "other")


async def test_a_former_resource_that_the_other_cloud_showed_is_ended_there(kept: World) -> None:
    beside = kept.pods.add("nightly")
    row: Json = {"former": [{"id": beside.id, "name": "nightly"}]}
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": row}, status=True)
    kept.pods.on_call = lambda call: kept.pods.hidden.add(beside.id) if call == "delete" else None
    await kept.wait(2000)
    assert (former(kept), recorded(kept)) == ([], "other")


async def test_a_lost_create_of_what_a_name_does_not_prove_is_not_looked_for_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks alike in the other cloud is somebody else's."""
    await unanswered(world, acted=True)
    monkeypatch.setattr(gather_module, "nameless", lambda _resource: True)
    calls(world, "other")
    await world.wait(600)
    assert world.stalled().startswith("IdentityMismatch: what was created for this object was created with another URL")
    assert world.status().id is None


@pytest.mark.parametrize("listable", [True, False])
@pytest.mark.parametrize("by_name", [False, True])
async def test_a_create_without_an_answer_is_not_sent_to_another_cloud(
    world: World, *, by_name: bool, listable: bool
) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=by_name)
    world.pods.listable = listable
    await unanswered(world, acted=False)
    calls(world, "other")
    await world.wait(2000)
    assert (world.pods.count("create"), world.status().id) == (1, None)
    assert world.stalled().startswith("CreateOutcomeUnknown")
    assert "gpurelay.dev/retry-create" in world.stalled()
    if not listable:
        assert "another URL now than at the create, and its cloud may be another" in world.stalled()
        assert "ask the cloud of that URL: look in the cloud for a resource named" in world.stalled()
        return
    assert "another URL now than at the create, and its cloud does not show" in world.stalled()
    calls(world, "former")
    world.hint()
    await world.wait(4000)
    assert (world.status().id, recorded(world), world.pods.count("create")) == ("pod-1", "former", 2)


async def test_a_create_without_an_answer_is_found_by_another_url(world: World) -> None:
    await unanswered(world, acted=True)
    calls(world, "other")
    await world.wait(600)
    assert (world.status().id, recorded(world), world.pods.count("create")) == ("pod-1", "other", 1)


async def test_a_former_resource_is_gone_if_the_cloud_that_shows_the_present_one_does_not_find_it(kept: World) -> None:
    beside: Json = {"former": [{"id": "pod-9", "name": "n"}]}
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": beside}, status=True)
    await kept.wait(2000)
    assert (former(kept), recorded(kept)) == ([], "other")


async def test_what_is_shown_with_a_former_one_that_is_used_is_there(kept: World) -> None:
    beside: Json = {"former": [{"id": "pod-9", "name": "n"}]}
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": beside}, status=True)
    uses(kept, 10, "pod-9")
    await kept.wait(2000)
    assert (former(kept), recorded(kept)) == (["pod-9"], "other")


async def test_what_is_set_aside_when_the_cloud_shows_it_is_there(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    kept.server.edit("gpupods", NAMESPACE, "train", {"spec": {"image": "b", "updateStrategy": {"type": "Recreate"}}})
    await kept.wait(2000)
    assert (former(kept), recorded(kept), kept.pods.count("create")) == ([first], "other", 2)


async def test_a_former_resource_is_not_gone_because_something_without_its_name_is_shown(kept: World) -> None:
    (first,) = kept.pods.records
    kept.pods.records[first] = kept.pods.records[first].model_copy(update={"name": ""})
    beside: Json = {"former": [{"id": "pod-9", "name": "n"}]}
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": beside}, status=True)
    await kept.wait(2000)
    assert (former(kept), recorded(kept)) == (["pod-9"], "former")


async def test_a_former_resource_stays_in_its_cloud(kept: World) -> None:
    """Neither is another created beside it, nor does the other cloud's 404 prove its end."""
    (first,) = kept.pods.records
    row: Json = {"id": first, "name": kept.pods.records[first].name}
    cleared: Json = {**dict.fromkeys(("id", "cloudName", "state")), "former": [row]}
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": cleared}, status=True)
    kept.pods.hidden.add(first)
    await kept.wait(2000)
    assert kept.pods.count("create") == 1
    assert former(kept) == [first]
    assert (status(kept).id, recorded(kept)) == (None, "former")
    assert kept.condition(ConditionType.STALLED) is not None

"""Whose a resource is: what copies and hand-written intents say is not taken at its word."""

import json
from dataclasses import replace

import pytest

from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import (
    ADOPT_ID,
    CREATE_INTENT,
    FINALIZER,
    PAUSED,
    CreateIntent,
    Identity,
    MalformedIntent,
    ObjectKey,
    ObjectMeta,
)
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine import identity
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.identity import Whose
from relay_operator.engine.intent import cloud_name
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.copies import copy_of
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

UID = "1234abcd-5678-4ef0-9abc-def012345678"


META = ObjectMeta(name="train", namespace="team-a", uid=UID)


OWN = Identity(installation="c0ffe", namespace="team-a", name="train", uid=UID, organization="org-1")


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (OWN, Whose.OWN),
        (OWN.model_copy(update={"uid": "another"}), Whose.RESTORED),
        (OWN.model_copy(update={"name": "other"}), Whose.FOREIGN),
        (OWN.model_copy(update={"namespace": "team-b"}), Whose.FOREIGN),
        (OWN.model_copy(update={"installation": "beef0"}), Whose.ELSEWHERE),
        (OWN.model_copy(update={"installation": "beef0", "uid": "another"}), Whose.FOREIGN),
        (OWN.model_copy(update={"organization": "org-2"}), Whose.OWN),
    ],
    ids=[
        "own",
        "restored",
        "another name",
        "another namespace",
        "another installation",
        "another cluster",
        "another organization",
    ],
)
def test_what_a_recorded_identity_says(recorded: Identity, said: Whose) -> None:
    assert identity.whose(recorded, META, "c0ffe") is said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("team-a-train-1234abcd56", Whose.OWN),
        ("team-a-train-1234abcd56-7", Whose.OWN),
        ("team-a-train-ffffabcd56", Whose.RESTORED),
        ("team-b-train-ffffabcd56-2", Whose.FOREIGN),
        ("team-a-trainer-ffffabcd56", Whose.FOREIGN),
        ("team-a-train-deadbeef00-1234abcd56", Whose.OWN),
        ("team-a-train-deadbeef00-1234abcd56-2", Whose.OWN),
        ("people named it so", Whose.OWN),
    ],
)
def test_a_status_of_the_first_release_is_known_by_the_name_that_was_given(name: str, said: Whose) -> None:
    assert identity.whose_status(GpuPodStatus(id="pod-1", cloud_name=name), META, "c0ffe") is said


def test_what_a_person_named_is_the_objects_own_whatever_its_name() -> None:
    meta = META.model_copy(update={"annotations": {ADOPT_ID: "pod-1"}})
    given = GpuPodStatus(id="pod-1", cloud_name="team-b-other-ffffabcd56")
    assert identity.whose_status(given, meta, "c0ffe") is Whose.OWN


@pytest.mark.parametrize("where", ["c0ffe", ""], ids=["this release", "the first"])
@pytest.mark.parametrize("attempt", [1, 2, 31])
def test_an_object_knows_the_names_that_it_gave(where: str, attempt: int) -> None:
    name = cloud_name("team-a", "train", UID, where, attempt)
    assert identity.gave(META, UID, "c0ffe", name)
    assert not identity.gave(META, "another", "c0ffe", name)
    assert not identity.gave(META, UID, "c0ffe", cloud_name("team-a", "train", UID, "beef0", attempt))


def test_two_clusters_give_two_names_and_one_cluster_the_same() -> None:
    assert identity.installation_of("a") == identity.installation_of("a") != identity.installation_of("b")
    assert len(identity.installation_of("a")) == 5


async def test_intent_and_status_say_for_whom(world: World) -> None:
    world.apply()
    await world.settle()
    uid = world.obj().metadata.uid
    recorded = Identity(installation="c0ffe", namespace=NAMESPACE, name="train", uid=uid, organization="org-1")
    assert (world.status().identity, world.readable_intent().identity) == (recorded, recorded)


@pytest.mark.parametrize("identified", [False, True], ids=["without an identity", "without an endpoint"])
async def test_what_is_recorded_is_the_account_that_was_called_whatever_the_intent_says(
    world: World, *, identified: bool
) -> None:
    """A hand-written intent finds the id of somebody else's resource in a cloud of one's own."""
    world.account.state = replace(world.account.ready, endpoints=Endpoints("own"))
    world.apply(annotations={meta.PAUSED: "true"})
    await world.settle()
    name = cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 1)
    found = world.pods.add(name)
    forged = CreateIntent(token="abcdef", name=name, attempt=1, spec_hash="", started_at=world.clock.wall())
    if identified:
        forged = forged.model_copy(update={"identity": OWN.model_copy(update={"uid": world.obj().metadata.uid})})
    world.annotate(create_intent=forged.to_annotation(), paused=None)
    await world.settle()
    recorded = world.status().identity
    assert world.status().id == found.id
    assert recorded == OWN.model_copy(update={"uid": world.obj().metadata.uid, "endpoint": "own"})
    assert world.status().account == AccountRef(kind=AccountKind.CLOUD_ACCOUNT, name="default")


@pytest.mark.parametrize("metadata", [{"name": "other"}, {"namespace": "team-b"}], ids=["name", "namespace"])
async def test_a_copy_has_its_own(world: World, metadata: Json) -> None:
    world.apply()
    await world.settle()
    world.server.put("gpupods", copy_of(world.raw(), **metadata))
    await world.wait(10)
    assert len(world.pods.live) == 2
    namespace, name = str(metadata.get("namespace", NAMESPACE)), str(metadata.get("name", "train"))
    made = part(world.server.objects["gpupods", namespace, name], "status")
    assert (made["id"], part(made, "identity")["name"]) == ("pod-2", name)
    world.server.remove("gpupods", namespace, name)
    await world.wait(10)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]


async def test_a_copy_that_is_deleted_at_once_ends_nothing(world: World) -> None:
    world.apply()
    await world.settle()
    world.annotate(paused="true")
    await world.settle()
    world.server.put("gpupods", copy_of(world.raw(), name="other"))
    world.server.remove("gpupods", NAMESPACE, "other")
    await world.settle()
    world.annotate("other", paused=None)
    await world.wait(10)
    assert not world.exists("other")
    assert ([record.id for record in world.pods.live], world.pods.count("delete")) == (["pod-1"], 0)


async def test_what_a_copy_says_of_an_open_intent_is_nothing(world: World) -> None:
    """The original's status is lost and its intent open, when a copy that has the status comes."""
    world.apply()
    await world.settle()
    copied = copy_of(world.raw(), name="other")
    cleared: Json = {"status": dict.fromkeys(part(world.raw(), "status")) | {"observedGeneration": -1}}
    world.server.edit("gpupods", NAMESPACE, "train", cleared, status=True)
    world.server.put("gpupods", copied)
    await world.wait(20)
    assert (world.status().id, world.status("other").id, len(world.pods.live)) == ("pod-1", "pod-2", 2)


async def test_a_token_that_an_object_of_another_cloud_records_says_nothing(world: World) -> None:
    """A tenant's own cloud shows what an intent with somebody's token names: the lost create is still looked for."""
    world.pods.fail("create", lost(acted=True))
    world.pods.fail("find", lost(acted=False))
    world.cache.urls = ("https://real.example", "")
    for namespace, url in ((NAMESPACE, ""), ("team-b", "https://own.example")):
        account = ObjectKey("CloudAccount", namespace, "default")
        world.cache.put(
            account,
            {"metadata": {"uid": "a", "finalizers": [FINALIZER]}, "spec": {"apiKeySecretRef": {}, "baseUrl": url}},
        )
    world.apply()
    await world.settle()
    copied: Json = {"createToken": world.readable_intent().token, "id": "pod-9"}
    world.cache.put(ObjectKey("GpuPod", "team-b", "theirs"), {"metadata": {"uid": "b"}, "status": copied})
    await world.wait(600)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


async def test_an_intent_written_by_hand_finds_nothing_of_others(world: World) -> None:
    world.account.share()
    world.pods.add("somebody's pod")
    forged = CreateIntent(token="t", name="somebody's pod", attempt=1, spec_hash="", started_at=world.clock.wall())
    world.apply(annotations={CREATE_INTENT: forged.to_annotation()})
    await world.wait(10)
    assert (world.status().id, len(world.pods.live)) == ("pod-2", 2)
    world.delete()
    await world.wait(10)
    assert [record.id for record in world.pods.live] == ["pod-1"]


@pytest.mark.parametrize("sent", [True, False], ids=["an id", "an open intent"])
async def test_what_is_in_another_organization_is_neither_gone_nor_made_again(world: World, sent: bool) -> None:
    if not sent:
        world.pods.fail("create", lost(acted=True))
    world.apply(recovery={"onTerminated": "Recreate"})
    await world.one_pass()
    former = world.account.ready
    world.account.state = replace(former, organization_id="org-2")
    hidden = dict(world.pods.records)
    world.pods.records.clear()
    await world.wait(700)
    assert (world.reason() if not sent else world.status().id, world.pods.count("create")) == (
        ("IdentityMismatch" if not sent else "pod-1"),
        1,
    )
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert "org-1" in stalled.message
    world.delete()
    await world.wait(700)
    assert world.exists(), "what is in the other organization is not gone"
    world.pods.records |= hidden
    world.account.state = former
    await world.wait(700)
    assert (world.exists(), world.pods.live) == (False, [])


@pytest.mark.parametrize("answered", [True, False], ids=["an id", "an open intent"])
async def test_under_another_installation_nothing_is_made_again_or_forgotten(world: World, answered: bool) -> None:
    """The setting changed, or was lost; or etcd was copied, and both clusters are served."""
    if not answered:
        world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    world.installation = "beef0"
    await world.restart()
    await world.wait(700)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, world.pods.count("create")) == ("IdentityMismatch", 1)
    assert "RELAY_INSTALLATION=c0ffe" in stalled.message
    world.delete()
    await world.wait(700)
    assert (world.exists(), len(world.pods.live)) == (True, 1)
    world.installation = "c0ffe"
    await world.restart()
    await world.wait(700)
    assert (world.exists(), world.pods.live) == (False, [])


def test_an_intent_of_the_first_release_is_read_and_one_says_for_whom() -> None:
    old = CreateIntent(token="t", name="n", attempt=1, spec_hash="", started_at=BEGINNING)
    assert "identity" not in json.loads(old.to_annotation())
    assert identity.whose_intent(old, META, "c0ffe") is Whose.OWN
    new = old.model_copy(update={"identity": OWN})
    assert CreateIntent.parse(new.to_annotation()) == new
    assert not isinstance(new, MalformedIntent)


async def test_an_intent_of_the_first_release_that_was_copied_finds_nothing_of_the_original(world: World) -> None:
    world.apply()
    await world.settle()
    copied = world.readable_intent().model_copy(update={"identity": None})
    world.apply("other", annotations={CREATE_INTENT: copied.to_annotation()})
    await world.wait(10)
    assert (world.status().id, world.status("other").id, world.pods.count("find")) == ("pod-1", "pod-2", 0)


async def test_an_intent_written_by_hand_takes_nothing_from_whoever_has_it(world: World) -> None:
    found = world.pods.add("somebody's pod")
    world.apply("heir", annotations={ADOPT_ID: found.id})
    await world.wait(10)
    forged = CreateIntent(token="t", name=found.name, attempt=1, spec_hash="", started_at=world.clock.wall())
    world.apply(annotations={CREATE_INTENT: forged.to_annotation()})
    await world.wait(10)
    assert (world.status("heir").id, world.status().id, world.pods.count("find")) == ("pod-1", "pod-2", 1)


async def test_an_intent_written_by_hand_takes_nothing_whose_id_is_on_its_way(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply("heir")
    await world.settle()
    world.pods.listable = True
    name = world.pods.records["pod-1"].name
    forged = CreateIntent(token="t", name=name, attempt=1, spec_hash="", started_at=world.clock.wall())
    world.apply(annotations={CREATE_INTENT: forged.to_annotation()})
    await world.wait(10)
    assert (world.status("heir").id, world.status().id, len(world.pods.live)) == ("pod-1", "pod-2", 2)


async def test_adopt_id_refuses_what_was_made_for_another_that_does_not_know_its_id_yet(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply("owner")
    await world.settle()
    world.apply(annotations={ADOPT_ID: "pod-1"})
    await world.wait(10)
    assert (world.reason(), world.status().id) == ("AdoptionRefused", None)
    assert "pod-1 belongs to GpuPod/team-a/owner" in str(world.condition(ConditionType.STALLED))
    world.pods.listable = True
    await world.wait(120)
    assert (world.status("owner").id, world.status().id, len(world.pods.live)) == ("pod-1", None, 1)
    world.annotate(adopt_id=None)
    await world.wait(10)
    assert (world.status().id, len(world.pods.live)) == ("pod-2", 2)


async def test_an_id_that_somebody_put_into_status_and_that_is_gone_leaves_no_create_to_be_searched_for(
    world: World,
) -> None:
    world.pods.listable = False
    world.apply(recovery={"onTerminated": "Recreate"}, annotations={PAUSED: "true"})
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"id": "pod-99"}}, status=True)
    world.annotate(paused=None)
    await world.wait(60)
    assert (world.reason(), world.status().id, world.pods.count("create")) == ("Running", "pod-1", 1)


async def test_what_a_create_led_to_is_not_made_again_if_another_object_records_it(world: World) -> None:
    """The status of the other one was forged, or is of a release that did not look at names."""
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.settle()
    world.apply("other", annotations={ADOPT_ID: world.pods.add("by-hand").id})
    await world.wait(10)
    world.server.edit("gpupods", NAMESPACE, "other", {"status": {"id": "pod-1", "cloudName": None}}, status=True)
    world.pods.listable = True
    await world.wait(120)
    assert (world.reason(), world.status().id, world.pods.count("create")) == ("AdoptionRefused", None, 1)
    assert "pod-1 belongs to GpuPod/team-a/other" in str(world.condition(ConditionType.STALLED))


async def test_adopt_id_takes_what_was_made_for_an_object_that_is_gone(world: World) -> None:
    world.apply("owner")
    await world.settle()
    world.delete("owner", force=True)
    await world.settle()
    world.apply(annotations={ADOPT_ID: "pod-1"})
    await world.wait(10)
    assert (world.status().id, len(world.pods.created)) == ("pod-1", 1)


async def test_on_a_shared_account_an_object_finds_what_its_own_create_led_to(world: World) -> None:
    world.account.share()
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(60)
    assert (world.status().id, len(world.pods.created)) == ("pod-1", 1)


async def test_what_is_no_id_is_neither_sent_nor_adopted(world: World) -> None:
    world.apply(annotations={ADOPT_ID: "pod-1/../../keys"})
    await world.wait(10)
    assert (world.reason(), world.pods.calls) == ("AdoptionRefused", [])

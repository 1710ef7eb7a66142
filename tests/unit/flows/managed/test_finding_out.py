"""Finding out what became of a create whose answer is lost: nothing is guessed or taken twice."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.intent import cloud_name
from tests.unit.engine.apiserver import status_fault
from tests.unit.flows.managed.cloudpods import POD, lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def unknown(world: World, *, acted: bool, listable: bool = False) -> None:
    """A create whose answer is lost, looked for until it is late."""
    world.pods.listable = listable
    world.pods.fail("create", lost(acted=acted))
    world.apply()
    await world.wait(200)


async def test_what_nobody_can_find_out_is_held_and_says_both_ways_out(world: World) -> None:
    await unknown(world, acted=True)
    intent = world.readable_intent()
    told = world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN)
    assert told is not None
    assert told.reason == Reason.CREATE_OUTCOME_UNKNOWN
    assert f"retry-create={intent.token}" in told.message
    assert "adopt-id" in told.message
    assert intent.name in told.message
    await world.wait(5000, step=10)
    assert world.pods.count("create") == 1


def _silent(world: World) -> None:
    world.pods.fail("find", *[lost(acted=False)] * 50)
    world.annotate(reconcile_at="now")


def _without_its_secret(world: World) -> None:
    world.account.state = AccountWaiting(Reason.SECRET_MISSING, "the Secret is gone")
    world.hint()


BLIND: dict[str, tuple[Callable[[World], None], Reason]] = {
    "paused": (lambda world: world.annotate(paused="true"), Reason.PAUSED),
    "a silent cloud": (_silent, Reason.CLOUD_UNAVAILABLE),
    "an account without its Secret": (_without_its_secret, Reason.WAITING_FOR_ACCOUNT),
}


@pytest.mark.parametrize(("begin", "reason"), BLIND.values(), ids=BLIND)
async def test_what_is_unknown_stays_told_while_the_cloud_is_not_read(
    world: World, begin: Callable[[World], None], reason: Reason
) -> None:
    await unknown(world, acted=True)
    before = world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN)
    begin(world)
    await world.wait(60)
    told = world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN)
    assert told is not None
    assert before is not None
    assert (told.message, told.last_transition_time) == (before.message, before.last_transition_time)
    assert reason in {each.reason for each in world.status().conditions}


async def test_it_is_searching_before_it_is_late(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(30)
    told = "what was made is searched for until 60 s after the create"  # nobody has to look for it yet
    assert (world.reason(), world.message()) == ("Searching", told)
    assert world.condition(ConditionType.STALLED) is None


@pytest.mark.parametrize(("listable", "seconds"), [(True, 606), (False, 61)])
async def test_what_became_of_a_create_is_known_as_soon_as_it_can_be(
    world: World, listable: bool, seconds: int
) -> None:
    """With a list ten minutes after the first look, and the time between two; without one people are asked in one."""
    world.pods.listable = listable
    world.pods.fail("create", lost(acted=False))
    world.apply()
    await world.wait(seconds - 6)
    assert world.reason() == "Searching"
    await world.wait(6)
    assert world.reason() == ("Running" if listable else "CreateOutcomeUnknown")


async def test_what_is_gone_is_believed_as_soon_as_it_can_be(world: World) -> None:
    world.apply()
    await world.wait(100)
    del world.pods.records["pod-1"]
    world.hint()
    await world.settle()
    assert world.reason() == "Searching"
    await world.wait(5)
    assert world.reason() == "TerminatedExternally"


async def test_a_persons_word_closes_the_intent_and_makes_another(world: World) -> None:
    await unknown(world, acted=False)
    intent = world.readable_intent()
    world.annotate(retry_create="another-token")
    await world.settle()
    assert world.pods.count("create") == 1
    world.annotate(retry_create=intent.token)
    await world.settle()
    assert world.pods.created == [f"{intent.name}-2"]


async def test_adopt_id_answers_an_open_intent_although_the_image_differs(world: World) -> None:
    await unknown(world, acted=True)
    world.change(image="another")
    world.annotate(adopt_id="pod-1")
    await world.wait(10)
    assert world.status().id == "pod-1"
    assert world.pods.count("create") == 1


async def test_adopt_id_of_something_else_leaves_the_intent_open(world: World) -> None:
    await unknown(world, acted=True)
    intent, found = world.intent(), world.pods.add("made-by-hand", fields=POD)
    assert isinstance(intent, meta.CreateIntent)
    world.annotate(adopt_id=found.id)
    await world.wait(10)
    assert "pod-2 is named 'made-by-hand' in the cloud, so the create did not make it" in world.message()
    assert f"retry-create={intent.token}" in world.message()
    assert (world.status().id, world.reason()) == (None, "CreateOutcomeUnknown")
    world.delete()
    await world.wait(700)
    assert world.exists(), "what was created may run"
    world.annotate(adopt_id="pod-1")
    await world.wait(10)
    assert (world.exists(), [record.id for record in world.pods.live]) == (False, ["pod-2"])


async def test_what_adopt_id_names_is_adopted_once_the_create_is_known_to_have_come_to_nothing(world: World) -> None:
    await unknown(world, acted=False)
    found = world.pods.add("made-by-hand", fields=POD)
    world.annotate(adopt_id=found.id)
    world.pods.listable = True
    await world.wait(700)
    assert (world.status().id, world.reason(), world.pods.count("create")) == (found.id, "Running", 1)


async def test_the_search_goes_on_whatever_adopt_id_names(world: World) -> None:
    await unknown(world, acted=True)
    world.annotate(adopt_id="pod-99")
    world.pods.listable = True
    world.hint()
    await world.wait(10)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


@pytest.mark.parametrize(("name", "taken"), [("own", True), ("made-by-hand", False)])
async def test_of_an_intent_that_cannot_be_read_adopt_id_takes_what_has_a_name_of_the_object(
    world: World, name: str, taken: bool
) -> None:
    world.apply(annotations={meta.CREATE_INTENT: "{broken"})
    await world.wait(10)
    own = cloud_name(NAMESPACE, "train", world.obj().metadata.uid, "c0ffe", 3)
    found = world.pods.add(own if name == "own" else name, fields=POD)
    world.annotate(adopt_id=found.id)
    await world.wait(10)
    assert world.status().id == (found.id if taken else None)
    assert world.pods.count("create") == 0


def replaced(world: World, intent: meta.CreateIntent | None = None) -> None:
    """`kubectl replace` with a manifest that has neither finalizer nor intent, or a former one."""
    text = None if intent is None else intent.to_annotation()
    changed: dict[str, JsonValue] = {"finalizers": None, "annotations": {meta.CREATE_INTENT: text}}
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": changed})


@pytest.mark.parametrize("listable", [True, False])
@pytest.mark.parametrize("before", [0, 1], ids=["first attempt", "second, with the first one's intent"])
async def test_an_intent_that_is_replaced_in_mid_create_is_put_back(world: World, listable: bool, before: int) -> None:
    """And the answer is lost: nothing but this process's memory tells that something was sent."""
    world.pods.fail("create", *[refused(CapacityExhausted)] * before, lost(acted=True))
    world.pods.listable = listable
    former: list[meta.CreateIntent] = []

    def replaces(call: str) -> None:
        if call == "create":
            replaced(world, former[0] if former else None)

    world.apply()
    if before:
        await world.one_pass()
        intent = world.readable_intent()
        former.append(intent)
    world.pods.on_call = replaces
    await world.wait(120)
    assert world.pods.count("create") == before + 1
    intent = world.readable_intent()
    assert (intent.name, intent.attempt) == (world.pods.created[0], before + 1)
    assert meta.FINALIZER in world.obj().metadata.finalizers
    if not listable:
        assert f"retry-create={intent.token}" in world.message()
        world.annotate(adopt_id="pod-1")
        await world.wait(10)
    assert (world.status().id, world.status().create_token) == ("pod-1", intent.token)


async def test_an_intent_that_vanishes_while_it_is_searched_for_is_put_back(world: World) -> None:
    """Another process opened it."""
    await unknown(world, acted=True)
    await world.restart()
    await world.settle()
    intent = world.intent()
    world.annotate(paused="true")
    replaced(world)
    await world.wait(700)
    assert (world.intent(), world.obj().metadata.finalizers) == (intent, [meta.FINALIZER])
    world.annotate(paused=None)
    world.delete()
    await world.wait(700)
    assert (world.exists(), world.pods.count("create")) == (True, 1)
    world.annotate(adopt_id="pod-1")
    await world.wait(10)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_finalizer_that_is_taken_off_while_a_create_is_searched_for_is_put_back(world: World) -> None:
    await unknown(world, acted=True)
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": None}})
    await world.settle()
    assert world.obj().metadata.finalizers == [meta.FINALIZER]


async def test_an_adoption_that_was_cut_off_is_gone_on_with(world: World) -> None:
    """Of what has no name, or a long one."""
    found = world.pods.add("a" * 80, fields=POD)
    world.server.faults.append(status_fault(500, times=3))
    world.apply(annotations={meta.ADOPT_ID: found.id})
    await world.one_pass()
    assert (world.status().id, isinstance(world.intent(), meta.CreateIntent)) == (None, True)
    await world.restart()
    await world.wait(10)
    assert (world.status().id, world.pods.count("create")) == (found.id, 0)


async def test_adopt_id_of_something_that_is_not_there_keeps_the_intent_open(world: World) -> None:
    await unknown(world, acted=False)
    world.annotate(adopt_id="pod-99")
    await world.wait(10)
    assert "the cloud does not find pod-99" in world.message()
    assert (world.status().id, world.pods.count("create")) == (None, 1)


async def test_a_webhooks_sighting_decides_where_the_cloud_has_no_list(world: World) -> None:
    await unknown(world, acted=True)
    world.account.ready.unclaimed.add("pod-1")
    world.hint()
    await world.wait(10)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


async def test_a_search_that_takes_more_than_one_pass_is_gone_on_with_at_once(world: World) -> None:
    await unknown(world, acted=True)
    world.pods.listable, world.pods.more_to_find = True, 5
    searches, since = world.pods.count("find"), world.clock.seconds
    world.hint()
    await world.settle()
    assert (world.pods.count("find") - searches, world.clock.seconds - since) == (6, 0)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


@pytest.mark.parametrize("resend", [True, False])
async def test_an_intent_that_cannot_be_read_is_held_without_a_loop(world: World, resend: bool) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=resend)
    world.apply(annotations={meta.CREATE_INTENT: "{broken"})
    await world.wait(400)
    assert world.pods.count("create") == 0
    assert "create-intent cannot be read" in world.message()
    world.annotate(retry_create="yes")
    await world.wait(10)
    assert world.pods.count("create") == 1


async def test_an_intent_with_an_account_that_cannot_exist_says_so_and_people_can_close_it(world: World) -> None:
    written = {"token": "t1", "name": "n1", "attempt": 1, "specHash": "", "startedAt": "2026-03-01T12:00:00Z"}
    world.apply(annotations={meta.CREATE_INTENT: json.dumps(written | {"account": "CloudAccount/Bad_Name"})})
    await world.wait(10)
    assert "create-intent cannot be read: account: " in world.message()
    world.annotate(retry_create="yes")
    world.delete()
    await world.wait(10)
    assert (world.exists(), world.pods.count("create")) == (False, 0)


async def test_the_end_of_an_earlier_create_does_not_close_an_intent_that_cannot_be_read(world: World) -> None:
    """A second create was sent, its process ended, and somebody spoiled the annotation."""
    world.apply(annotations={meta.CREATE_INTENT: "{broken"})
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"createToken": "t1", "attempt": 1}}, status=True)
    await world.wait(400)
    assert world.pods.count("create") == 0
    assert "create-intent cannot be read" in world.message()
    world.annotate(retry_create="yes")
    await world.wait(10)
    assert world.pods.count("create") == 1


async def test_a_wiped_annotation_is_put_back_and_nothing_is_made_again(world: World) -> None:
    """What `kubectl replace` does."""
    world.apply()
    await world.settle()
    before = world.intent()
    world.server.edit(
        "gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [], "annotations": {meta.CREATE_INTENT: None}}}
    )
    await world.settle()
    after = world.intent()
    assert isinstance(before, meta.CreateIntent)
    assert isinstance(after, meta.CreateIntent)
    assert after == before.model_copy(update={"started_at": after.started_at})
    assert world.obj().metadata.finalizers == [meta.FINALIZER]
    assert world.pods.count("create") == 1


async def test_a_restore_without_status_finds_what_was_made(world: World) -> None:
    world.apply()
    await world.settle()
    fields = {name: None for name in world.status().model_dump(by_alias=True) if name != "observedGeneration"}
    status: dict[str, JsonValue] = {**fields, "observedGeneration": -1}
    world.server.edit("gpupods", NAMESPACE, "train", {"status": status}, status=True)
    await world.wait(10)
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


async def test_a_restore_without_status_and_annotation_of_a_known_id_is_protected_again(world: World) -> None:
    world.apply()
    await world.settle()
    wiped: dict[str, JsonValue] = {"createToken": None, "account": None, "attempt": None, "specHash": None}
    world.server.edit("gpupods", NAMESPACE, "train", {"status": wiped}, status=True)
    annotations: dict[str, JsonValue] = {meta.CREATE_INTENT: None}
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"annotations": annotations}})
    await world.restart()
    await world.wait(10)
    intent = world.readable_intent()
    assert (intent.account, intent.attempt) == ("", 1)
    assert world.pods.count("create") == 1


@pytest.mark.parametrize("listable", [True, False])
async def test_a_copied_object_makes_its_own(world: World, listable: bool) -> None:
    """`kubectl get -o yaml`, another name, `kubectl apply`: the intent's annotation comes along."""
    world.pods.listable = listable
    world.apply("first")
    await world.settle()
    world.apply("second", annotations={meta.CREATE_INTENT: world.readable_intent("first").to_annotation()})
    await world.settle()
    assert world.status("second").id == "pod-2"
    assert len(set(world.pods.created)) == 2


async def test_a_copy_of_an_object_whose_token_was_lost_does_not_take_its_resource(world: World) -> None:
    world.apply("first")
    await world.settle()
    intent = world.readable_intent("first")
    world.server.edit("gpupods", NAMESPACE, "first", {"status": {"createToken": "older"}}, status=True)
    world.apply("second", annotations={meta.CREATE_INTENT: intent.to_annotation()})
    await world.wait(10)
    assert (world.status("first").id, world.status("second").id) == ("pod-1", "pod-2")


async def test_a_recorded_id_of_another_name_is_not_touched(world: World) -> None:
    world.apply()
    await world.settle()
    other = world.pods.add("somebody-elses")
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"id": other.id}}, status=True)
    world.hint()
    await world.settle()
    assert world.reason() == "IdentityMismatch"
    world.delete()
    await world.wait(400)
    assert (world.exists(), world.pods.records[other.id].status) == (True, "running")


async def test_an_intent_is_followed_to_the_account_it_was_sent_with(world: World) -> None:
    await unknown(world, acted=True)
    edited = json.loads(world.readable_intent().to_annotation()) | {"account": "ClusterCloudAccount/shared"}
    world.annotate(create_intent=json.dumps(edited))
    world.account.asked.clear()
    world.hint()
    await world.settle()
    asked = world.account.asked[-1]
    assert asked is not None
    assert (asked.kind, asked.name) == ("ClusterCloudAccount", "shared")


async def test_what_exists_is_asked_for_where_it_was_made(world: World) -> None:
    world.apply()
    await world.settle()
    assert world.account.asked[0] is None
    world.hint()
    await world.settle()
    asked = world.account.asked[-1]
    assert asked is not None
    assert (asked.kind, asked.name) == ("CloudAccount", "default")


async def test_what_is_unknown_stays_told_while_it_is_only_planned(world: World) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True), *[refused(CapacityExhausted)] * 99)
    world.apply()
    await world.wait(100)
    world.annotate(plan_only="true")
    await world.wait(400)
    assert world.reason() == "PlanOnly"
    assert world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN) is not None

"""What is not ended before another is there: put aside, kept as long as something uses it, and ended then."""

import json
from itertools import cycle

import pytest
from pydantic import JsonValue

from relay_client import BadRequest, NotFound
from relay_kube.kube import SECRETS
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import MAX_FORMER, Former, ManagedStatus
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.manifests import part
from relay_operator.engine.persist import PaidFor
from relay_operator.flows.managed.former import unused
from tests.unit.engine.apiserver import Call, Json, encoded
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.former import TOLD, VM, KeptPods, KeptStatus, former, status, uses
from tests.unit.flows.managed.world import NAMESPACE, World

POD = ObjectKey("GpuPod", NAMESPACE, "train")
ENV: JsonValue = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "A"}}}]
RECREATE: JsonValue = {"type": "Recreate"}


@pytest.fixture
async def kept(world: World) -> World:
    """A pod that was made with a Secret, and runs."""
    world.kind = KeptPods
    world.assemble()
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": encoded(A="first")})
    world.apply(env=ENV)
    await world.wait(60)
    assert world.reason() == "Running"
    return world


def secret(world: World, text: str) -> None:
    world.server.edit("secrets", NAMESPACE, "keys", {"data": encoded(A=text)})


async def poll(world: World) -> None:
    """Until a settled object was looked at once more."""
    await world.wait(400, step=10)


async def test_nothing_is_put_aside_while_its_account_is_being_deleted(kept: World) -> None:
    account = ObjectKey("CloudAccount", NAMESPACE, "default")
    metadata: JsonValue = {"name": "default", "namespace": NAMESPACE, "uid": "a", "deletionTimestamp": "2026-01-01"}
    kept.cache.put(account, {"metadata": metadata})
    secret(kept, "second")
    await poll(kept)
    assert (kept.reason(), len(kept.pods.live), former(kept)) == ("WaitingForAccount", 1, [])


async def test_a_changed_secret_makes_another_and_the_former_goes_if_nothing_uses_it(kept: World) -> None:
    (first,) = kept.pods.records
    secret(kept, "second")
    await poll(kept)
    assert kept.reason() == "Running"
    assert [inputs.env["TOKEN"] for _, inputs in kept.pods.sent] == ["first", "second"]
    assert kept.pods.created == [kept.pods.created[0], f"{kept.pods.created[0]}-2"]
    assert status(kept).id != first
    assert kept.pods.count("delete") == 1
    assert former(kept) == []
    await poll(kept)
    assert (len(kept.pods.created), kept.pods.count("delete")) == (2, 1)


async def test_the_former_stays_until_what_uses_it_is_gone_and_across_a_restart(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    assert former(kept) == [first]
    assert status(kept).id not in {first, None}
    secret(kept, "third")
    await poll(kept)
    assert former(kept) == [first]  # what nothing was made with went
    await kept.restart()
    uses(kept, 11, first)
    await poll(kept)
    assert former(kept) == [first]
    uses(kept, 12, status(kept).id or "")
    await poll(kept)
    assert former(kept) == []
    assert len(kept.pods.created) == 3


async def test_a_create_under_way_may_have_been_sent_with_the_former(world: World) -> None:
    """Only the fields of `REFERENCES` tell what it may have been sent with."""
    ada, aside = ObjectKey("SshKey", NAMESPACE, "ada"), KeptStatus(former=[Former(id="ssh-1", name="x")])
    assert unused(aside, world.cache, ada) == [Former(id="ssh-1", name="x")]
    assert not unused(ManagedStatus(), world.cache, ada)
    spec: JsonValue = {"sshKeyRefs": [{"name": "ada"}]}
    intent = {"token": "t", "name": "box", "attempt": 1, "specHash": "", "startedAt": "2026-03-01T12:00:00Z"}
    metadata = TOLD | {"resourceVersion": "10", "annotations": {meta.CREATE_INTENT: json.dumps(intent)}}
    world.cache.put(VM, {"metadata": metadata, "spec": spec})
    assert not unused(aside, world.cache, ada)
    world.cache.put(VM, {"metadata": TOLD | {"resourceVersion": "11"}, "spec": spec, "status": {"id": "vm-1"}})
    assert unused(aside, world.cache, ada)


async def test_garbage_is_told_and_nothing_is_put_aside_for_it(kept: World) -> None:
    secret(kept, "garbage")
    await poll(kept)
    assert kept.reason() == "EnvMissing"
    assert kept.condition(ConditionType.ENV_OUTDATED) is None
    assert len(kept.pods.created) == 1
    assert (former(kept), status(kept).id) == ([], next(iter(kept.pods.records)))
    secret(kept, "first")
    await poll(kept)
    assert kept.reason() == "Running"
    assert len(kept.pods.created) == 1


async def test_another_spec_is_forbidden_unless_the_strategy_says_so(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    kept.change(image="another")
    await kept.settle()
    assert kept.reason() == "ImmutableFieldChanged"
    kept.change(updateStrategy=RECREATE)
    await kept.wait(60)
    assert kept.reason() == "Running"
    assert former(kept) == [first]
    assert kept.pods.count("delete") == 0


async def test_a_create_that_is_refused_leaves_the_former_alone_and_is_tried_again(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    kept.pods.fail("create", refused(BadRequest))
    secret(kept, "second")
    await kept.wait(330, step=10)
    assert (kept.reason(), former(kept)) == ("SpecInvalid", [first])
    await poll(kept)
    assert (kept.reason(), former(kept)) == ("Running", [first])
    assert set(kept.pods.records) == {first, status(kept).id}


async def test_no_more_than_fit_are_put_aside(kept: World) -> None:
    rows: list[JsonValue] = [{"id": f"gone-{number}", "name": "x"} for number in range(MAX_FORMER)]
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": {"former": rows}}, status=True)
    uses(kept, 10, *(f"gone-{number}" for number in range(MAX_FORMER)))
    secret(kept, "second")
    await poll(kept)
    assert kept.reason() == "ImmutableFieldChanged"
    assert len(kept.pods.created) == 1
    uses(kept, 11)
    await kept.wait(310, step=10)
    assert 0 < len(former(kept)) < MAX_FORMER
    assert kept.reason() == "Creating"
    await kept.wait(900, step=0.5)
    assert (kept.reason(), former(kept), len(kept.pods.created)) == ("Running", [], 2)


@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
async def test_with_the_object_go_the_former_ones_unless_they_are_kept(kept: World, policy: str) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    assert former(kept) == [first]
    uses(kept, 11)
    kept.change(deletionPolicy=policy)
    kept.delete()
    await kept.wait(60)
    assert not kept.exists()
    assert kept.pods.count("delete") == (2 if policy == "Delete" else 0)
    assert len(kept.left_behind()) == (0 if policy == "Delete" else 2)


async def test_an_id_whose_write_is_late_is_not_ended_once_it_was_put_aside(kept: World) -> None:
    """This process was frozen; the next one found what it had made, put it aside and made another."""
    (first,) = kept.pods.records
    uses(kept, 10, first)

    def go_on(call: Call) -> None:
        if not call.status_write or '"pod-2"' not in call.body:
            return
        kept.server.before = lambda _: None
        second, third = kept.pods.records["pod-2"], kept.pods.add(kept.pods.created[0] + "-3")
        intent = kept.readable_intent()
        newer = intent.model_copy(update={"token": "token-9", "attempt": 3, "name": third.name}).to_annotation()
        kept.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"annotations": {meta.CREATE_INTENT: newer}}})
        rows: JsonValue = [{"id": first, "name": kept.pods.created[0]}, {"id": second.id, "name": second.name}]
        recorded: Json = {"id": third.id, "cloudName": third.name, "createToken": "token-9", "former": rows}
        kept.server.edit("gpupods", NAMESPACE, "train", {"status": recorded}, status=True)
        uses(kept, 11, first, second.id)

    kept.server.before = go_on
    secret(kept, "second")
    await poll(kept)
    assert (former(kept), status(kept).id) == ([first, "pod-2"], "pod-3")
    assert kept.pods.count("delete") == 0


async def test_what_was_kept_with_the_object_is_not_ended_for_a_process_that_knew_it_earlier(kept: World) -> None:
    """Which was frozen with the id of one that is gone by now."""
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    earlier: Json = {**kept.raw(), "status": {**part(kept.raw(), "status"), "id": "pod-9", "cloudName": "gone"}}
    assert former(kept) == [first]
    uses(kept, 11)
    kept.change(deletionPolicy="Orphan")
    kept.delete()
    await kept.wait(60)
    assert not kept.exists()
    await kept.informer.vanished.hand_over(POD, earlier)
    await poll(kept)
    assert (len(kept.pods.live), kept.pods.count("delete"), len(kept.left_behind())) == (2, 0, 2)


@pytest.fixture
async def between(kept: World) -> World:
    """The first is put aside, and the create of another is refused."""
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    kept.pods.fail("create", *[refused(BadRequest)] * 3)
    await kept.wait(330, step=10)
    assert (status(kept).id, former(kept)) == (None, [first])
    return kept


async def test_what_is_put_aside_is_kept_and_told_though_there_is_no_other_so_far(between: World) -> None:
    uses(between, 11)
    between.change(deletionPolicy="Orphan")
    between.delete()
    await poll(between)
    assert not between.exists()
    assert (len(between.left_behind()), between.pods.count("delete")) == (1, 0)


async def test_a_restored_object_that_has_only_former_ones_makes_its_own(between: World) -> None:
    kept_rows = former(between)
    identity: JsonValue = {"identity": {"uid": "of-a-former-object"}}
    between.server.edit("gpupods", NAMESPACE, "train", {"status": identity}, status=True)
    await between.wait(1200, step=10)
    assert (between.reason(), former(between)) == ("Running", kept_rows)


async def test_without_its_account_nothing_is_let_go(between: World) -> None:
    kept = between
    ready, kept.account.state = kept.account.state, AccountWaiting(Reason.ACCOUNT_MISSING, "there is none")
    kept.delete()
    await kept.wait(60)
    assert kept.exists()
    kept.account.state = ready
    await poll(kept)
    assert kept.reason() == "InUse"
    uses(kept, 11)
    kept.pods.fail("observe", lost(acted=False))
    await poll(kept)
    assert not kept.exists()
    assert kept.pods.live == []


async def test_what_has_another_name_is_told_and_left_alone(kept: World) -> None:
    """It is no evidence of an end, and others do not wait for it."""
    strangers = [kept.pods.add("somebody-elses", state).id for state in ("running", "terminated")]
    another = kept.pods.add("train").id
    rows: JsonValue = [{"id": cloud_id, "name": "train"} for cloud_id in (*strangers, another)]
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": {"former": rows}}, status=True)
    await kept.wait(1200, step=10)
    assert (former(kept), kept.pods.count("delete")) == (strangers, 1)
    assert kept.pods.records[another].status == "terminated"
    assert kept.stalled() == (
        f"IdentityMismatch: the cloud says running; the former one, {strangers[0]}, cannot be ended: "
        f"the resource {strangers[0]} is the cloud's 'somebody-elses', not 'train'"
    )
    kept.delete()
    await kept.wait(600, step=5)
    assert (kept.exists(), former(kept), kept.pods.count("delete")) == (True, strangers, 2)
    assert kept.stalled().startswith("IdentityMismatch: ")
    for cloud_id in strangers:
        kept.pods.become(cloud_id, kept.pods.records[cloud_id].status, name="train")
    await kept.wait(800, step=10)
    assert (kept.exists(), kept.pods.live) == (False, [])


async def test_what_has_the_name_of_another_object_is_told_and_left_alone(kept: World) -> None:
    """Status could not hold the former one's name, and the other object does not know its id yet."""
    kept.pods.listable = False
    kept.pods.fail("create", lost(acted=True))
    kept.apply("owner")
    await kept.settle()
    rows: JsonValue = [{"id": "pod-2", "name": "pod-2"}]
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": {"former": rows}}, status=True)
    await poll(kept)
    assert (former(kept), kept.pods.count("delete")) == (["pod-2"], 0)
    assert kept.stalled().endswith("the resource pod-2 belongs to GpuPod/team-a/owner")


async def test_a_nameless_answer_that_says_terminated_is_not_believed(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    name = kept.pods.records[first].name
    kept.pods.become(first, "terminated", name="")
    uses(kept, 11)
    await poll(kept)
    assert (kept.reason(), former(kept), kept.pods.count("delete")) == ("Running", [first], 0)
    kept.delete()
    await kept.wait(60)
    assert (kept.exists(), former(kept)) == (True, [first])
    kept.pods.become(first, "terminated", name=name)
    await poll(kept)
    assert (kept.exists(), kept.pods.count("delete")) == (False, 1)


async def test_one_that_the_cloud_cannot_be_asked_about_is_kept_for_now(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    uses(kept, 11)
    answers = cycle([None, lost(acted=False)])
    kept.pods.random_failure = lambda call: next(answers) if call == "observe" else None
    await poll(kept)
    assert (kept.reason(), former(kept), kept.pods.count("delete")) == ("Running", [first], 0)
    kept.pods.random_failure = lambda _call: None
    await poll(kept)
    assert former(kept) == []


async def test_that_one_is_gone_says_nothing_of_the_next_one(kept: World) -> None:
    """The cloud finds neither for a moment; one of the two is still there."""
    there = kept.pods.add("train").id
    rows: JsonValue = [{"id": "gone", "name": "train"}, {"id": there, "name": "train"}]
    kept.server.edit("gpupods", NAMESPACE, "train", {"status": {"former": rows}}, status=True)
    kept.pods.misses = lambda subject: subject == there
    kept.pods.fail("delete", refused(NotFound), refused(NotFound))
    while kept.pods.count("delete") < 2:
        await kept.wait(1)
    await kept.wait(4)
    assert former(kept) == [there]
    kept.pods.misses = lambda _subject: False
    await kept.wait(100)
    assert (former(kept), kept.pods.records[there].status) == ([], "terminated")


async def test_the_object_waits_for_one_that_goes_slowly_and_asks_again(kept: World) -> None:
    (first,) = kept.pods.records
    uses(kept, 10, first)
    secret(kept, "second")
    await poll(kept)
    kept.pods.on_call = lambda call: kept.pods.become(first, "running") if call == "delete" else None
    uses(kept, 11)
    kept.delete()
    await kept.wait(20)
    assert (kept.reason(), kept.pods.count("delete"), former(kept)) == ("Deleting", 2, [first])
    assert [record.id for record in kept.pods.live] == [first]
    await kept.wait(40)
    assert kept.pods.count("delete") == 3
    kept.pods.on_call = lambda _call: None
    await kept.wait(90)
    assert not kept.exists()
    assert kept.pods.live == []


def test_what_was_made_besides_is_ended_without_the_former_ones() -> None:
    paid = PaidFor("pod-2", "Delete")
    alone = paid.alone({"spec": {}}, {"id": "pod-2", "former": [{"id": "pod-1", "name": "x"}]})
    assert alone["status"] == {"id": "pod-2"}

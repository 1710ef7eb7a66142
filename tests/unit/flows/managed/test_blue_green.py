"""Blue and green: another is made beside what serves, and takes its place once it is Ready."""

import base64
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import Field, JsonValue

from relay_client import BadRequest, CapacityExhausted, NotFound
from relay_kube.kube import SECRETS
from relay_operator.api import meta
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import ObjectKey
from relay_operator.api.parts import ClusterUpdateStrategy, UpdateType
from relay_operator.api.workload import BlueGreenStatus
from relay_operator.engine.commitment import Commitment
from relay_operator.engine.leftovers import Fate
from relay_operator.flows.managed.blue_green import failed, has_failed
from relay_operator.kinds.gpucluster import GpuCluster
from relay_operator.kinds.gpupod import GpuPod, GpuPodSpec, GpuPodStatus, Pod
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods, lost, refused
from tests.unit.flows.managed.test_crashing import until_it_dies
from tests.unit.flows.managed.test_funding import limited
from tests.unit.flows.managed.test_inputs import encoded
from tests.unit.flows.managed.world import NAMESPACE, World

BLUE_GREEN: JsonValue = {"type": "BlueGreen", "drainSeconds": 60}
CONNECTION: JsonValue = {"secret": {"name": "reached", "keys": {"URL": "{{endpointUrl}}"}}}
KEY = ObjectKey("GpuPod", NAMESPACE, "train")


class BlueSpec(GpuPodSpec):
    update_strategy: ClusterUpdateStrategy | None = None


class BlueStatus(GpuPodStatus, BlueGreenStatus):
    """A pod's, with an old one."""


class BluePod(GpuPod):
    spec: BlueSpec
    status: BlueStatus = Field(default_factory=BlueStatus)


class BluePods(MemoryPods):
    """Pods that are replaced without a gap."""

    model: type[GpuPod] = BluePod

    def drain(self, obj: Pod) -> timedelta | None:
        strategy = obj.spec.update_strategy
        assert strategy is None or isinstance(strategy, ClusterUpdateStrategy)
        asked = strategy is not None and strategy.type is UpdateType.BLUE_GREEN
        return timedelta(seconds=strategy.drain_seconds) if strategy is not None and asked else None


@pytest.fixture
async def blue(world: World) -> World:
    """A pod that runs, whose Secret tells where; what is made from now on takes its time."""
    world.kind, world.model = BluePods, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    world.pods.born = "deploying"
    world.apply(updateStrategy=BLUE_GREEN, connection=CONNECTION, gpu={"modelId": "h100"})
    await world.wait(5)
    becomes(world, "pod-1", "running")
    await world.wait(5)
    assert (world.reason(), reached(world)) == ("Running", f"https://{world.pods.created[0]}.example/")
    return world


@pytest.fixture
async def both(blue: World) -> World:
    """Another is on its way."""
    blue.change(image="another")
    await blue.wait(5)
    assert (ids(blue), blue.reason()) == (["pod-2", "pod-1"], "Deploying")
    return blue


def status(world: World) -> BlueStatus:
    return BluePod.model_validate(world.raw()).status


def ids(world: World) -> list[str | None]:
    """Of the resource, and of the old one."""
    told = status(world)
    return [told.id, *(row.id for row in told.former or ())]


def reached(world: World) -> str:
    """What the Secret says."""
    data = part(world.server.objects["secrets", NAMESPACE, "reached"], "data")
    return base64.b64decode(str(data["URL"])).decode()


def live(world: World) -> list[str]:
    return [record.id for record in world.pods.live]


def message(world: World) -> str:
    ready = world.condition()
    assert ready is not None
    return ready.message


def becomes(world: World, cloud_id: str, state: str) -> None:
    world.pods.become(cloud_id, state)
    world.hint()


async def test_the_new_one_is_ready_first_then_others_are_led_to_it_then_the_old_one_is_drained_and_ended(
    both: World,
) -> None:
    old, before = both.pods.created[0], status(both).endpoint_url
    assert reached(both) == before == f"https://{old}.example/"
    assert both.pods.created == [old, f"{old}-2"]
    assert "pod-1 serves until the new one is Ready" in message(both)
    becomes(both, "pod-2", "running")
    await both.wait(5)
    assert reached(both) == status(both).endpoint_url == f"https://{old}-2.example/"
    assert (both.reason(), ids(both), live(both)) == ("Running", ["pod-2", "pod-1"], ["pod-1", "pod-2"])
    assert "pod-1 is drained until 2026-03-01T12:01:" in message(both)
    await both.wait(50)
    assert live(both) == ["pod-1", "pod-2"]
    await both.wait(20)
    assert (both.reason(), ids(both), live(both)) == ("Running", ["pod-2"], ["pod-2"])
    assert both.pods.count("create") == 2


async def test_without_a_connection_others_need_not_be_led(blue: World) -> None:
    blue.change(image="another", connection=None, updateStrategy={"type": "BlueGreen", "drainSeconds": 0})
    await blue.wait(5)
    becomes(blue, "pod-2", "running")
    await blue.wait(20)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-2"], ["pod-2"])


async def test_the_old_one_serves_until_the_secret_is_written(both: World) -> None:
    both.server.remove("secrets", NAMESPACE, "reached")
    await both.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "reached"}, "data": {"mine": "eA=="}})
    becomes(both, "pod-2", "running")
    await both.wait(200)
    assert (both.reason(), ids(both), live(both)) == ("ConnectionRefused", ["pod-2", "pod-1"], ["pod-1", "pod-2"])
    both.server.remove("secrets", NAMESPACE, "reached")
    await both.wait(400)
    assert (both.reason(), ids(both), live(both)) == ("Running", ["pod-2"], ["pod-2"])


async def test_the_old_one_serves_as_long_as_nobody_knows_where_the_new_one_is_reached(both: World) -> None:
    address, there = both.pods.records["pod-2"].endpoint_url, both.pods.records
    both.pods.become("pod-2", "running", endpoint_url=None)
    both.hint()
    await both.wait(120)
    assert (both.reason(), ids(both)) == ("Replacing", ["pod-2", "pod-1"])
    there["pod-2"] = there["pod-2"].model_copy(update={"endpoint_url": address})
    await both.wait(400)
    assert (both.reason(), ids(both)) == ("Running", ["pod-2"])


async def test_a_new_one_that_fails_is_ended_the_old_one_stays_and_no_other_is_made_for_the_same_spec(
    both: World,
) -> None:
    both.pods.become("pod-2", "failed", status_reason="no such image")
    both.hint()
    await both.wait(20)
    assert (both.reason(), ids(both), live(both)) == ("GreenFailed", ["pod-1"], ["pod-1"])
    stalled = both.condition(ConditionType.STALLED)
    assert stalled is not None
    assert "pod-2: " in stalled.message
    assert "no such image" in stalled.message
    assert reached(both) == f"https://{both.pods.created[0]}.example/"
    await both.restart()
    both.annotate(reconcile_at="now")
    await both.wait(1200, step=10)
    assert (both.reason(), len(both.pods.created)) == ("GreenFailed", 2)
    both.change(image="mended")
    await both.wait(5)
    assert (both.reason(), ids(both)) == ("Deploying", ["pod-3", "pod-1"])
    becomes(both, "pod-3", "running")
    await both.wait(90)
    assert (both.reason(), ids(both), status(both).failed_green) == ("Running", ["pod-3"], None)


async def test_what_failed_is_forgotten_once_the_old_spec_is_back(both: World) -> None:
    becomes(both, "pod-2", "failed")
    await both.wait(20)
    both.change(image="pytorch/pytorch")
    await both.wait(5)
    assert (both.reason(), ids(both), len(both.pods.created)) == ("Running", ["pod-1"], 2)
    both.change(image="another")
    await both.wait(5)
    assert ids(both) == ["pod-3", "pod-1"]


@pytest.mark.parametrize("gone", ["terminated", "forgotten"])
async def test_a_new_one_that_ends_by_another_hand_has_failed(both: World, gone: str) -> None:
    if gone == "forgotten":
        del both.pods.records["pod-2"]
        both.hint()
    else:
        becomes(both, "pod-2", "terminated")
    await both.wait(700, step=5)
    assert (both.reason(), ids(both), live(both)) == ("GreenFailed", ["pod-1"], ["pod-1"])
    assert both.pods.count("delete") == 0


async def test_a_new_one_that_is_gone_has_not_failed_if_another_is_asked_for_by_now(both: World) -> None:
    del both.pods.records["pod-2"]
    both.change(image="yet-another")
    await both.wait(700, step=5)
    assert (both.reason(), ids(both), status(both).failed_green) == ("Deploying", ["pod-3", "pod-1"], None)


def test_neither_an_autoscaler_nor_another_order_of_env_makes_what_failed_worth_another_try() -> None:
    metadata: JsonValue = {"name": "llm", "namespace": NAMESPACE, "uid": "u1"}
    env: list[JsonValue] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    spec: Json = {"image": "i", "replicas": 2, "updateStrategy": BLUE_GREEN, "env": env}
    cluster = GpuCluster.model_validate({"metadata": metadata, "spec": spec, "status": {"id": "cluster-2"}})
    known = {"failedGreen": failed(cluster, "no such image").model_dump(mode="json", by_alias=True)}
    same, other = (
        GpuCluster.model_validate({"metadata": metadata, "spec": spec | changed, "status": known})
        for changed in ({"replicas": 5, "env": env[::-1]}, {"image": "mended"})
    )
    again = has_failed(same, "")
    assert again is not None
    assert again.message == "cluster-2: no such image"
    assert has_failed(other, "") is None


async def test_what_failed_by_a_bad_secret_is_made_again_once_that_changes(blue: World) -> None:
    await blue.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": encoded(A="first")})
    blue.change(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "A"}}}])
    await blue.wait(5)
    becomes(blue, "pod-2", "failed")
    await blue.wait(400)
    assert (blue.reason(), ids(blue)) == ("GreenFailed", ["pod-1"])
    blue.server.edit("secrets", NAMESPACE, "keys", {"data": encoded(A="second")})
    await blue.wait(400)
    assert ids(blue) == ["pod-3", "pod-1"]
    assert [sent.env.get("TOKEN") for _, sent in blue.pods.sent] == [None, "first", "second"]


async def test_a_changed_secret_makes_another(blue: World) -> None:
    await blue.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": encoded(A="first")})
    blue.pods.born = "running"
    blue.change(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "A"}}}])
    await blue.wait(90)
    assert ids(blue) == ["pod-2"]
    blue.server.edit("secrets", NAMESPACE, "keys", {"data": encoded(A="second")})
    await blue.wait(500)
    assert (ids(blue), blue.condition(ConditionType.ENV_OUTDATED)) == (["pod-3"], None)


UNASKED: dict[str, Json] = {
    "another spec": {"image": "yet-another"},
    "the old spec": {"image": "pytorch/pytorch"},
    "it is to be stopped": {"powerState": "Stopped"},
    "another strategy": {"updateStrategy": {"type": "Never"}},
}


@pytest.mark.parametrize("change", UNASKED.values(), ids=UNASKED)
async def test_a_new_one_that_is_not_asked_for_any_more_is_ended(both: World, change: Json) -> None:
    both.change("train", **change)
    await both.wait(20)
    assert "pod-2" not in live(both)
    assert "pod-1" in live(both)
    assert status(both).failed_green is None
    if change == UNASKED["another spec"]:
        assert (ids(both), both.reason()) == (["pod-3", "pod-1"], "Deploying")
    else:
        assert (ids(both), len(both.pods.created)) == (["pod-1"], 2)
        assert both.reason() == {"powerState": "Stopped", "image": "Running"}.get(
            next(iter(change)), "ImmutableFieldChanged"
        )


async def test_what_is_stopped_is_replaced_once_it_is_to_run_again(blue: World) -> None:
    blue.change(image="another", powerState="Stopped")
    await blue.wait(60)
    assert (blue.reason(), ids(blue), len(blue.pods.created)) == ("Stopped", ["pod-1"], 1)
    assert "it is replaced once it is to run again: image: asked another" in message(blue)
    blue.change(powerState="Running")
    await blue.wait(5)
    assert (ids(blue), blue.pods.count("start")) == (["pod-2", "pod-1"], 0)
    becomes(blue, "pod-2", "running")
    await blue.wait(90)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-2"], ["pod-2"])


async def test_what_can_be_changed_in_place_is_changed_first(blue: World) -> None:
    blue.change(image="another", public=True)
    await blue.wait(15)
    assert (blue.pods.count("visibility"), ids(blue)) == (1, ["pod-2", "pod-1"])


async def test_while_the_old_one_is_drained_no_third_is_made(both: World) -> None:
    becomes(both, "pod-2", "running")
    await both.wait(5)
    both.change(image="yet-another")
    await both.wait(20)
    assert (both.reason(), ids(both)) == ("Replacing", ["pod-2", "pod-1"])
    assert "the replacement is created once pod-1, which is being drained, is gone" in message(both)
    await both.wait(60)
    assert (ids(both), live(both)) == (["pod-3", "pod-2"], ["pod-2", "pod-3"])


@pytest.fixture
async def drained(both: World) -> World:
    """The old one has been drained, and the cloud says that it does not exist."""
    becomes(both, "pod-2", "running")
    await both.wait(5)
    (old,) = status(both).former or ()
    assert old.until is not None
    both.pods.misses = lambda subject: subject == "pod-1"
    both.pods.fail("delete", refused(NotFound))
    await both.wait((old.until - both.clock.wall()).total_seconds() + 3)
    assert (ids(both), both.pods.count("delete")) == (["pod-2", "pod-1"], 1)
    return both


async def test_an_old_one_that_the_cloud_does_not_find_for_a_moment_is_ended_all_the_same(drained: World) -> None:
    drained.pods.misses = lambda _subject: False
    await drained.wait(10)
    assert ids(drained) == ["pod-2", "pod-1"]
    await drained.wait(40)
    assert (drained.reason(), ids(drained), live(drained)) == ("Running", ["pod-2"], ["pod-2"])


async def test_an_old_one_that_the_cloud_does_not_find_for_long_is_gone(drained: World) -> None:
    await drained.wait(10)
    assert (drained.reason(), ids(drained), drained.pods.count("delete")) == ("Running", ["pod-2"], 1)


async def test_a_create_that_is_refused_leaves_the_old_one_in_its_place(blue: World) -> None:
    blue.pods.fail("create", *[refused(CapacityExhausted)] * 3)
    blue.change(image="another")
    await blue.wait(1)
    assert (blue.reason(), ids(blue)) == ("WaitingForCapacity", ["pod-1"])
    assert blue.condition(ConditionType.CAPACITY_AVAILABLE) is not None
    blue.change(public=True)
    await blue.wait(1)
    assert blue.pods.count("visibility") == 1
    await blue.wait(300)
    assert ids(blue) == ["pod-2", "pod-1"]


async def test_a_create_that_is_refused_for_good_is_told_and_the_old_one_stays(blue: World) -> None:
    blue.pods.fail("create", *[refused(BadRequest)] * 9)
    blue.change(image="another")
    await blue.wait(5)
    assert (blue.reason(), ids(blue), status(blue).state) == ("SpecInvalid", ["pod-1"], "running")
    blue.change(image="pytorch/pytorch")
    await blue.wait(5)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-1"], ["pod-1"])


@pytest.mark.parametrize("acted", [True, False])
async def test_the_lost_answer_to_the_create_is_found_out(blue: World, acted: bool) -> None:
    blue.pods.fail("create", lost(acted=acted))
    blue.change(image="another")
    await blue.wait(1)
    await blue.restart()
    await blue.wait(1500, step=5)
    assert (ids(blue), len(blue.pods.live)) == (["pod-2", "pod-1"], 2)
    becomes(blue, "pod-2", "running")
    await blue.wait(90)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-2"], ["pod-2"])


async def test_the_budget_counts_both(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=399))
    blue.change(image="another")
    await blue.wait(30)
    assert (blue.reason(), ids(blue)) == ("WaitingForBudget", ["pod-1"])
    limited(blue, AccountBudget(max_burn_per_hour_cents=400))
    await blue.wait(5)
    assert (blue.reason(), ids(blue)) == ("Deploying", ["pod-2", "pod-1"])
    entry = blue.cache.get(KEY)
    assert entry is not None
    assert entry.committed == Commitment(400, 2, 200)
    assert status(blue).paying_per_hour_cents == 200
    becomes(blue, "pod-2", "running")
    blue.pods.become("pod-2", "running", price_per_hour_cents=200)
    await blue.wait(5)
    assert status(blue).paying_per_hour_cents == 400
    await blue.wait(90)
    assert status(blue).paying_per_hour_cents == 200


async def test_what_was_reserved_for_a_new_one_that_is_refused_is_over(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=800))
    blue.pods.fail("create", *[refused(BadRequest)] * 9)
    blue.change(image="another", gpu={"modelId": "h100", "count": 2})
    await blue.wait(5)
    entry = blue.cache.get(KEY)
    assert entry is not None
    assert (blue.reason(), ids(blue), entry.committed) == ("SpecInvalid", ["pod-1"], Commitment(200, 1, 200))


async def test_the_limit_of_the_object_counts_both(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.change(budget={"maxPricePerHourCents": 300})
    await blue.wait(5)
    blue.change(image="another")
    await blue.wait(5)
    assert (blue.reason(), ids(blue)) == ("BudgetExceeded", ["pod-1"])
    said = "it costs 200 cents/h and the one that it replaces costs 200 cents/h, and budget.maxPricePerHourCents is 300"
    assert said in message(blue)


async def test_what_nobody_knows_the_price_of_counts_as_that(both: World) -> None:
    entry = both.cache.get(KEY)
    assert entry is not None
    assert entry.committed.unpriced == 2


async def test_between_the_two_steps_the_budget_may_be_taken(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=400))
    blue.change(image="another")
    await until(blue, lambda: status(blue).id is None)
    limited(blue, AccountBudget(max_burn_per_hour_cents=300))
    await blue.wait(5)
    assert (blue.reason(), ids(blue), live(blue)) == ("WaitingForBudget", ["pod-1"], ["pod-1"])


async def until(world: World, holds: Callable[[], bool]) -> None:
    """Pass by pass."""
    for _ in range(20):
        if holds():
            return
        assert await world.one_pass() is not None
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("step", ["aside", "on its way", "ready", "drained"])
@pytest.mark.parametrize("policy", ["Delete", "Stop", "Orphan"])
async def test_when_the_object_is_deleted_neither_is_forgotten(blue: World, step: str, policy: str) -> None:
    blue.change(image="another", deletionPolicy=policy)
    if step == "aside":
        await until(blue, lambda: status(blue).id is None)
    else:
        await blue.wait(5)
    if step == "drained":
        becomes(blue, "pod-2", "running")
        await blue.wait(5)
    elif step == "ready":
        blue.pods.become("pod-2", "running")
    blue.delete()
    await blue.wait(60)
    assert not blue.exists()
    there = {record.id: record.status for record in blue.pods.live}
    match policy:
        case "Delete":
            assert there == {}
        case "Stop":
            assert there == ({"pod-2": "stopped"} if step == "drained" else {"pod-1": "stopped"})
        case _:
            assert set(there) == ({"pod-1"} if step == "aside" else {"pod-1", "pod-2"})
            assert len(blue.left_behind()) == len(there)


@pytest.mark.parametrize("step", ["aside", "on its way"])
async def test_what_is_forced_away_is_told_of_both(blue: World, step: str) -> None:
    blue.change(image="another")
    if step == "aside":
        await until(blue, lambda: status(blue).id is None)
    else:
        await blue.wait(5)
    blue.delete(force=True)
    await blue.settle()
    left = blue.reconciler.engine.leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default"))
    assert {record.id for record in left} == ({"pod-1"} if step == "aside" else {"pod-1", "pod-2"})
    assert {record.fate for record in left} == {Fate.ORPHAN}


async def test_paused_and_planned_nothing_is_done(blue: World) -> None:
    blue.annotate(plan_only="true")
    blue.change(image="another")
    await blue.wait(10)
    plan = status(blue).plan
    assert plan is not None
    assert (plan.action, plan.loses) == (
        "Recreate", ["the resource pod-1 is ended once its replacement is Ready, and its volume with it"]
    )  # fmt: skip
    assert plan.reason.startswith("a replacement takes over once it is Ready: image: asked another")
    blue.annotate(plan_only=None)
    await blue.wait(5)
    blue.annotate(plan_only="true")
    becomes(blue, "pod-2", "running")
    await blue.wait(5)
    plan = status(blue).plan
    assert plan is not None
    assert (plan.action, plan.loses) == ("Update", None)
    assert plan.reason == "pod-2 is Ready and replaces pod-1, which is ended after its drain"
    blue.change(image="pytorch/pytorch")
    await blue.wait(5)
    plan = status(blue).plan
    assert plan is not None
    assert (plan.action, plan.reason) == ("Delete", "pod-2 no longer replaces pod-1, which stays in service")
    assert (ids(blue), live(blue)) == (["pod-2", "pod-1"], ["pod-1", "pod-2"])
    blue.change(image="another")
    blue.annotate(plan_only=None, paused="true")
    await blue.wait(200)
    assert (ids(blue), live(blue)) == (["pod-2", "pod-1"], ["pod-1", "pod-2"])
    blue.annotate(paused=None)
    await blue.wait(90)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-2"], ["pod-2"])


async def test_what_was_adopted_is_replaced_and_not_adopted_again(blue: World) -> None:
    blue.annotate(adopt_id="pod-1")
    blue.change(image="another")
    await blue.wait(5)
    assert ids(blue) == ["pod-2", "pod-1"]


async def test_an_intent_and_a_finalizer_that_are_taken_away_are_put_back(blue: World) -> None:
    blue.change(image="another")
    await until(blue, lambda: status(blue).id is None)
    bare: Json = {"annotations": {meta.CREATE_INTENT: None, meta.PAUSED: "true"}, "finalizers": None}
    blue.server.edit("gpupods", NAMESPACE, "train", {"metadata": bare})
    await blue.settle()
    intent = blue.intent()
    assert isinstance(intent, meta.CreateIntent)
    assert (intent.name, meta.FINALIZER in blue.obj().metadata.finalizers) == (blue.pods.created[0], True)


async def test_one_that_is_being_ended_does_not_take_the_place_after_a_restart(both: World) -> None:
    both.pods.deaf = True
    both.pods.on_call = lambda call: both.pods.become("pod-2", "running") if call == "delete" else None
    both.change(image="yet-another")
    await until(both, lambda: both.pods.count("delete") == 1)
    both.change(image="another")
    both.pods.on_call = lambda _call: None
    await both.restart()
    await both.wait(15)
    assert (ids(both), live(both)) == (["pod-3", "pod-1"], ["pod-1", "pod-3"])


async def test_a_crash_in_every_step_ends_with_one_that_is_as_asked(world: World) -> None:
    world.kind, world.model = BluePods, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    for step in range(1, 16):
        name = f"pod-{step}"
        world.apply(name, updateStrategy=BLUE_GREEN)
        await world.settle()
        world.change(name, image="another")
        await until_it_dies(world, step, within=90)
        assert len(world.pods.live) <= 2
        await world.restart()
        await world.wait(300)
        assert [record.image_url for record in world.pods.live] == ["another"], f"after a crash at step {step}"
        world.delete(name)
        await world.wait(60)
        assert world.pods.live == []


@pytest.mark.parametrize("landed", [True, False])
async def test_the_lost_answer_to_any_write_loses_nothing(blue: World, landed: bool) -> None:
    blue.pods.born = "running"
    for at, image in enumerate(("second", "third", "fourth", "fifth", "sixth", "seventh"), 1):
        writes = 0

        def fails(call: object, at: int = at) -> None:
            nonlocal writes
            writes += getattr(call, "method", "") == "PATCH"
            if writes == at and getattr(call, "method", "") == "PATCH":
                blue.server.faults.append(Fault(0, method="PATCH", acted=landed))

        blue.server.before = fails
        blue.change(image=image)
        await blue.wait(200)
        blue.server.before = lambda _: None
        blue.server.faults.clear()
        await blue.wait(100)
        assert [record.image_url for record in blue.pods.live] == [image]
        assert (blue.reason(), len(ids(blue))) == ("Running", 1)

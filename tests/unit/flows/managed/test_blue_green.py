"""Blue and green: another is made beside what serves, and takes its place once it is Ready."""

import pytest

from relay_client import NotFound
from relay_kube.kube import SECRETS
from relay_operator.api.conditions import ConditionType
from tests.unit.engine.apiserver import Json, encoded
from tests.unit.flows.managed.blue_green import becomes, ids, live, reached, status
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_the_new_one_is_ready_first_then_others_are_led_to_it_then_the_old_one_is_drained_and_ended(
    both: World,
) -> None:
    old, before = both.pods.created[0], status(both).endpoint_url
    assert reached(both) == before == f"https://{old}.example/"
    assert both.pods.created == [old, f"{old}-2"]
    assert "pod-1 serves until the new one is Ready" in both.message()
    becomes(both, "pod-2", "running")
    await both.wait(5)
    assert reached(both) == status(both).endpoint_url == f"https://{old}-2.example/"
    assert (both.reason(), ids(both), live(both)) == ("Running", ["pod-2", "pod-1"], ["pod-1", "pod-2"])
    assert "pod-1 is drained until 2026-03-01T12:01:" in both.message()
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
    assert "it is replaced once it is to run again: image: asked another" in blue.message()
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
    assert "the replacement is created once pod-1, which is being drained, is gone" in both.message()
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

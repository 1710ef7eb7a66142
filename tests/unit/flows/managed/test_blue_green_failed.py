"""A new resource that fails is ended, the old one stays, and the same spec is not tried again."""

import pytest
from pydantic import JsonValue

from relay_kube.kube import SECRETS
from relay_operator.api.conditions import ConditionType
from relay_operator.flows.managed.blue_green import failed, has_failed
from relay_operator.kinds.gpucluster import GpuCluster
from tests.unit.engine.apiserver import Json, encoded
from tests.unit.flows.managed.blue_green import BLUE_GREEN, becomes, ids, live, reached, status
from tests.unit.flows.managed.world import NAMESPACE, World


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


async def test_a_new_one_that_the_cloud_shows_otherwise_than_it_was_asked_for_is_not_made_again(blue: World) -> None:
    def otherwise(call: str) -> None:
        if call == "create":
            blue.pods.become("pod-2", "deploying", image_url="docker.io/library/another")

    blue.pods.on_call = otherwise
    blue.change(image="another")
    await blue.wait(600, step=5)
    assert (blue.reason(), ids(blue), live(blue), len(blue.pods.created)) == ("GreenFailed", ["pod-1"], ["pod-1"], 2)
    assert "pod-2: image: asked another, has docker.io/library/another" in blue.stalled()
    await blue.restart()
    blue.annotate(reconcile_at="now")
    await blue.wait(600, step=5)
    assert len(blue.pods.created) == 2
    blue.pods.on_call = lambda _call: None
    blue.change(image="docker.io/library/another")
    await blue.wait(5)
    assert ids(blue) == ["pod-3", "pod-1"]


@pytest.mark.parametrize("told", [False, True], ids=["before it was looked at", "after that"])
async def test_a_new_one_of_another_model_than_the_cloud_shows_has_failed_only_for_the_spec_that_made_it(
    blue: World, *, told: bool
) -> None:
    def otherwise(call: str) -> None:
        if call == "create":
            blue.pods.become(f"pod-{len(blue.pods.created)}", "deploying", gpu_model_id="H200 SXM")
            if not told and len(blue.pods.created) == 2:
                blue.change(gpu={"modelId": "b200"})

    blue.pods.on_call = otherwise
    blue.change(gpu={"modelId": "h200"})
    await blue.wait(600, step=5)
    made = 2 if told else 3
    assert (blue.reason(), ids(blue), len(blue.pods.created)) == ("GreenFailed", ["pod-1"], made)
    assert f"pod-{made}: gpu.modelIds: asked {'h200' if told else 'b200'}, has H200 SXM" in blue.stalled()


async def test_a_new_one_that_differs_by_a_changed_secret_alone_has_not_failed(blue: World) -> None:
    await blue.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": encoded(A="first")})
    blue.change(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "A"}}}])
    await blue.wait(5)
    blue.server.edit("secrets", NAMESPACE, "keys", {"data": encoded(A="second")})
    await blue.wait(400)
    assert (ids(blue), status(blue).failed_green) == (["pod-3", "pod-1"], None)

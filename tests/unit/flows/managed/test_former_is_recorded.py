"""A former resource is its object's as much as the present one: nobody else takes it, and its account stays known."""

from relay_client import CapacityExhausted
from relay_operator.api.meta import ADOPT_ID, ObjectKey
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, becomes, ids, status
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.world import NAMESPACE, World

OTHER = ObjectKey("GpuPod", NAMESPACE, "other")


async def test_another_object_does_not_adopt_it_though_people_named_it(blue: World) -> None:
    adopted = blue.pods.add("by-hand").id
    blue.apply("adopter", annotations={ADOPT_ID: adopted}, updateStrategy=BLUE_GREEN)
    await blue.wait(5)
    blue.change("adopter", image="another")
    await blue.wait(5)
    kept = BluePod.model_validate(blue.raw("adopter")).status.former
    assert [row.id for row in kept or ()] == [adopted]
    blue.apply("other", annotations={ADOPT_ID: adopted})
    await blue.wait(5)
    assert blue.stalled("other").startswith(f"AdoptionRefused: the resource {adopted} belongs to GpuPod/team-a/adopter")


async def test_an_adopted_one_that_was_relieved_is_not_adopted_again(blue: World) -> None:
    adopted = blue.pods.add("by-hand").id
    blue.apply(
        "adopter",
        annotations={ADOPT_ID: adopted},
        updateStrategy=BLUE_GREEN,
        recovery={"onTerminated": "Recreate"},
    )
    await blue.wait(5)
    blue.change("adopter", image="another")
    for _ in range(2):
        await blue.wait(60)
        [created] = [pod.id for pod in blue.pods.live if pod.id not in {"pod-1", adopted}]
        becomes(blue, created, "running")
        await blue.wait(120)
        assert (blue.reason("adopter"), blue.status("adopter").id) == ("Running", created)
        assert adopted not in [pod.id for pod in blue.pods.live]
        blue.pods.become(created, "terminated")
        blue.hint("adopter")


async def test_webhooks_about_it_find_its_object(both: World) -> None:
    assert ids(both) == ["pod-2", "pod-1"]
    for cloud_id in ("pod-1", "pod-2"):
        assert both.cache.with_cloud_id(cloud_id) == {ObjectKey("GpuPod", NAMESPACE, "train")}
    becomes(both, "pod-2", "running")
    await both.wait(90)
    assert both.cache.with_cloud_id("pod-1") == frozenset()


async def test_both_objects_that_record_it_are_woken(both: World) -> None:
    shared = list[ObjectKey]()
    both.apply("other")
    await both.wait(5)
    both.cache.on_shared = shared.append
    taken: Json = {"status": {"id": "pod-1", "cloudName": status(both).cloud_name}}
    both.server.edit("gpupods", NAMESPACE, "other", taken, status=True)
    assert set(shared) == {ObjectKey("GpuPod", NAMESPACE, "train"), OTHER}


async def test_its_account_and_identity_stay_when_its_successor_is_gone(blue: World) -> None:
    blue.change(image="another", recovery={"onTerminated": "Recreate"})
    await blue.wait(5)
    becomes(blue, "pod-2", "running")
    await blue.wait(5)
    account, identity = status(blue).account, status(blue).identity
    blue.pods.fail("create", *[refused(CapacityExhausted)] * 9)
    becomes(blue, "pod-2", "terminated")
    await blue.wait(5)
    assert ids(blue) == [None, "pod-1"]
    assert (status(blue).account, status(blue).identity) == (account, identity)

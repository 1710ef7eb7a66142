"""What may cost something before it is Ready, as a cluster whose replicas load: it can be ended, and its time runs."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from pydantic import Field, JsonValue

from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.kinds.gpupod import GpuPod, Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, BluePods, BlueStatus, ids
from tests.unit.flows.managed.money import limited
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import BEGINNING, World


class EarlyStatus(BlueStatus):
    replicas: int | None = None
    ready_replicas: int | None = None


class EarlyPod(BluePod):
    status: EarlyStatus = Field(default_factory=EarlyStatus)


class EarlyPods(BluePods):
    """As clusters are: three of four replicas are healthy while the fourth loads."""

    model: type[GpuPod] = EarlyPod
    costs_early = frozenset({"provisioning"})

    def told(self, obj: Pod, observed: VmRecord) -> Mapping[str, object]:
        return {**super().told(obj, observed), "replicas": 4, "ready_replicas": 3}


@pytest.fixture
def early(world: World) -> World:
    """What is made is provisioning, until a test says otherwise."""
    world.kind, world.model = EarlyPods, EarlyPod
    world.server._validate = lambda _raw: None
    world.assemble()
    world.pods.born = "provisioning"
    return world


async def loads(world: World, **spec: JsonValue) -> None:
    await made(world, **spec)
    await world.wait(30)
    assert (world.status().state, world.reason(), world.pods.count("stop")) == ("provisioning", "Deploying", 0)


async def test_it_is_stopped_when_people_ask_for_that(early: World) -> None:
    await loads(early)
    early.change(powerState="Stopped")
    await early.wait(60)
    assert (early.reason(), early.pods.count("stop"), early.pods.count("start")) == ("Stopped", 1, 0)


async def test_it_is_stopped_by_its_schedule(early: World) -> None:
    await loads(early, lifetime={"schedule": {"start": "0 11 * * *", "stop": "0 13 * * *"}})
    await early.wait(3600, step=10)
    assert (early.reason(), early.pods.count("stop")) == ("OutsideSchedule", 1)


async def test_it_is_stopped_when_its_time_is_up_and_stays_so(early: World) -> None:
    await loads(early, lifetime={"maxRuntimeSeconds": 60})
    assert early.status().running_since == BEGINNING
    await early.wait(1000, step=10)
    assert (early.reason(), early.pods.count("stop"), early.pods.count("start")) == ("MaxRuntimeReached", 1, 0)


async def test_its_time_goes_on_when_it_is_ready(early: World) -> None:
    await loads(early)
    await becomes(early, "running")
    assert (early.reason(), early.status().running_since) == ("Running", BEGINNING)
    assert {"stop", "start", "restart"}.isdisjoint(early.pods.calls)


async def test_its_time_begins_anew_with_a_start(early: World) -> None:
    await loads(early)
    early.change(powerState="Stopped")
    await early.wait(30)
    early.change(powerState="Running")
    await early.settle()
    await becomes(early, "provisioning")
    begun = early.status().running_since
    assert begun is not None
    assert begun >= BEGINNING + timedelta(seconds=60)


async def test_it_is_stopped_before_its_object_goes(early: World) -> None:
    await loads(early, deletionPolicy="Stop")
    early.delete()
    await early.wait(60)
    assert (early.exists(), early.pods.count("stop"), early.pods.live[0].status) == (False, 1, "stopped")


async def test_what_it_may_cost_is_told(early: World) -> None:
    await loads(early)
    await becomes(early, "provisioning", price_per_hour_cents=200)
    assert early.status().paying_per_hour_cents == 200
    await becomes(early, "deploying")
    assert early.status().paying_per_hour_cents is None


async def test_what_is_paid_for_it_counts_once_beside_what_takes_its_place(early: World) -> None:
    await loads(early, updateStrategy=BLUE_GREEN, gpu={"modelId": "h100"})
    await becomes(early, "provisioning", price_per_hour_cents=400)
    limited(early, AccountBudget(max_burn_per_hour_cents=600), burn=300)
    early.change(image="another")
    await early.wait(5)
    assert (early.reason(), ids(early)) == ("Deploying", ["pod-2", "pod-1"])

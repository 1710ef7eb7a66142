"""Which price counts, and what becomes of something that the catalog has no price for."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, CloudUnavailable
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.meta import PLAN_ONLY
from relay_operator.api.servingdeployment import ServingDeployment
from relay_operator.budgets.prices import Prices
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed.blue_green import costs, set_aside
from relay_operator.flows.managed.funding import UNLIMITED, Ahead, Funding
from relay_operator.kinds.gpucluster import GpuCluster, GpuClusters, SeenCluster
from relay_operator.kinds.servingdeployment import Seen, ServingDeployments
from relay_operator.kinds.sshkey import SshKey, SshKeys
from relay_wire.clusters import ClusterSummary
from relay_wire.serving import Deployment
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.money import H100, TWO, limited, subject
from tests.unit.flows.managed.world import NAMESPACE, World

if TYPE_CHECKING:
    from relay_operator.api.workload import Blue
    from relay_operator.flows.wiring import Parts


async def test_where_the_cloud_chooses_the_dearest_counts(priced: World) -> None:
    priced.apply(budget={"maxPricePerHourCents": 499})
    await priced.wait(10)
    assert (priced.reason(), "500 cents/h" in priced.message()) == ("BudgetExceeded", True)


async def test_without_a_price_nothing_is_created(priced: World) -> None:
    priced.apply(gpu={"modelId": "a9", "count": 3}, budget={"maxPricePerHourCents": 9999})
    await priced.wait(10)
    assert (priced.reason(), priced.message()) == ("PriceUnknown", "the cloud's catalog has no price for 3 x a9")
    priced.pricing.prices = Prices({"a9": 1}, {})
    await priced.wait(400)
    assert priced.reason() == "Running"


async def test_prices_that_cannot_be_read_hold_back_only_what_costs_more(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=1000))
    priced.apply("there", gpu=H100)
    await priced.wait(10)
    priced.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert (priced.reason("there"), priced.reason()) == ("Running", "PriceUnknown")
    assert priced.message().startswith("the cloud's prices cannot be read")
    priced.change("there", powerState="Stopped")
    await priced.wait(10)
    assert priced.reason("there") == "Stopped"
    priced.pricing.failure = None
    await priced.wait(30)
    assert priced.reason() == "Running"


async def test_what_costs_something_that_nothing_tells_lets_nothing_else_begin_in_its_namespace(world: World) -> None:
    world.apply("old", gpu={"modelId": "retired"})
    await world.wait(10)
    limited(world, SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=10_000)))
    world.apply(gpu=H100)
    await world.wait(10)
    assert world.message() == "the price of 1 other object(s) of the namespace is not known yet"
    world.pods.become("pod-1", "running", price_per_hour_cents=7)
    await world.wait(400)
    assert world.reason() == "Running"


@pytest.mark.parametrize("whose", ["its own", "the account's"])
@pytest.mark.parametrize("prices", [{"h100": 200, "b200": 500}, {"h100": 200}], ids=["too dear", "unknown"])
async def test_a_model_that_no_limit_ever_allows_is_left_out_while_the_first_has_no_room(
    priced: World, whose: str, prices: dict[str, int]
) -> None:
    priced.pricing.prices = Prices(prices, {})
    limited(priced, AccountBudget(max_burn_per_hour_cents=300) if whose == "the account's" else None)
    own: dict[str, JsonValue] = {"budget": {"maxPricePerHourCents": 300}} if whose == "its own" else {}
    priced.pods.fail("create", *[refused(CapacityExhausted)] * 3)
    priced.apply("train", gpu={"modelIds": ["h100", "b200"]}, **own)
    await priced.settle()
    assert (priced.reason(), priced.pods.count("create")) == ("WaitingForCapacity", 1)
    await priced.wait(60)
    assert (priced.reason(), [inputs.model_id for _, inputs in priced.pods.sent]) == ("Running", ["h100"] * 4)


async def test_all_models_are_tried_while_the_prices_cannot_be_read(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=500))
    priced.pods.fail("create", refused(CapacityExhausted))
    priced.apply(gpu={"modelIds": ["h100", "b200"]})
    priced.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    await priced.wait(10)
    assert priced.reason() == "PriceUnknown"
    priced.pricing.failure = None
    await priced.wait(60)
    assert [inputs.model_id for _, inputs in priced.pods.sent] == ["h100", "b200"]


@pytest.mark.parametrize(
    ("change", "model", "cents"),
    [("scale", "h100", 400), ("restart", "h100", 1200), ("", "h100", 1200), ("scale", "a9", None)],
)
async def test_scaling_down_is_planned_at_the_price_after_it(
    world: World, change: str, model: str, cents: int | None
) -> None:
    metadata: JsonValue = {"name": "c", "namespace": NAMESPACE, "annotations": {PLAN_ONLY: "true"}}
    spec: JsonValue = {"image": "i", "replicas": 1, "gpu": {"modelId": model, "count": 2}}
    status: JsonValue = {"id": "c-1", "gpuCount": 2, "pricePerHourCents": 1500}
    obj = GpuCluster.model_validate({"metadata": metadata, "spec": spec, "status": status})
    summary = {"id": "c-1", "organizationId": "org-1", "name": "c", "status": "running", "replicaCount": 3}
    seen = SeenCluster(ClusterSummary.model_validate({**summary, "gpuModelId": model}))
    resource = GpuClusters(SharedLists(60.0, world.clock.monotonic))
    funding = Funding(resource, world.account, world.budgets, world.pricing)
    assert (await funding.look(subject(world, obj), None, seen, "", Ahead(change=change))).quote == cents


@pytest.mark.parametrize("annotations", [{}, {PLAN_ONLY: "true"}])
@pytest.mark.parametrize("budget", [{"maxPricePerHourCents": 9999}, None])
async def test_a_cluster_has_the_catalogs_price_whether_or_not_something_limits_it(
    world: World, annotations: dict[str, JsonValue], budget: JsonValue
) -> None:
    metadata: JsonValue = {"name": "c", "namespace": NAMESPACE, "annotations": annotations}
    spec: JsonValue = {"image": "i", "replicas": 3, "gpu": TWO, "budget": budget}
    obj = GpuCluster.model_validate({"metadata": metadata, "spec": spec, "status": {"id": "c-1", "gpuCount": 2}})
    summary = {"id": "c-1", "organizationId": "org-1", "name": "c", "status": "running", "replicaCount": 3}
    seen = SeenCluster(ClusterSummary.model_validate({**summary, "gpuModelId": "h100"}))
    resource = GpuClusters(SharedLists(60.0, world.clock.monotonic))
    funding = Funding(resource, world.account, world.budgets, world.pricing)
    assert (await funding.look(subject(world, obj), None, seen, "", Ahead())).price == 1200
    world.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    unread = await funding.look(subject(world, obj), None, seen, "", Ahead())
    assert (unread.price, unread.refusal) == (None, None)


@pytest.mark.parametrize("replicas", [-3, 0, 2**31 - 1, 10**4299], ids=["below", "none", "most", "beyond"])
async def test_a_cluster_can_be_priced_and_set_aside_whatever_number_of_replicas_the_cloud_tells(
    world: World, replicas: int
) -> None:
    spec: JsonValue = {"image": "i", "replicas": 3, "gpu": TWO, "budget": {"maxPricePerHourCents": 9999}}
    status: JsonValue = {"id": "c-1", "gpuCount": 2**31 - 1}
    obj = GpuCluster.model_validate({"metadata": {"name": "c", "namespace": NAMESPACE}, "spec": spec, "status": status})
    summary = {"id": "c-1", "organizationId": "org-1", "name": "c", "status": "running", "replicaCount": replicas}
    seen = SeenCluster(ClusterSummary.model_validate({**summary, "gpuModelId": "h100"}))
    resource = GpuClusters(SharedLists(60.0, world.clock.monotonic))
    funding = Funding(resource, world.account, world.budgets, world.pricing)
    world.pricing.prices = Prices({"h100": 10**15}, {})
    said = await funding.look(subject(world, obj), None, seen, "", Ahead(pays=True, beside=True))
    (row,) = cast("list[Blue]", set_aside(obj.status, *costs(resource, obj, seen, said.price))["former"])
    assert (row.price_per_hour_cents, (row.gpus or 0) < 2**63) == (10**15 if replicas else 0, True)


async def test_a_locked_price_has_a_bound_with_all_replicas(world: World) -> None:
    parts = SimpleNamespace(
        settings=SimpleNamespace(poll_settled_seconds=300.0), engine=SimpleNamespace(clock=world.clock.monotonic)
    )
    metadata: JsonValue = {"name": "d", "namespace": NAMESPACE, "annotations": {PLAN_ONLY: "true"}}
    spec: dict[str, JsonValue] = {"publicModelId": "m", "servedModelId": "m", "engine": "vllm", "gpu": TWO}
    spec["replicas"] = {"min": 0, "max": 9, "desired": 1}
    obj = ServingDeployment.model_validate({"metadata": metadata, "spec": spec, "status": {"id": "d-1"}})
    row = {"id": "d-1", "status": "running", "gpuModelId": "h100", "replicasDesired": 2**31 - 1}
    seen = Seen(Deployment.model_validate({**row, "pricePerHourCents": 10**15}))
    funding = Funding(ServingDeployments(cast("Parts", parts)), world.account, world.budgets, world.pricing)
    assert (await funding.look(subject(world, obj), None, seen, "", Ahead())).quote == 10**15


async def test_what_has_no_price_asks_for_none(world: World) -> None:
    parts = SimpleNamespace(
        settings=SimpleNamespace(poll_settled_seconds=300.0), engine=SimpleNamespace(clock=world.clock.monotonic)
    )
    funding = Funding(SshKeys(cast("Parts", parts)), world.account, world.budgets, world.pricing)
    metadata: JsonValue = {"name": "ada", "namespace": NAMESPACE}
    obj = SshKey.model_validate({"metadata": metadata, "spec": {"publicKey": "ssh-ed25519 AAAA"}})
    said = await funding.look(subject(world, obj), None, None, "", Ahead(pays=True))
    assert (said, world.pricing.asked) == (UNLIMITED, 0)

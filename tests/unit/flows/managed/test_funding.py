"""What may not cost what it would cost is not created, started or scaled up; what is granted is written down first."""

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, CloudUnavailable
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import CREATE_INTENT, PLAN_ONLY, CreateIntent, Identity, ObjectKey, Reservation
from relay_operator.budgets.prices import Prices
from relay_operator.engine.account import AccountReady
from relay_operator.engine.commitment import NOTHING, Commitment
from relay_operator.engine.queue import Priority
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed.funding import UNLIMITED, Ahead, Funding
from relay_operator.kinds.gpucluster import GpuCluster, GpuClusters, SeenCluster
from relay_operator.kinds.sshkey import SshKey, SshKeys
from relay_wire.clusters import ClusterSummary
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World

if TYPE_CHECKING:
    from relay_operator.flows.wiring import Parts

H100: JsonValue = {"modelId": "h100"}
TWO: JsonValue = {"modelId": "h100", "count": 2}


@pytest.fixture
def priced(world: World) -> World:
    """A cloud whose pods say what they cost."""

    def told(_call: str) -> None:
        for pod in world.pods.records.values():
            count = pod.gpu_count or 1
            world.pods.become(pod.id, pod.status, price_per_hour_cents=200 * count, gpu_count=count)

    world.pods.on_call = told
    return world


def limited(world: World, budget: AccountBudget | None, available: int | None = 1000, burn: int | None = 0) -> None:
    """The account's budget, and what the cloud says of its money."""
    ready = world.account.state
    assert isinstance(ready, AccountReady)
    world.account.state = replace(ready, budget=budget)
    world.budgets.looked(replace(ready, budget=budget), available, burn)
    for key in world.cache.keys("GpuPod"):  # as whatever uses an account that has changed
        world.queue.add(key, Priority.CHANGE)


def account(world: World) -> ObjectKey:
    ready = world.account.state
    assert isinstance(ready, AccountReady)
    return ready.key


def committed(world: World) -> Commitment:
    return world.cache.committed(account(world)).get(NAMESPACE, NOTHING)


def message(world: World, name: str = "train") -> str:
    told = world.condition(name=name)
    assert told is not None
    return told.message


def reserved(world: World, name: str = "train") -> Reservation | None:
    intent = world.intent(name)
    assert isinstance(intent, CreateIntent)
    return intent.reserved


async def test_without_a_limit_nobody_asks_what_it_costs(priced: World) -> None:
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert (priced.reason(), priced.pricing.asked, reserved(priced)) == ("Running", 0, None)


@pytest.mark.parametrize(("limit", "reason"), [(199, "BudgetExceeded"), (200, "Running"), (0, "BudgetExceeded")])
async def test_its_own_limit(priced: World, limit: int, reason: str) -> None:
    priced.apply(gpu=H100, budget={"maxPricePerHourCents": limit})
    await priced.wait(10)
    assert (priced.reason(), priced.pods.count("create")) == (reason, int(limit >= 200))
    exceeded = priced.condition(ConditionType.BUDGET_EXCEEDED)
    if limit < 200:
        expected = f"it costs 200 cents/h, and budget.maxPricePerHourCents is {limit}: {200 - limit} too much"
        assert exceeded is not None
        assert (exceeded.message, message(priced)) == (expected, expected)
        priced.change(budget={"maxPricePerHourCents": 200})
        await priced.wait(10)
        assert (priced.reason(), priced.condition(ConditionType.BUDGET_EXCEEDED)) == ("Running", None)


async def test_where_the_cloud_chooses_the_dearest_counts(priced: World) -> None:
    priced.apply(budget={"maxPricePerHourCents": 499})
    await priced.wait(10)
    assert (priced.reason(), "500 cents/h" in message(priced)) == ("BudgetExceeded", True)


async def test_without_a_price_nothing_is_created(priced: World) -> None:
    priced.apply(gpu={"modelId": "a9", "count": 3}, budget={"maxPricePerHourCents": 9999})
    await priced.wait(10)
    assert (priced.reason(), message(priced)) == ("PriceUnknown", "the cloud's catalog has no price for 3 x a9")
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
    assert message(priced).startswith("the cloud's prices cannot be read")
    priced.change("there", powerState="Stopped")
    await priced.wait(10)
    assert priced.reason("there") == "Stopped"
    priced.pricing.failure = None
    await priced.wait(30)
    assert priced.reason() == "Running"


async def test_what_is_granted_is_written_before_it_is_sent_and_over_when_it_runs(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=400))
    priced.pods.born = "pending"
    key = priced.apply(gpu=TWO)
    await priced.settle()
    granted = reserved(priced)
    assert granted is not None
    assert (granted.cents, granted.gpus, priced.status().reservation_token) == (400, 2, None)
    assert committed(priced) == Commitment(400, 2)
    priced.pods.become("pod-1", "running")
    await priced.wait(10)
    assert priced.status().reservation_token == granted.token
    assert committed(priced) == Commitment(400, 2, 400)
    assert priced.server.writes.count("PATCH gpupods") == 1
    priced.delete()
    await priced.wait(60)
    assert (priced.cache.get(key), committed(priced)) == (None, NOTHING)


async def test_what_is_over_waits_the_oldest_first_and_starts_when_room_comes(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=400))
    for name, gpu in (("a", H100), ("b", H100), ("c", TWO), ("d", H100)):
        priced.clock.seconds += 1
        priced.apply(name, gpu=gpu)
    await priced.wait(10)
    assert [priced.reason(name) for name in "abcd"] == ["Running", "Running", "WaitingForBudget", "WaitingForBudget"]
    assert message(priced, "c").endswith("400 are taken: 400 too much")
    priced.delete("a")
    await priced.wait(30)
    assert message(priced, "c").endswith("200 are taken: 200 too much")
    await priced.wait(400)
    assert message(priced, "d") == "an older object waits for what is free"
    writes = len(priced.server.writes)
    await priced.wait(400)
    assert len(priced.server.writes) == writes
    priced.delete("b")
    await priced.wait(30)
    assert [priced.reason(name) for name in "cd"] == ["Running", "WaitingForBudget"]
    priced.delete("c")
    await priced.wait(30)
    assert priced.reason("d") == "Running"


@pytest.mark.parametrize("deaf_for", [0, 15])
async def test_who_waited_keeps_its_place_in_the_next_process(priced: World, deaf_for: float) -> None:
    budget = SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=200))
    limited(priced, budget)
    for name in "zya":
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100)
    await priced.wait(10)
    priced.delete("z")
    await priced.restart()
    priced.account.deaf_until = priced.clock.seconds + deaf_for
    limited(priced, budget)
    await priced.wait(60)
    assert [priced.reason(name) for name in "ya"] == ["Running", "WaitingForBudget"]


async def test_who_waited_and_was_paused_since_holds_up_nobody_in_the_next_process(priced: World) -> None:
    limited(priced, SharedBudget(per_namespace=NamespaceBudget(max_gpus=2)))
    priced.apply("there", gpu=H100)
    priced.apply("big", gpu=TWO, accountRef={"name": "default"})
    await priced.wait(10)
    priced.annotate("big", paused="true")
    await priced.wait(10)
    assert (priced.reason("there"), priced.reason("big")) == ("Running", "WaitingForBudget")
    await priced.restart()
    await priced.wait(10)
    priced.apply("small", gpu=H100)
    await priced.wait(10)
    assert priced.reason("small") == "Running"


async def test_a_start_and_its_reservation(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.apply(gpu=H100)
    await priced.wait(10)
    priced.change(powerState="Stopped")
    await priced.wait(10)
    assert committed(priced) == NOTHING
    priced.apply("other", gpu=H100)
    await priced.wait(10)
    priced.change(powerState="Running")
    await priced.wait(10)
    assert (priced.reason("other"), priced.reason(), priced.pods.count("start")) == ("Running", "WaitingForBudget", 0)
    priced.change("other", powerState="Stopped")
    priced.pods.fail("start", lost(acted=False))
    await priced.wait(400)
    assert (priced.reason(), priced.pods.count("start")) == ("Running", 2)
    granted = reserved(priced)
    assert granted is not None
    assert (granted.cents, priced.status().reservation_token) == (200, granted.token)


async def test_a_start_that_the_cloud_refuses_stays_reserved_until_people_stop_it(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.apply(gpu=H100, powerState="Stopped")
    await priced.wait(10)
    priced.pods.fail("start", *[lost(acted=False)] * 50)
    priced.change(powerState="Running")
    await priced.wait(30)
    assert committed(priced).cents == 200
    before = priced.server.writes.count("PATCH gpupods")
    await priced.wait(30)
    assert priced.server.writes.count("PATCH gpupods") == before
    priced.change(powerState="Stopped")
    await priced.wait(10)
    assert (priced.reason(), committed(priced)) == ("Stopped", NOTHING)


async def test_a_namespaces_limits_are_its_own(priced: World) -> None:
    each = NamespaceBudget(max_gpus=2, max_burn_per_hour_cents=600)
    limited(priced, SharedBudget(per_namespace=each))
    priced.apply("two", gpu=TWO)
    await priced.wait(10)
    priced.apply("more", gpu=H100)
    await priced.wait(10)
    assert message(priced, "more") == (
        "it needs 1 GPU(s), and the namespace may have 2 of the account, of which 2 are taken: 1 too many"
    )
    limited(priced, SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=500)))
    priced.annotate("more", reconcile_at="now")
    await priced.wait(10)
    assert message(priced, "more").endswith(
        "of the 500 cents/h that the namespace may pay, 400 are taken: 100 too much"
    )
    limited(priced, SharedBudget(per_namespace=NamespaceBudget()))
    await priced.wait(10)
    assert priced.reason("more") == "Running"


@pytest.mark.parametrize(
    ("budget", "available", "burn", "said"),
    [
        (AccountBudget(min_available_cents=500), 499, 0, "499 cents are available, 1 less than"),
        (AccountBudget(min_available_cents=500), 500, 0, ""),
        (AccountBudget(min_available_cents=500), None, 0, "balance cannot be read"),
        (AccountBudget(max_burn_per_hour_cents=500), 0, None, "usage cannot be read"),
        (AccountBudget(max_burn_per_hour_cents=500), 0, 301, "301 are taken: 1 too much"),
        (AccountBudget(max_burn_per_hour_cents=500), 0, 300, ""),
    ],
)
async def test_what_the_organization_has_and_pays_elsewhere(
    priced: World, budget: AccountBudget, available: int | None, burn: int | None, said: str
) -> None:
    limited(priced, budget, available, burn)
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert (priced.reason() == "Running") is (not said)
    assert said in message(priced)
    if said:
        limited(priced, budget, 10_000, 0)
        await priced.wait(10)
        assert priced.reason() == "Running"


async def test_before_the_first_look_at_the_account_nothing_is_granted(priced: World) -> None:
    ready = priced.account.state
    assert isinstance(ready, AccountReady)
    priced.account.state = replace(ready, budget=AccountBudget(min_available_cents=1))
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert message(priced) == "the account's balance is not known yet"
    limited(priced, AccountBudget(min_available_cents=1), 1, None)
    await priced.wait(10)
    assert priced.reason() == "Running"


async def test_what_costs_something_that_nothing_tells_lets_nothing_else_begin_in_its_namespace(world: World) -> None:
    world.apply("old", gpu=H100)
    await world.wait(10)
    limited(world, SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=10_000)))
    world.apply(gpu=H100)
    await world.wait(10)
    assert message(world) == "the price of 1 other object(s) of the namespace is not known yet"
    world.pods.become("pod-1", "running", price_per_hour_cents=7)
    await world.wait(400)
    assert world.reason() == "Running"


async def test_what_came_to_light_after_the_grant_is_counted_before_anything_is_sent(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=300))
    late = CreateIntent(
        token="t-late",
        name="late",
        attempt=1,
        spec_hash="",
        started_at=priced.clock.wall(),
        account="CloudAccount/default",
        reserved=Reservation(token="t-late", cents=200, gpus=1),
    )

    def another(call: str) -> None:
        """What a former leader wrote is seen by now."""
        if call == "create" and not priced.exists("late"):
            priced.apply("late", gpu=H100, annotations={"gpurelay.dev/create-intent": late.to_annotation()})

    priced.pods.before_change = another
    priced.apply(gpu=H100)
    await priced.one_pass()
    assert priced.pods.count("create") == 0
    await priced.wait(1)
    assert priced.reason() == "WaitingForBudget"


async def test_a_refused_create_gives_back_what_it_was_granted(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.pods.fail("create", refused(CloudUnavailable))
    priced.apply(gpu=H100)
    await priced.one_pass()
    assert committed(priced) == NOTHING
    await priced.wait(60)
    assert priced.reason() == "Running"


async def test_a_start_costs_what_was_got_and_not_what_would_be_tried_first(priced: World) -> None:
    priced.pricing.prices = Prices({"t4": 20, "h100": 200}, {})
    limited(priced, AccountBudget(max_burn_per_hour_cents=250))
    priced.pods.fail("create", refused(CapacityExhausted))
    priced.apply(gpu={"modelIds": ["t4", "h100"]})
    priced.apply("other", gpu=H100, powerState="Stopped")
    await priced.wait(30)
    priced.change(powerState="Stopped")
    await priced.wait(10)
    priced.change("other", powerState="Running")
    await priced.wait(10)
    priced.change(powerState="Running")
    await priced.wait(10)
    assert (priced.reason("other"), priced.reason()) == ("Running", "WaitingForBudget")


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


async def test_a_restart_of_what_failed_waits_as_well_and_says_so(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=100), 100)
    priced.apply(gpu=H100, recovery={"onFailed": "Restart"})
    await priced.wait(10)
    limited(priced, AccountBudget(min_available_cents=100), 99)
    priced.pods.become("pod-1", "failed")
    await priced.wait(400)
    assert (priced.reason(), priced.pods.count("start")) == ("WaitingForBudget", 0)
    limited(priced, AccountBudget(min_available_cents=100), 100)
    await priced.wait(10)
    assert (priced.reason(), priced.pods.count("start")) == ("Running", 1)


async def test_a_restart_of_what_failed_that_people_ask_for_is_a_start_too(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=500))
    priced.apply(gpu=H100)
    await priced.wait(10)
    priced.pods.become("pod-1", "failed")
    limited(priced, AccountBudget(min_available_cents=500), available=499)
    priced.annotate(restarted_at="now")
    await priced.wait(10)
    assert (priced.reason(), priced.pods.live[0].status) == ("WaitingForBudget", "failed")
    limited(priced, AccountBudget(min_available_cents=500))
    await priced.wait(10)
    assert (priced.reason(), priced.status().restarted_at) == ("Running", "now")


async def test_what_is_sent_again_is_asked_for_again(priced: World) -> None:
    ready = priced.account.state
    assert isinstance(ready, AccountReady)
    priced.account.state = replace(ready, resend_unknown=True)
    limited(priced, AccountBudget(max_burn_per_hour_cents=450))
    priced.pods.listable = False
    priced.pods.fail("create", lost(acted=False))
    priced.apply(gpu=H100)
    await priced.one_pass()
    priced.change(gpu={"modelId": "h100", "count": 3})
    await priced.wait(3600, step=30)
    assert (priced.reason(), priced.pods.count("create")) == ("WaitingForBudget", 1)
    priced.change(gpu=TWO)
    await priced.wait(600, step=30)
    granted = reserved(priced)
    assert granted is not None
    assert (granted.cents, priced.pods.count("create"), len(priced.pods.live)) == (400, 2, 1)


async def test_one_whose_create_came_to_nothing_keeps_its_place(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.pods.fail("create", lost(acted=False))
    priced.apply("a", gpu=H100)
    await priced.one_pass()
    priced.clock.seconds += 1
    for name in "bc":
        priced.apply(name, gpu=H100)
    await priced.wait(3600, step=10)
    assert [priced.reason(name) for name in "abc"] == ["Running", "WaitingForBudget", "WaitingForBudget"]


async def test_one_that_goes_while_it_waits_is_forgotten(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=0))
    for name in "ab":
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100)
    await priced.wait(10)
    priced.delete("a")
    await priced.settle()
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    await priced.wait(10)
    assert priced.reason("b") == "Running"


async def test_a_limit_that_goes_lets_all_go(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=0))
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert priced.reason() == "WaitingForBudget"
    limited(priced, None)
    await priced.wait(10)
    assert priced.reason() == "Running"


@pytest.mark.parametrize(
    ("change", "model", "cents"),
    [("scale", "h100", 500), ("restart", "h100", 1500), ("", "h100", 1500), ("scale", "a9", None)],
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
    ready = world.account.state
    assert isinstance(ready, AccountReady)
    resource = GpuClusters(SharedLists(60.0, world.clock.monotonic))
    funding = Funding(resource, world.account, world.budgets, world.pricing)
    key = ObjectKey("GpuCluster", NAMESPACE, "c")
    assert (await funding.look(key, obj, ready, None, seen, "", Ahead(change=change))).quote == cents


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
    ready = world.account.state
    assert isinstance(ready, AccountReady)
    resource = GpuClusters(SharedLists(60.0, world.clock.monotonic))
    funding = Funding(resource, world.account, world.budgets, world.pricing)
    key = ObjectKey("GpuCluster", NAMESPACE, "c")
    assert (await funding.look(key, obj, ready, None, seen, "", Ahead())).price == 1200
    world.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    unread = await funding.look(key, obj, ready, None, seen, "", Ahead())
    assert (unread.price, unread.refusal) == (None, None)


async def test_what_has_no_price_asks_for_none(world: World) -> None:
    parts = SimpleNamespace(
        settings=SimpleNamespace(poll_settled_seconds=300.0), engine=SimpleNamespace(clock=world.clock.monotonic)
    )
    funding = Funding(SshKeys(cast("Parts", parts)), world.account, world.budgets, world.pricing)
    metadata: JsonValue = {"name": "ada", "namespace": NAMESPACE}
    obj = SshKey.model_validate({"metadata": metadata, "spec": {"publicKey": "ssh-ed25519 AAAA"}})
    ready = world.account.state
    assert isinstance(ready, AccountReady)
    said = await funding.look(ObjectKey("SshKey", NAMESPACE, "ada"), obj, ready, None, None, "", Ahead(pays=True))
    assert (said, world.pricing.asked) == (UNLIMITED, 0)


@pytest.mark.parametrize(
    ("policy", "abandoned", "taken"), [("Orphan", False, 200), ("Delete", True, 200), ("Stop", False, 0)]
)
async def test_what_stays_in_the_cloud_without_an_object_counts_before_the_next_look(
    priced: World, policy: str, abandoned: bool, taken: int
) -> None:
    limit = AccountBudget(max_burn_per_hour_cents=300)
    priced.apply("leaves", gpu=H100, deletionPolicy=policy)
    await priced.wait(400)
    limited(priced, limit, burn=200)
    priced.apply(gpu=H100)
    await priced.wait(10)
    if abandoned:
        priced.annotate("leaves", abandon="true")
    priced.delete("leaves")
    await priced.wait(10)
    assert (priced.exists("leaves"), committed(priced).cents) == (False, 200 if not taken else 0)
    for _ in range(2 if taken else 0):
        assert "200 are taken: 100 too much" in message(priced)
        limited(priced, limit, burn=200)
        await priced.wait(10)
    limited(priced, limit, burn=0)
    await priced.wait(10)
    assert priced.reason() == "Running"


async def test_what_copies_bring_with_them_from_elsewhere_takes_no_room(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=400))
    for name in ("one", "two"):
        brought = CreateIntent(
            token=f"t-{name}",
            name=f"elsewhere-{name}",
            attempt=1,
            spec_hash="",
            started_at=priced.clock.wall(),
            account="CloudAccount/default",
            identity=Identity(installation="c0ffe", namespace="elsewhere", name=name, uid=f"u-{name}"),
            reserved=Reservation(token=f"t-{name}", cents=300, gpus=1),
        )
        priced.apply(name, gpu=H100, annotations={CREATE_INTENT: brought.to_annotation()})
    await priced.wait(30)
    assert (priced.reason("one"), priced.reason("two")) == ("Running", "Running")

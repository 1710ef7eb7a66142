"""What may not cost what it would cost is not created, started or scaled up; what is granted is written down first."""

from dataclasses import replace

import pytest

from relay_client import CloudUnavailable
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Identity, Reservation
from relay_operator.engine.commitment import NOTHING, Commitment
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.money import H100, TWO, account, committed, limited, reserved
from tests.unit.flows.managed.world import World


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
        assert (exceeded.message, priced.message()) == (expected, expected)
        priced.change(budget={"maxPricePerHourCents": 200})
        await priced.wait(10)
        assert (priced.reason(), priced.condition(ConditionType.BUDGET_EXCEEDED)) == ("Running", None)


async def test_what_runs_when_its_limit_is_lowered_runs_on_and_says_that_it_costs_too_much(priced: World) -> None:
    priced.apply(gpu=H100, budget={"maxPricePerHourCents": 200})
    await priced.wait(10)
    priced.change(budget={"maxPricePerHourCents": 150})
    await priced.wait(10)
    exceeded = priced.condition(ConditionType.BUDGET_EXCEEDED)
    assert exceeded is not None
    assert exceeded.message.startswith("it costs 200 cents/h, and budget.maxPricePerHourCents is 150: 50 too much.")
    assert (priced.reason(), priced.pods.count("stop")) == ("Running", 0)
    priced.pricing.failure = CloudUnavailable("catalog", "no answer")
    for annotation in ("reconcile_at", "plan_only", "paused"):
        priced.annotate(**{annotation: "true"})
        await priced.wait(10)
        assert priced.condition(ConditionType.BUDGET_EXCEEDED) == exceeded
    priced.pricing.failure = None
    priced.annotate(paused="", plan_only="")
    await priced.wait(10)
    assert priced.condition(ConditionType.BUDGET_EXCEEDED) == exceeded
    priced.change(volumeGb=100)
    await priced.wait(10)
    told = priced.condition(ConditionType.BUDGET_EXCEEDED)
    assert (priced.reason(), told and told.message) == ("ImmutableFieldChanged", exceeded.message)
    priced.change(volumeGb=50)
    await priced.wait(10)
    priced.change(powerState="Stopped")
    await priced.wait(10)
    assert (priced.reason(), priced.condition(ConditionType.BUDGET_EXCEEDED)) == ("Stopped", None)


@pytest.mark.parametrize("state", ["interrupted", "failed"])
async def test_what_does_not_run_costs_nothing_too_much(priced: World, state: str) -> None:
    priced.apply(gpu=H100, budget={"maxPricePerHourCents": 200})
    await priced.wait(10)
    priced.pods.become("pod-1", state)
    priced.change(budget={"maxPricePerHourCents": 150})
    await priced.wait(10)
    assert priced.status().state == state
    assert priced.condition(ConditionType.BUDGET_EXCEEDED) is None


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


async def test_a_namespaces_limits_are_its_own(priced: World) -> None:
    each = NamespaceBudget(max_gpus=2, max_burn_per_hour_cents=600)
    limited(priced, SharedBudget(per_namespace=each))
    priced.apply("two", gpu=TWO)
    await priced.wait(10)
    priced.apply("more", gpu=H100)
    await priced.wait(10)
    assert priced.message("more") == (
        "it needs 1 GPU(s), and the namespace may have 2 of the account, of which 2 are taken: 1 too many"
    )
    limited(priced, SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=500)))
    priced.annotate("more", reconcile_at="now")
    await priced.wait(10)
    assert priced.message("more").endswith("of the 500 cents/h that the namespace may pay, 400 are taken: 100 too much")
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
    assert said in priced.message()
    if said:
        limited(priced, budget, 10_000, 0)
        await priced.wait(10)
        assert priced.reason() == "Running"


async def test_before_the_first_look_at_the_account_nothing_is_granted(priced: World) -> None:
    priced.account.state = replace(priced.account.ready, budget=AccountBudget(min_available_cents=1))
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert priced.message() == "the account's balance is not known yet"
    limited(priced, AccountBudget(min_available_cents=1), 1, None)
    await priced.wait(10)
    assert priced.reason() == "Running"


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
    assert (priced.exists("leaves"), committed(priced).cents) == (False, 0)
    assert priced.budgets.is_doubted(account(priced)) == (not taken)  # whether that was in the burn
    for _ in range(2 if taken else 0):
        assert "200 are taken: 100 too much" in priced.message()
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

"""What the organization pays, as looks at the account show it: what counts beside the objects, and what is doubted."""

import pytest
from pydantic import JsonValue

from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.commitment import Commitment
from tests.unit.budgets.desk import ONE, REF, SHARED, TWO, Desk, account, age, burn, each


def test_what_begins_to_run_during_a_look_is_not_taken_from_the_burn(desk: Desk) -> None:
    ready, a = account(burn(500)), desk.has("a")
    before = desk.budgets.paid(ready)
    desk.has("b", id="p-1", state="running", pricePerHourCents=200)
    desk.budgets.looked(ready, 1000, 300, before)
    assert "500 are taken: 200 too much" in desk.budgets.ask(a, age(a), ready, TWO)


def test_the_money_of_one_organization_allows_nothing_in_another(desk: Desk) -> None:
    a, limit = desk.has("a"), AccountBudget(min_available_cents=500)
    desk.look(limit)
    assert desk.budgets.ask(a, age(a), account(limit), ONE) == ""
    assert "not known yet" in desk.budgets.ask(a, age(a), account(limit, "org-2"), ONE)


def test_whatever_objects_say_the_burn_counts(desk: Desk) -> None:
    """A status that says too much hides no more of what the organization pays elsewhere than its namespace may have."""
    budget = SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=100), max_burn_per_hour_cents=400)
    desk.has("a", id="p", state="running", pricePerHourCents=100_000)
    desk.burn = 350
    assert "350 are taken: 50 too much" in desk.asks(desk.has("b", "team-b"), ONE, budget)


def test_what_is_paid_elsewhere_counts(desk: Desk) -> None:
    desk.has("a", id="p", state="degraded", pricePerHourCents=100)
    desk.burn = 250
    b = desk.has("b")
    assert "250 are taken: 50 too much" in desk.asks(b, ONE, burn(300))
    desk.budgets.leave(b)
    assert desk.asks(desk.has("c", "team-b"), ONE, each(maxBurnPerHourCents=100)) == ""


def test_what_is_paid_elsewhere_is_not_hidden_by_replicas_that_are_missing(desk: Desk) -> None:
    desk.has("a", id="c", state="degraded", pricePerHourCents=400, replicas=4, readyReplicas=2)
    desk.burn = 700  # 200 of it for the two replicas that run
    assert "900 are taken: 100 too much" in desk.asks(desk.has("b"), ONE, burn(900))


@pytest.mark.parametrize(("healthy", "taken"), [(99, 1000), (0, 1990)])
def test_healthy_replicas_count_once_while_the_cluster_loads(desk: Desk, healthy: int, taken: int) -> None:
    """Whether one that loads is paid for nobody tells: it may be somebody else who pays that much."""
    desk.has("a", id="c", state="provisioning", pricePerHourCents=1000, replicas=100, readyReplicas=healthy)
    desk.burn = 990
    assert f"{taken} are taken" in desk.asks(desk.has("b"), ONE, burn(1000))


def test_what_a_released_object_leaves_counts_until_a_look_after_its_end(desk: Desk) -> None:
    a, b, limit = desk.has("a", id="p", state="running", pricePerHourCents=100), desk.has("b", "team-b"), burn(150)
    desk.burn = 100
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)
    desk.budgets.leaves_behind(a)
    desk.look(limit)  # the object is still there, and counts itself
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)
    desk.cache.drop(a)
    namesake: JsonValue = {"uid": "u-namesake", "resourceVersion": desk.version()}
    desk.cache.put(a, {"metadata": namesake, "spec": {"accountRef": REF}})
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)
    desk.look(limit)
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)
    desk.burn = 0
    assert desk.asks(b, ONE, limit) == ""


def test_what_the_operator_let_go_of_counts_nothing_though_another_finalizer_keeps_it(desk: Desk) -> None:
    """Its last status is from before the end of what it had."""
    status: dict[str, JsonValue] = {"id": "p", "state": "running", "pricePerHourCents": 100}
    desk.has("a", "team-a", "", **status)
    b, limit = desk.has("b"), burn(150)
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)
    desk.is_let_go("a", **status)
    assert desk.called() == ["b"]
    assert desk.asks(b, ONE, limit) == ""


def test_what_it_leaves_counts_all_the_same(desk: Desk) -> None:
    status: dict[str, JsonValue] = {"id": "p", "state": "deploying", "pricePerHourCents": 100}
    a, b, limit = desk.has("a", "team-a", "", **status), desk.has("b"), burn(150)
    desk.budgets.leaves_behind(a)
    desk.is_let_go("a", **status)
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)


@pytest.mark.parametrize(
    "status",
    [
        {"state": "deploying", "pricePerHourCents": 100},
        {"state": "degraded", "pricePerHourCents": 100, "replicas": 2, "readyReplicas": 1},
        {"state": "running"},
    ],
)
def test_what_is_not_paid_in_full_at_the_release_counts_longer_than_until_the_next_look(
    desk: Desk, status: dict[str, JsonValue]
) -> None:
    a, b, limit = desk.has("a", "team-a", "", id="p", **status), desk.has("b"), burn(199)
    had = desk.cache.committed(SHARED)["team-a"].cents
    desk.budgets.leaves_behind(a)
    desk.cache.drop(a)
    desk.burn = 100 - had  # of what the catalog has no price for, the burn is all that is known
    assert "100 are taken: 1 too much" in desk.asks(b, ONE, limit)
    desk.now = 899
    desk.look(limit)
    assert "100 are taken: 1 too much" in desk.asks(b, ONE, limit)
    desk.now = 900
    desk.burn = 100
    assert "100 are taken: 1 too much" in desk.asks(b, ONE, limit)
    desk.burn = 0
    assert desk.asks(b, ONE, limit) == ""


def test_a_look_during_which_an_object_is_released_ends_nothing_that_it_leaves(desk: Desk) -> None:
    a, b, ready = desk.has("a", id="p", state="running", pricePerHourCents=100), desk.has("b"), account(burn(150))
    before = desk.budgets.paid(ready)
    desk.budgets.leaves_behind(a)
    desk.cache.drop(a)
    for _ in range(2):
        desk.budgets.looked(ready, 1000, 100, before)
        assert "100 are taken: 50 too much" in desk.budgets.ask(b, age(b), ready, ONE)
        before = desk.budgets.paid(ready)


@pytest.mark.parametrize(
    ("how", "taken", "limit"), [("stopped", 200, 399), ("gone", 200, 399), ("moved", 200, 399), ("half", 300, 499)]
)
def test_what_is_seen_to_end_after_a_look_hides_nothing_that_others_may_have_paid_by_then(
    desk: Desk, how: str, taken: int, limit: int
) -> None:
    """The cloud ended it unseen, and others of the organization began to pay as much: the burn stayed the same."""
    r, budget = desk.has("r", id="p", state="running", pricePerHourCents=200, replicas=2), burn(limit)
    a, desk.burn = desk.has("a"), 200
    desk.look(budget)
    match how:
        case "stopped":
            desk.has("r", id="p", state="stopped", pricePerHourCents=200)
        case "gone":
            desk.cache.drop(r)
        case "moved":
            metadata: JsonValue = {"uid": "u-r", "resourceVersion": desk.version()}
            desk.cache.put(r, {"metadata": metadata, "spec": {}, "status": {"id": "p", "state": "running"}})
        case _:
            desk.has("r", id="p", state="degraded", pricePerHourCents=200, replicas=2, readyReplicas=1)
    assert f"{taken} are taken: 1 too much" in desk.budgets.ask(a, age(a), account(budget), TWO)
    assert (desk.budgets.is_doubted(SHARED), desk.called()) == (True, ["default"])
    desk.look(budget)
    assert desk.called() == ["a"]
    desk.burn = 0
    assert desk.asks(a, Commitment(199), budget) == ""
    assert not desk.budgets.is_doubted(SHARED)


def test_what_ends_during_a_look_hides_nothing_either(desk: Desk) -> None:
    r, a, ready = desk.has("r", id="p", state="running", pricePerHourCents=200), desk.has("a"), account(burn(300))
    before = desk.budgets.paid(ready)
    desk.cache.drop(r)
    assert not desk.budgets.looked(ready, 1000, 200, before)
    assert "200 are taken: 100 too much" in desk.budgets.ask(a, age(a), ready, TWO)
    before = desk.budgets.paid(ready)
    desk.has("r", id="q", state="running", pricePerHourCents=100)
    assert desk.budgets.looked(ready, 1000, 0, before)
    before = desk.budgets.paid(ready)
    desk.cache.drop(ObjectKey("GpuPod", "team-a", "r"))
    desk.has("s", id="s", state="running", pricePerHourCents=100)
    assert desk.budgets.looked(ready, 1000, 0, before)
    assert desk.budgets.ask(a, age(a), ready, TWO) == ""


def test_another_look_follows_soon_while_somebody_waits_for_the_account_and_not_only_for_a_share_of_it(
    desk: Desk,
) -> None:
    """The burn may still contain what ended a moment before the look."""
    a, budget = desk.has("a"), SharedBudget(per_namespace=NamespaceBudget(max_gpus=1), max_burn_per_hour_cents=300)
    desk.has("r", id="p", state="running", pricePerHourCents=100, gpuCount=1)
    ready = account(budget)
    assert not desk.budgets.looked(ready, 1000, 300, desk.budgets.paid(ready))
    assert "GPU" in desk.budgets.ask(a, age(a), ready, Commitment(0, 1))
    assert not desk.budgets.looked(ready, 1000, 300, desk.budgets.paid(ready))
    assert "300 are taken" in desk.budgets.ask(a, age(a), ready, Commitment(100, 0))
    assert desk.budgets.looked(ready, 1000, 300, desk.budgets.paid(ready))


def test_what_others_are_not_sure_to_pay_makes_no_doubt_if_there_is_no_room_anyway(desk: Desk) -> None:
    r, a = desk.has("r", id="p", state="running", pricePerHourCents=100), desk.has("a")
    desk.burn = 300
    desk.look(burn(300))
    desk.cache.drop(r)
    assert "300 are taken: 200 too much" in desk.asks(a, TWO, burn(300))
    assert (desk.budgets.is_doubted(SHARED), desk.called()) == (False, [])


def test_a_namespace_whose_statuses_come_and_go_takes_no_more_than_its_share_from_others(desk: Desk) -> None:
    budget = SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=100), max_burn_per_hour_cents=300)
    other = desk.has("b", "team-b")
    desk.has("a", id="p", state="running", pricePerHourCents=100)
    desk.burn = 200
    desk.look(budget)
    for _ in range(5):
        desk.has("a", id="p", state="stopped")
        desk.has("a", id="p", state="running", pricePerHourCents=100_000)
    desk.has("a", id="p", state="stopped")
    assert desk.asks(other, ONE, budget) == ""


def test_one_that_is_gone_before_its_release_leaves_nothing(desk: Desk) -> None:
    desk.budgets.leaves_behind(ObjectKey("GpuPod", "team-a", "gone"))
    assert desk.asks(desk.has("b"), ONE, burn(100)) == ""


def test_under_another_budget_the_account_is_looked_at_first(desk: Desk) -> None:
    a = desk.has("a")
    assert desk.asks(a, ONE, burn(100)) == ""
    assert desk.budgets.ask(a, age(a), account(burn(101)), ONE) == "the account's balance is not known yet"


def test_what_grows_counts_once(desk: Desk) -> None:
    a = desk.has("a", id="p", state="running", pricePerHourCents=100)
    desk.burn = 100
    assert desk.asks(a, TWO, burn(200)) == ""


def test_what_a_recreated_account_may_not_show_yet_counts(desk: Desk) -> None:
    """The account is replaced while what an object left begins to run."""
    a, b, limit = desk.has("a", id="p", state="deploying", pricePerHourCents=100), desk.has("b"), burn(150)
    desk.budgets.leaves_behind(a)
    desk.cache.drop(a)
    desk.budgets.forget(SHARED)
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, limit)

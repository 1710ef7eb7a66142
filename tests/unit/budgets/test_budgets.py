"""Grants and lines over a cache: what counts, for whom, and who is called when there is room."""

import asyncio
import time

import orjson
import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.meta import CREATE_INTENT, ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.lines import Age
from relay_operator.budgets.prices import Capacity, ListedPrices, quote
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.commitment import Commitment
from relay_operator.engine.entry import LARGEST
from relay_operator.engine.queue import Queue
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from tests.unit.client.scripted import Reply, scripted_server

SHARED = ObjectKey("ClusterCloudAccount", "", "default")
REF: JsonValue = {"kind": "ClusterCloudAccount", "name": "default"}
ONE, TWO = Commitment(100, 1), Commitment(200, 2)


class Desk:
    """A cluster's account, and who asks at it."""

    def __init__(self) -> None:
        self.cache = Cache(priced=frozenset({"GpuPod"}))
        self.now = 0.0
        self.queue = Queue[ObjectKey](lambda: self.now)
        self.budgets = Budgets(self.cache, self.queue)
        self.burn = 0
        self._looked: tuple[AccountBudget | None, int] | None = None
        self._versions = iter(range(1, 1000))

    def version(self) -> str:
        """The next resource version."""
        return str(next(self._versions))

    def has(self, name: str, namespace: str = "team-a", reason: str = "", **status: JsonValue) -> ObjectKey:
        """An object as the watch tells of it; the older, the earlier in the alphabet."""
        key = ObjectKey("GpuPod", namespace, name)
        created = f"2026-03-01T12:00:{ord(name) - ord('a'):02}Z"
        metadata: JsonValue = {
            "uid": f"u-{name}",
            "resourceVersion": f"{next(self._versions)}",
            "creationTimestamp": created,
        }
        conditions: JsonValue = [{"type": "Ready", "status": "False", "reason": reason}]
        raw = {"metadata": metadata, "spec": {"accountRef": REF}, "status": {"conditions": conditions, **status}}
        self.cache.put(key, raw)
        return key

    def asks(self, key: ObjectKey, need: Commitment, budget: AccountBudget | None) -> str:
        """What it is told, after a look at the account under this budget."""
        if self._looked != (budget, self.burn):
            self.look(budget)
        return self.budgets.ask(key, age(key), account(budget), need)

    def plans(self, key: ObjectKey, need: Commitment, budget: AccountBudget | None) -> str:
        """The same of what is only planned."""
        if self._looked != (budget, self.burn):
            self.look(budget)
        return self.budgets.would_refuse(key, age(key), account(budget), need)

    def look(self, budget: AccountBudget | None) -> None:
        """What the cloud says: 1000 cents are available, and `burn` is paid an hour."""
        self._looked = (budget, self.burn)
        ready = account(budget)
        self.budgets.looked(ready, 1000, self.burn, self.budgets.paid(ready))

    def called(self) -> list[str]:
        """Names of those who are to look again."""
        names = list[str]()
        while len(self.queue):
            taken = asyncio.run(self.queue.take())
            self.queue.done(taken.key)
            names.append(taken.key.name)
        return names


def age(key: ObjectKey) -> Age:
    return Age(f"2026-03-01T12:00:{ord(key.name) - ord('a'):02}Z", f"u-{key.name}")


def account(budget: AccountBudget | None, organization: str = "org-1") -> AccountReady:
    cloud = Cloud("https://cloud.example", "k")
    return AccountReady(SHARED, cloud, organization, UnclaimedIds(), False, False, budget=budget)


def burn(cents: int) -> AccountBudget:
    return AccountBudget(max_burn_per_hour_cents=cents)


def each(**limits: int) -> SharedBudget:
    return SharedBudget(per_namespace=NamespaceBudget.model_validate(limits))


@pytest.fixture
def desk() -> Desk:
    return Desk()


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


def test_what_is_granted_counts_before_anything_is_written(desk: Desk) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(150)) == ""
    assert "100 are taken: 50 too much" in desk.asks(b, ONE, burn(150))
    assert desk.asks(a, ONE, burn(150)) == ""  # its own counts once
    desk.budgets.leave(a)
    assert desk.called() == ["b"]
    assert desk.asks(b, ONE, burn(150)) == ""


@pytest.mark.parametrize("how", ["leaves", "wrote nothing", "asks for too much", "is gone"])
def test_room_that_is_granted_and_not_taken_is_for_whoever_waits(desk: Desk, how: str) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(150)) == ""
    assert desk.asks(b, ONE, burn(150))
    match how:
        case "leaves":
            desk.budgets.leave(a)
        case "wrote nothing":
            desk.budgets.written(a)
        case "asks for too much":
            assert desk.asks(a, TWO, burn(150))
        case _:
            desk.cache.drop(a)
            desk.budgets.leave(a)
    assert desk.called() == ["b"]


def test_what_stands_on_an_object_is_no_room_for_others(desk: Desk) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(150)) == ""
    assert desk.asks(b, ONE, burn(150))
    desk.has("a", id="p", state="running", pricePerHourCents=100, gpuCount=1)
    desk.budgets.written(a)
    assert desk.called() == []


def test_what_is_only_planned_takes_no_place_and_is_called_once_there_is_room(desk: Desk) -> None:
    a, b = desk.has("a"), desk.has("b")
    r = desk.has("r", id="p", state="running", pricePerHourCents=150)
    assert "150 are taken: 100 too much" in desk.plans(a, ONE, burn(150))
    assert desk.asks(b, Commitment(50), burn(150)) != "an older object waits for what is free"
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    assert desk.called() == ["b"]
    assert desk.asks(b, Commitment(50), burn(150)) == ""
    desk.budgets.leave(b)
    assert desk.called() == []
    desk.cache.drop(r)
    assert desk.called() == ["a"]
    assert desk.plans(a, ONE, burn(150)) == ""
    desk.look(burn(150))
    assert desk.called() == []


@pytest.mark.parametrize("how", ["leaves", "asks"])
def test_what_is_not_planned_any_more_is_not_called(desk: Desk, how: str) -> None:
    a = desk.has("a")
    r = desk.has("r", id="p", state="running", pricePerHourCents=100)
    assert desk.plans(a, ONE, burn(150))
    if how == "leaves":
        desk.budgets.leave(a)
    else:
        assert desk.asks(a, Commitment(50), burn(150)) == ""
    desk.cache.drop(r)
    assert desk.called() == []


def test_who_waits_and_only_plans_then_waits_no_more(desk: Desk) -> None:
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(150))
    assert desk.asks(b, Commitment(50), burn(150)) == "an older object waits for what is free"
    assert desk.plans(a, ONE, burn(150))
    assert desk.called() == ["b"]
    assert desk.plans(a, ONE, None) == ""


def test_what_is_written_counts_once(desk: Desk) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(250)) == ""
    desk.has("a", id="p", state="running", pricePerHourCents=100)
    assert desk.asks(b, ONE, burn(250)) == ""
    desk.budgets.written(a)
    desk.budgets.written(b)
    assert desk.asks(b, ONE, burn(250)) == ""


def test_what_was_granted_to_one_that_is_gone_counts_no_more(desk: Desk) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(100)) == ""
    desk.cache.drop(a)
    assert desk.asks(b, ONE, burn(100)) == ""


def test_a_namespaces_share_is_not_anothers(desk: Desk) -> None:
    a, b, c = desk.has("a"), desk.has("b", "team-b"), desk.has("c")
    budget = each(maxBurnPerHourCents=100)
    assert (desk.asks(a, ONE, budget), desk.asks(b, ONE, budget)) == ("", "")
    assert "the namespace may pay" in desk.asks(c, ONE, budget)
    assert all(desk.budgets.stands(key, account(budget)) for key in (a, b))
    assert not desk.budgets.stands(a, account(each(maxGpus=0)))
    assert not desk.budgets.stands(a, account(burn(150)))
    assert desk.budgets.stands(a, account(None))


def test_one_waits_in_its_namespace_or_for_the_account_and_never_holds_up_others_needlessly(desk: Desk) -> None:
    a, b, c, d = desk.has("a"), desk.has("b"), desk.has("c", "team-b"), desk.has("d", "team-b")
    r = desk.has("r", id="p", state="running", pricePerHourCents=0, gpuCount=1)
    budget = SharedBudget(per_namespace=NamespaceBudget(max_gpus=2), max_burn_per_hour_cents=150)
    assert desk.asks(b, Commitment(100, 2), budget).startswith("it needs 2 GPU(s)")
    assert desk.asks(c, ONE, budget) == ""  # of another namespace
    assert desk.asks(a, Commitment(100, 0), budget).startswith("it costs 100 cents/h")  # for the account
    assert desk.asks(d, Commitment(40, 0), budget) == "an older object waits for what is free"
    desk.look(budget)
    assert sorted(desk.called()) == ["a", "b"]
    desk.cache.drop(a)
    desk.cache.drop(r)
    assert sorted(desk.called()) == ["b", "d"]


@pytest.mark.parametrize(
    "budget", [burn(150), each(maxBurnPerHourCents=150), each(maxGpus=1), SharedBudget(max_burn_per_hour_cents=150)]
)
def test_nobody_waits_behind_what_never_fits(desk: Desk, budget: AccountBudget) -> None:
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, TWO, budget)
    assert desk.asks(b, ONE, budget) == ""


def test_who_waited_under_a_former_process_is_before_whoever_asks_sooner(desk: Desk) -> None:
    desk.has("a", reason="WaitingForBudget")
    b = desk.has("b")
    assert desk.asks(b, ONE, burn(100)) == "an older object waits for what is free"
    desk.budgets.leave(ObjectKey("GpuPod", "team-a", "a"))
    assert desk.called() == ["b"]
    assert desk.asks(b, ONE, burn(100)) == ""


def test_what_ends_calls_the_first_in_line(desk: Desk) -> None:
    running = desk.has("r", id="p", state="running", pricePerHourCents=100)
    a, b = desk.has("a"), desk.has("b")
    for key in (b, a):
        assert desk.asks(key, ONE, burn(100))
    desk.cache.drop(running)
    assert desk.called() == ["a"]
    assert desk.asks(a, ONE, burn(100)) == ""
    assert desk.called() == ["b"]


def test_what_is_written_in_one_namespace_takes_nothing_from_another(desk: Desk) -> None:
    """Tenants may write annotations, and perhaps statuses."""
    key = ObjectKey("GpuPod", "team-a", "a")
    forged = '{"token":"t1","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z","reserved":%s}'
    for text in (forged % '{"token":"t1","cents":99999,"gpus":9}', "garbage"):
        metadata: JsonValue = {"uid": "o", "resourceVersion": desk.version(), "annotations": {CREATE_INTENT: text}}
        desk.cache.put(key, {"metadata": metadata, "spec": {"accountRef": REF}, "status": {}})
        budget = SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=100), max_burn_per_hour_cents=200)
        assert desk.asks(desk.has("b"), ONE, budget)
        other = desk.has("c", "team-b")
        assert desk.asks(other, ONE, budget) == ""
        desk.budgets.leave(other)


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


def test_one_that_asks_for_something_else_calls_the_next(desk: Desk) -> None:
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    a, b = desk.has("a"), desk.has("b")
    for key in (a, b):
        assert desk.asks(key, TWO, burn(250))
    assert desk.asks(a, Commitment(900, 9), burn(250))
    assert desk.called() == ["b"]


@pytest.mark.parametrize("change", [{"generation": 2}, {"uid": "another"}, {"annotations": {"x": "y" * LARGEST}}])
def test_nobody_waits_behind_one_that_is_not_the_same_any_more(desk: Desk, change: dict[str, JsonValue]) -> None:
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    a, b = desk.has("a"), desk.has("b")
    assert desk.asks(a, ONE, burn(150))
    assert desk.asks(b, Commitment(50, 0), burn(150)) == "an older object waits for what is free"
    metadata: dict[str, JsonValue] = {"uid": "u-a", "resourceVersion": desk.version()}
    desk.cache.put(a, {"metadata": metadata | change, "spec": {"accountRef": REF}, "status": {}})
    assert desk.asks(b, Commitment(50, 0), burn(150)) == ""


@pytest.mark.parametrize("how", ["asks", "plans"])
def test_one_that_waits_no_longer_lets_the_next_be_called_even_if_another_asks_before_its_own_pass(
    desk: Desk, how: str
) -> None:
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    a, b, c = desk.has("a"), desk.has("b"), desk.has("c")
    assert desk.asks(a, TWO, burn(250))
    assert desk.asks(b, ONE, burn(250)) == "an older object waits for what is free"
    desk.cache.drop(a)
    assert desk.called() == []
    ask = desk.asks if how == "asks" else desk.plans
    assert ask(c, ONE, burn(250)) == "an older object waits for what is free"
    assert desk.called() == ["b"]
    assert desk.asks(b, ONE, burn(250)) == ""


def test_what_grows_counts_once(desk: Desk) -> None:
    a = desk.has("a", id="p", state="running", pricePerHourCents=100)
    desk.burn = 100
    assert desk.asks(a, TWO, burn(200)) == ""


def test_what_is_granted_stands_although_more_was_reserved_and_others_count_the_larger(desk: Desk) -> None:
    """A scale-up was refused, the limit was lowered, and less is asked for."""
    a, b = desk.has("a", id="p", state="running", pricePerHourCents=100), desk.has("b")
    intent = '{"token":"t","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z"%s}'
    metadata: dict[str, JsonValue] = {"uid": "u-a", "resourceVersion": desk.version()}
    metadata["annotations"] = {CREATE_INTENT: intent % ',"reserved":{"token":"r","cents":2000,"gpus":10}'}
    status: JsonValue = {"id": "p", "state": "running", "pricePerHourCents": 100}
    desk.cache.put(a, {"metadata": metadata, "spec": {"accountRef": REF}, "status": status})
    assert desk.asks(a, Commitment(800, 4), burn(1500)) == ""
    assert desk.budgets.stands(a, account(burn(1500)))
    assert "2000 are taken" in desk.asks(b, ONE, burn(1500))
    desk.has("b", id="q", state="running", pricePerHourCents=701)
    assert not desk.budgets.stands(a, account(burn(1500)))
    desk.has("b", id="q", state="running", pricePerHourCents=700)
    assert desk.budgets.stands(a, account(burn(1500)))
    desk.budgets.written(a)
    assert not desk.budgets.stands(a, account(burn(1500)))


def test_one_that_goes_while_it_waits_is_not_called(desk: Desk) -> None:
    desk.has("r", id="p", state="running", pricePerHourCents=100)
    a = desk.has("a")
    assert desk.asks(a, ONE, burn(150))
    desk.cache.drop(a)
    desk.look(burn(150))
    assert desk.called() == []


async def test_one_request_tells_the_prices_to_all() -> None:
    gpu: JsonValue = {"gpuModelId": "h100", "name": "H100", "pricePerHourCents": 200}
    cpu: JsonValue = {"resourceSize": "s", "pricePerHourCents": 5, "vcpu": 1, "ramMb": 1}
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=orjson.dumps({"gpu": [gpu], "cpu": [cpu]})))
        pricing = ListedPrices(SharedLists(60.0, time.monotonic))
        prices = await pricing.of(cloud)
        assert await pricing.of(cloud) is prices
    assert (quote(prices, Capacity("h100", 2)), quote(prices, Capacity(size="s"))) == (400, 5)

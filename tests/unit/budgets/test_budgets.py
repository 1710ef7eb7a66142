"""Grants and lines over a cache: what counts, for whom, and who is called when there is room."""

from collections.abc import Sized
from dataclasses import replace

import pytest
from pydantic import JsonValue

from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.meta import CREATE_INTENT, ObjectKey
from relay_operator.budgets import budgets as budgets_module
from relay_operator.engine.commitment import Commitment
from relay_operator.engine.entry import LARGEST
from tests.unit.budgets.desk import ONE, REF, SHARED, TWO, Desk, account, age, burn, each


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


def takes(desk: Desk, cents: int) -> list[str]:
    """Who is called once what runs costs this much."""
    desk.has("r", id="p", state="running", pricePerHourCents=cents)
    return desk.called()


def test_what_becomes_free_is_offered_to_some_plans_and_a_look_offers_it_to_the_others(desk: Desk) -> None:
    """A tenant can have thousands of plans, and have something become free again and again."""
    takes(desk, 150)
    for number in range(100):
        assert desk.plans(desk.has("a", f"n-{number}"), ONE, burn(150))
    assert [len(takes(desk, 50)), len(takes(desk, 49))] == [32, 32]
    desk.look(burn(150))
    assert len(desk.called()) == 36


def test_plans_that_do_not_fit_let_the_others_have_their_turn(desk: Desk) -> None:
    takes(desk, 150)
    for number in range(100):
        assert desk.plans(desk.has("a", f"n-{number}"), TWO, burn(150))
    assert desk.plans(desk.has("b"), ONE, burn(150))
    assert [takes(desk, cents) for cents in (50, 49, 48, 47)] == [[], [], [], ["b"]]


def test_a_look_goes_through_so_many_plans_and_the_others_have_their_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets_module, "_PLANS_AT_A_LOOK", 10)
    monkeypatch.setattr(budgets_module, "_PLANS_AT_ONCE", 0)
    takes(desk, 150)
    for number in range(25):
        assert desk.plans(desk.has("a", f"n-{number}"), TWO, burn(150))
    assert desk.plans(desk.has("b"), ONE, burn(150))
    takes(desk, 50)
    called = list[list[str]]()
    for _ in range(3):
        desk.look(burn(150))
        called.append(desk.called())
    assert called == [[], [], ["b"]]


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


def forge(desk: Desk, name: str = "z", namespace: str = "team-b") -> ObjectKey:
    """A paused object with an intent that was written by hand."""
    reserved = '"reserved":{"token":"t1","cents":9007199254740991,"gpus":9}'
    text = f'{{"token":"t1","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z",{reserved}}}'
    annotations: JsonValue = {CREATE_INTENT: text, "gpurelay.dev/paused": "true"}
    metadata: JsonValue = {"uid": f"u-{name}", "resourceVersion": desk.version(), "annotations": annotations}
    key = ObjectKey("GpuPod", namespace, name)
    desk.cache.put(key, {"metadata": metadata, "spec": {"accountRef": REF}, "status": {}})
    return key


def test_where_the_account_admits_nothing_a_reservation_takes_nothing_and_what_status_shows_does(desk: Desk) -> None:
    key = forge(desk)
    desk.has("s", "team-b", id="p", state="running", pricePerHourCents=100)
    a, b = desk.has("a"), desk.has("b")
    assert desk.budgets.reserving(account(burn(250))) == ("team-b",)
    desk.budgets.not_admitted(account(None).key, "team-b")
    assert desk.asks(a, ONE, burn(250)) == ""
    desk.budgets.leaves_behind(key)
    desk.cache.drop(key)
    assert "200 are taken" in desk.asks(b, ONE, burn(250))


@pytest.mark.parametrize("how", ["asks", "plans", "lines up", "is found out"])
def test_where_the_account_admits_the_namespace_a_reservation_counts(desk: Desk, how: str) -> None:
    forge(desk)
    a, c = desk.has("a"), desk.has("c", "team-b")
    assert desk.asks(a, ONE, burn(250)) == ""
    match how:
        case "asks":
            assert desk.asks(c, ONE, burn(250))
        case "plans":
            assert desk.plans(c, ONE, burn(250))
        case "lines up":
            desk.budgets.line_up(c, age(c), account(burn(250)))
        case _:
            desk.budgets.admitted(account(None).key, "team-b")
    assert "9007199254740991 are taken" in desk.asks(a, ONE, burn(250))


def test_what_was_reserved_while_the_namespace_was_admitted_counts_until_the_burn_shows_it(desk: Desk) -> None:
    shared = account(None).key
    a, z = desk.has("a"), forge(desk)
    desk.budgets.admitted(shared, "team-b")
    desk.budgets.not_admitted(shared, "team-b")
    assert desk.asks(a, ONE, burn(250))
    desk.now += 899
    desk.budgets.not_admitted(shared, "team-b")
    assert desk.asks(a, ONE, burn(250))
    desk.now += 1
    desk.look(burn(250))
    assert desk.called() == ["a"]
    assert desk.asks(a, ONE, burn(250)) == ""
    desk.budgets.leaves_behind(z)
    desk.cache.drop(z)
    assert desk.asks(desk.has("b"), ONE, burn(250)) == ""


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


def test_who_uses_another_account_by_now_holds_up_nobody(desk: Desk) -> None:
    there, old, young = (desk.has(name) for name in "abc")
    assert desk.asks(there, ONE, burn(100)) == ""
    assert desk.asks(old, ONE, burn(100))
    desk.has("b", ref={"kind": "CloudAccount", "name": "own"})
    desk.cache.drop(there)
    desk.budgets.leave(there)
    assert desk.asks(young, ONE, burn(100)) == ""


def known_of_accounts(desk: Desk) -> int:
    budgets = desk.budgets
    kept: list[Sized] = [budgets._funds, budgets._lapsed, budgets._admitted, budgets._known, budgets._doubted]
    kept.append(budgets._left)
    return sum(map(len, kept))


def test_what_is_known_of_accounts_that_are_gone_does_not_grow(desk: Desk) -> None:
    """Anybody can create and delete accounts without end, and give them the keys of ever new organizations."""
    for number in range(20):
        ready = account(burn(150), f"org-{number % 3}")
        ready = replace(ready, key=ready.key._replace(name=f"account-{number}"))
        key = desk.has("a")
        desk.budgets.looked(ready, 1000, 0, desk.budgets.paid(ready))
        assert desk.budgets.ask(key, age(key), ready, ONE) == ""
        orphan = desk.has("o", f"left-{number}", ref={"kind": ready.key.kind, "name": ready.key.name})
        desk.budgets.leaves_behind(orphan)
        desk.cache.drop(orphan)
        desk.budgets.forget(ready.key)
    assert known_of_accounts(desk) == 0
    for number in range(20):
        ready = account(burn(150), f"org-{number}")
        desk.budgets.looked(ready, 1000, 0, desk.budgets.paid(ready))
    assert known_of_accounts(desk) <= 3


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_left_counts_until_its_account_is_gone_and_its_time_has_passed(desk: Desk, is_gone: bool) -> None:
    orphan, other = desk.has("a", id="p", state="deploying", pricePerHourCents=100), SHARED._replace(name="other")
    desk.budgets.leaves_behind(orphan)
    desk.cache.drop(orphan)
    if is_gone:
        desk.budgets.forget(SHARED)
    else:
        desk.cache.put(SHARED, {"metadata": {"uid": "u", "resourceVersion": "1"}})
    desk.budgets.forget(other)
    assert len(desk.budgets._left) == 1
    desk.now = 900
    desk.budgets.forget(other)
    assert len(desk.budgets._left) == (0 if is_gone else 1)

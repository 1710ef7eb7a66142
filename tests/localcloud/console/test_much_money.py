"""Pages of money and costs are exact, and what they read does not grow with runs and transactions without end."""

from __future__ import annotations

import pytest

from relay_localcloud.console import accrued, balance, costs
from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.money import accrual, billing, usage
from tests.localcloud.support.stints import START, Stints, played, steps

NOW = START + 20 * DAY + 3600 * SECOND


def runs(count: int) -> Stints:
    """One that runs on, and many that were over by the second day."""
    return [(0, 80 * DAY, 700), *((5 * SECOND * number, 3 * SECOND, 360_000) for number in range(count))]


def test_points_of_many_runs_are_midnights_and_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    with played(runs(100), NOW) as tx:
        every = {point.instant: point.cents for point in balance.series(tx, "org", START, NOW)}
        monkeypatch.setattr(accrued, "MOST_RUNS", 20)
        shown = balance.series(tx, "org", START, NOW)
        has = billing.account(tx, "org")
    assert [point.instant for point in shown] == [*range(START, NOW, DAY), NOW]
    assert (shown[0].cents, shown[-1].cents) == (every[START], every[NOW])
    assert shown[-1].cents == has.available_cents
    assert shown[1].cents == shown[-1].cents + accrual.cents(700 * (NOW - START - DAY))


def test_what_both_pages_read_does_not_grow_with_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accrued, "MOST_RUNS", 20)
    monkeypatch.setattr(usage, "MOST_RUNS", 20)
    took: list[tuple[int, int]] = []
    for count in (100, 1_000):
        with played(runs(count), NOW) as tx:
            of_balance = steps(tx, lambda: balance.series(tx, "org", START, NOW))
            took.append((of_balance, steps(tx, lambda: costs.bars(tx, "org", 30))))
            shown, days = costs.bars(tx, "org", 30), usage.by_day(tx, "org", 30, NOW)
        assert list(shown.totals) == [day.cents for day in days]
        assert shown.series[-1].name == "all others"
    assert took[0] == pytest.approx(took[1], rel=0.1)


def test_of_many_transactions_the_newest_are_drawn_from_a_midnight_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "MOST_TRANSACTIONS", 5)
    took: list[int] = []
    for count in (20, 200):
        with played([], START + 5 * DAY) as tx:
            for _ in range(count):
                billing.post(tx, "org", "credit", 1, "of the first days")
            tx.now += DAY // 2
            for _ in range(5):
                billing.post(tx, "org", "credit", 100, "of the last")
            tx.now += DAY
            took.append(steps(tx, lambda: balance.series(tx, "org", START, tx.now)))
            shown = balance.series(tx, "org", START, tx.now)
        assert shown[0].instant == START + 5 * DAY
        assert {point.cents for point in shown} == {count, count + 500}
    assert took[0] == pytest.approx(took[1], rel=0.1)

"""What was spent this month and for whom, and when that is worth a write."""

from datetime import UTC, datetime, timedelta

import pytest

from relay_operator.api.cloudaccount_status import MAX_SPENDERS, AccountStatus, Spend, Spent
from relay_operator.crds.structural import structural
from relay_operator.engine.status import dumped
from relay_operator.flows.account.spend import Owner, month_of, names_by_id, worth_telling
from relay_wire.billing import CurrentUsage
from tests.unit.engine.structural import problems

NOW = datetime(2026, 3, 17, 12, 30, 5, 999, tzinfo=UTC)
A, B = Owner("team-a", "research"), Owner("team-b", "")


def usage_of(*lines: tuple[str | None, int | None], total: int | None = None) -> CurrentUsage:
    """A breakdown of ids and cents."""
    breakdown = [{"resourceId": cloud_id, "cents": cents} for cloud_id, cents in lines]
    cents = sum(cents or 0 for _, cents in lines) if total is None else total
    return CurrentUsage.model_validate({"usageCents": cents, "usageHours": 1.0, "breakdown": breakdown})


def namespaces(spend: Spend) -> dict[str, int]:
    return {one.name: one.cents for one in spend.by_namespace}


def centers(spend: Spend) -> dict[str, int]:
    return {one.name: one.cents for one in spend.by_cost_center}


def test_each_resource_is_of_whom_it_is_of_and_the_rest_of_nobody() -> None:
    usage = usage_of(("pod-1", 70), ("pod-1", 30), ("pod-2", 20), ("pod-3", 5), (None, 4), ("pod-4", None), total=140)
    month = month_of(usage, {"pod-1": A, "pod-2": B, "pod-4": Owner("team-c", "")}, NOW)
    assert namespaces(month.spend) == {"team-a": 100, "team-b": 20, "unattributed": 20}
    assert centers(month.spend) == {"research": 100, "unattributed": 40}
    assert set(month.shares) == {
        ("team-a", "research", 100),
        ("team-b", "unattributed", 20),
        ("unattributed", "unattributed", 20),
    }
    assert (month.spend.since, month.spend.observed_time) == (
        datetime(2026, 3, 1, tzinfo=UTC),
        datetime(2026, 3, 17, 12, 30, 5, tzinfo=UTC),
    )


def test_who_is_called_unattributed_has_what_is_of_nobody_beside_the_own() -> None:
    month = month_of(usage_of(("pod-1", 7), ("pod-2", 3)), {"pod-1": Owner("unattributed", "unattributed")}, NOW)
    assert namespaces(month.spend) == centers(month.spend) == {"unattributed": 10}
    assert month.shares == (("unattributed", "unattributed", 10),)


def test_a_breakdown_that_sums_up_to_more_leaves_nothing_to_nobody() -> None:
    assert namespaces(month_of(usage_of(("pod-1", 70), total=69), {"pod-1": A}, NOW).spend) == {"team-a": 70}


def test_what_a_cloud_says_beyond_all_bounds_fits_into_status() -> None:
    usage = usage_of(("pod-1", 2**70), ("pod-2", -5), total=2**71)
    spend = month_of(usage, {"pod-1": A, "pod-2": B}, NOW).spend
    status = dumped(AccountStatus(spend=spend))
    assert list(problems(structural(AccountStatus), {"observedGeneration": 1, "conditions": [], **status})) == []
    assert namespaces(spend) == {"team-a": 2**63 - 1, "unattributed": 2**63 - 1}


@pytest.mark.parametrize(("number", "shown"), [(15, 15), (16, 16), (17, 16)])
def test_a_namespace_has_sixteen_cost_centres_and_the_rest_of_it_is_one(number: int, shown: int) -> None:
    """The namespace beside has its own."""
    owners = {f"pod-{cents}": Owner("team-a", f"c{cents}") for cents in range(1, number + 1)}
    lines = [(f"pod-{cents}", cents) for cents in range(1, number + 1)]
    month = month_of(usage_of(*lines, ("other", 1)), owners | {"other": A._replace(namespace="team-b")}, NOW)
    told = centers(month.spend)
    assert len(told.keys() - {"research"}) == shown
    assert (told["research"], sum(told.values())) == (1, sum(range(1, number + 1)) + 1)
    assert ("others" in told) == (number > 16)
    assert told[f"c{number}"] == number


@pytest.mark.parametrize(("number", "rest"), [(254, 0), (255, 0), (256, 2)])
def test_as_many_namespaces_as_status_has_room_for_are_told_and_the_smallest_are_one(number: int, rest: int) -> None:
    owners = {f"pod-{each}": Owner(f"team-{each:03}", f"c{each}") for each in range(number)}
    month = month_of(usage_of(*((name, 1) for name in owners), ("nobodys", 5)), owners, NOW)
    for told in (namespaces(month.spend), centers(month.spend)):
        assert len(told) == min(number + 1, MAX_SPENDERS)
        assert (told.get("others", 0), told["unattributed"], sum(told.values())) == (rest, 5, number + 5)
    assert len(month.shares) == min(number + 1, MAX_SPENDERS)


def _spend(minutes: float = 0, cents: int = 100_000, name: str = "team-a", month: int = 3) -> Spend:
    since = datetime(2026, month, 1, tzinfo=UTC)
    told = [Spent(name=name, cents=cents)]
    return Spend(since=since, observed_time=NOW + timedelta(minutes=minutes), by_namespace=told, by_cost_center=[])


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (_spend(14.9, name="team-b"), False),
        (_spend(15, name="team-b"), True),
        (_spend(0.1, month=4), True),
        (_spend(14.9, cents=200_000), False),
        (_spend(15, cents=200_000), True),
        (_spend(15, cents=101_000), False),
        (_spend(15, cents=101_001), True),
        (_spend(59.9, cents=100_500), False),
        (_spend(60, cents=100_500), True),
        (_spend(600), False),
        (None, True),
    ],
)
def test_a_month_is_told_at_once_growth_from_time_to_time_and_nothing_new_never(
    after: Spend | None, told: bool
) -> None:
    assert worth_telling(_spend(), after) is told


@pytest.mark.parametrize(("cents", "told"), [(200, False), (201, True)])
def test_cents_that_grow_by_a_dollar_are_told_before_an_hour_and_by_less_are_not(cents: int, told: bool) -> None:
    assert worth_telling(_spend(cents=100), _spend(15, cents=cents)) is told


def test_the_first_that_is_spent_is_told_at_once() -> None:
    nothing = _spend().model_copy(update={"by_namespace": []})
    assert not worth_telling(None, None)
    assert worth_telling(None, nothing)
    assert not worth_telling(nothing, nothing.model_copy(update={"observed_time": NOW + timedelta(days=1)}))
    assert worth_telling(nothing, _spend(cents=1))


def test_each_resource_has_the_last_name_told_of_it_and_what_is_no_id_none() -> None:
    told = [("pod-1", "first"), ("pod-1", "last"), ("pod-1", None), ("pod-2", None), ("x" * 254, "x"), (None, "y")]
    lines = [{"resourceId": cloud_id, "name": name, "cents": 0} for cloud_id, name in told]
    usage = CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": lines})
    assert names_by_id(usage) == {"pod-1": "last", "pod-2": ""}

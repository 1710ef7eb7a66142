"""What `kubectl relay cost` makes of objects and of the cloud's usage."""

from typing import Any

import pytest

from relay_cli.accounts import Organization, organizations, url_of
from relay_cli.cost import Share, days_of, left_out, of_no_object, shares
from relay_cli.failures import Failure
from relay_cli.kubectl import parsed
from relay_cli.objects import CloudObject
from relay_cli.spend import COLUMNS, spenders
from relay_cli.tables import table
from relay_operator.api.cloudaccount import CloudAccount
from relay_operator.api.cloudaccount_status import AccountStatus
from relay_wire.billing import BillingBreakdownItem, CurrentUsage, DailyUsage

CLOUD = "c10d"
ORG, ELSEWHERE = Organization(CLOUD, "org_1"), Organization("e115", "org_1")


def _workload(
    cloud_id: str,
    namespace: str = "ml",
    center: str = "",
    state: str = "running",
    price: int | None = 100,
    former: list[dict[str, Any]] | None = None,
) -> CloudObject:
    labels = {"gpurelay.dev/cost-center": center} if center else {}
    identity = {"namespace": namespace, "name": cloud_id, "uid": "u", "organization": "org_1", "endpoint": CLOUD}
    status = {"id": cloud_id, "state": state, "pricePerHourCents": price, "identity": identity, "former": former}
    metadata = {"name": cloud_id, "namespace": namespace, "labels": labels}
    return parsed(CloudObject, {"kind": "GpuPod", "metadata": metadata, "spec": {}, "status": status})


def _used(**cents: int) -> CurrentUsage:
    items = [BillingBreakdownItem(resource_id=name, cents=spent) for name, spent in cents.items()]
    return CurrentUsage(usage_cents=sum(cents.values()), usage_hours=1.0, breakdown=items)


def _share(
    namespace: str | None, center: str | None, billed: int, hour: int, month: int | None, unpriced: int = 0
) -> Share:
    return Share(
        namespace=namespace,
        cost_center=center,
        billed=billed,
        unpriced=unpriced,
        price_per_hour_cents=hour,
        month_to_date_cents=month,
    )


def test_each_namespace_and_cost_center_has_its_share() -> None:
    found = [_workload("a"), _workload("b", center="x"), _workload("c", "web"), _workload("d", center="x", price=1)]
    assert shares(found, {ORG: _used(a=10, b=20, c=30, d=4)}) == [
        _share("ml", None, 1, 100, 10),
        _share("ml", "x", 2, 101, 24),
        _share("web", None, 1, 100, 30),
    ]


def test_the_old_cluster_beside_the_new_one_is_the_same_objects_cost() -> None:
    both = _workload("a", former=[{"id": "old", "name": "llm-1", "pricePerHourCents": 40, "gpus": 1}])
    used = {ORG: _used(a=10, old=7)}
    assert shares([both], used) == [_share("ml", None, 1, 140, 17)]
    assert of_no_object([both], used) == []


def test_a_price_that_is_not_known_is_told() -> None:
    rows = shares([_workload("a"), _workload("b", price=None)], {ORG: _used(a=10, b=20)})
    assert rows == [_share("ml", None, 2, 100, 30, unpriced=1)]
    assert left_out(rows) == "\nPER HOUR leaves out 1 billed whose price is not known\n"
    assert left_out([_share("ml", None, 1, 100, 10)]) == ""


def test_what_several_rows_say_of_one_resource_is_added() -> None:
    twice = BillingBreakdownItem(resource_id="a", cents=10)
    used = CurrentUsage(usage_cents=25, usage_hours=1.0, breakdown=[twice, twice, BillingBreakdownItem(cents=5)])
    assert shares([_workload("a")], {ORG: used}) == [_share("ml", None, 1, 100, 20)]
    assert of_no_object([_workload("a")], {ORG: used}) == [_share(None, None, 0, 0, 5)]


def test_what_is_stopped_costs_nothing_an_hour_and_what_it_did_this_month() -> None:
    assert shares([_workload("a", state="stopped")], {ORG: _used(a=10)}) == [_share("ml", None, 0, 0, 10)]


def test_without_the_organizations_usage_the_month_is_not_known() -> None:
    assert shares([_workload("a")], {}) == [_share("ml", None, 1, 100, None)]


def test_what_no_object_has_is_told_apart() -> None:
    assert of_no_object([_workload("a")], {ORG: _used(a=10, gone=5)}) == [_share(None, None, 0, 0, 5)]
    assert of_no_object([_workload("a")], {ORG: _used(a=10)}) == []


def test_without_a_breakdown_that_can_be_read_the_month_of_no_row_is_known() -> None:
    used = {ORG: CurrentUsage.model_validate({"usageCents": 25, "usageHours": 1, "breakdown": "?"})}
    assert shares([_workload("a")], used) == [_share("ml", None, 1, 100, None)]
    assert of_no_object([_workload("a")], used) == [_share(None, None, 0, 0, None)]


def test_accounts_tell_who_spent_what_those_who_spent_most_first() -> None:
    told = {
        "since": "2026-11-01T00:00:00Z",
        "observedTime": "2026-11-23T18:05:12Z",
        "byNamespace": [{"name": "ml", "cents": 1}, {"name": "web", "cents": 29_854}],
        "byCostCenter": [{"name": "research", "cents": 29_855}],
    }
    account = _account()
    account = account.model_copy(update={"status": AccountStatus.model_validate({"spend": told})})
    rows = spenders([_account(), account])
    assert [(row.account, row.by, row.name, row.month_to_date_cents) for row in rows] == [
        ("CloudAccount/ml/default", "namespace", "web", 29_854),
        ("CloudAccount/ml/default", "namespace", "ml", 1),
        ("CloudAccount/ml/default", "costCenter", "research", 29_855),
    ]
    assert table(COLUMNS, rows).splitlines() == [
        "ACCOUNT                  NAMESPACE  COST CENTER  THIS MONTH",
        "CloudAccount/ml/default  web        -               $298.54",
        "CloudAccount/ml/default  ml         -                 $0.01",
        "CloudAccount/ml/default  -          research        $298.55",
    ]


def test_days_are_told_by_organization() -> None:
    told = [DailyUsage(date="2026-11-22", usage_cents=5, usage_hours=0.5)]
    evil = DailyUsage(date="2026-11-22", usage_cents=0, usage_hours=0.5)
    other = _account(organization="org_1", namespace="evil")
    rows = days_of({ORG: told, ELSEWHERE: [evil]}, {ORG: [_account()], ELSEWHERE: [other]})
    assert [(day.organization, day.account, day.date, day.cents, day.hours) for day in rows] == [
        ("org_1", "CloudAccount/ml/default", "2026-11-22", 5, 0.5),
        ("org_1", "CloudAccount/evil/default", "2026-11-22", 0, 0.5),
    ]


def test_another_cloud_with_the_same_organization_says_nothing_of_ones_own() -> None:
    """A tenant's own cloud may say of itself what it likes."""
    assert shares([_workload("a")], {ELSEWHERE: _used(a=10)}) == [_share("ml", None, 1, 100, None)]
    assert shares([_workload("a")], {ORG: _used(a=10), ELSEWHERE: _used(a=90)}) == [_share("ml", None, 1, 100, 10)]
    assert of_no_object([_workload("a")], {ORG: _used(a=10), ELSEWHERE: _used(a=90)}) == [_share(None, None, 0, 0, 90)]


def _account(**fields: Any) -> CloudAccount:
    spec = {"apiKeySecretRef": {"name": "key", "key": "api-key"}, "baseUrl": fields.get("url")}
    when = "2026-11-23T08:00:00Z"
    ready = {"type": "Ready", "status": fields.get("ready"), "reason": "Because", "lastTransitionTime": when}
    status = {
        "organizationId": fields.get("organization"),
        "endpoint": fields.get("endpoint"),
        "conditions": [ready | {"observedGeneration": 3}] if "ready" in fields else [],
    }
    metadata = {"name": "default", "namespace": fields.get("namespace", "ml"), "generation": fields.get("spec", 3)}
    return parsed(CloudAccount, {"metadata": metadata, "spec": spec, "status": status})


def test_the_accounts_own_url_comes_before_the_one_that_was_given() -> None:
    assert url_of(_account(url="https://own.example"), "https://given.example") == "https://own.example"
    assert url_of(_account(), "https://given.example") == "https://given.example"


def test_without_any_url_it_says_where_to_give_one() -> None:
    with pytest.raises(Failure, match="--base-url or RELAY_DEFAULT_BASE_URL"):
        url_of(_account(), "")


def test_an_account_whose_organization_was_never_learned_pays_for_nothing() -> None:
    one, other = (_account(organization="org_1", endpoint=CLOUD, namespace=name) for name in ("ml", "web"))
    assert organizations([_account(endpoint=CLOUD), one, other]) == {ORG: [one, other]}


def test_an_account_belongs_to_an_organization_of_the_cloud_that_it_calls() -> None:
    honest = _account(organization="org_1", endpoint=CLOUD)
    ready = _account(organization="org_1", endpoint=CLOUD, url="https://own.example", ready="True")
    evil = _account(organization="org_1", endpoint="e115", url="https://evil.example", ready="True")
    assert organizations([evil, ready, honest]) == {ELSEWHERE: [evil], ORG: [ready, honest]}


@pytest.mark.parametrize("since", [{}, {"ready": "False"}, {"ready": "True", "spec": 4}])
def test_what_status_tells_of_a_former_cloud_does_not_count_for_the_present_one(since: dict[str, Any]) -> None:
    moved = _account(organization="org_1", endpoint=CLOUD, url="https://evil.example", **since)
    assert organizations([moved]) == {Organization("https://evil.example", "org_1"): [moved]}

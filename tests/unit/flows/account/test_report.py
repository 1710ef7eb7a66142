"""What an account's status says, and when it is worth a write."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay_client import Cloud
from relay_operator.api.cloudaccount import CloudAccount
from relay_operator.api.cloudaccount_status import AccountStatus, InUse, Spend, WebhookStatus
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine import conditions
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.status import status_patch
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.account import report
from relay_operator.flows.account.report import AccountFinding, OrganizationSeen
from relay_operator.flows.account.spend import month_of
from relay_wire.account import Whoami
from relay_wire.billing import Balance, CurrentUsage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ObjectKey("CloudAccount", "team-a", "default")
WHO = Whoami(principal_type="api_key", organization_id="org-1", organization_name="Team A", scopes=["vms:read"])
REVOKED = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "the cloud refuses the API key")
PLAIN: dict[str, Any] = {}
DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SILENT = AccountWaiting(Reason.CLOUD_UNAVAILABLE, "no answer")


@pytest.fixture
def ready() -> AccountReady:
    cloud = Cloud("http://127.0.0.1:1", "or_key", organization_id="org-1")
    asyncio.run(cloud.aclose())
    return AccountReady(KEY, cloud, "org-1", UnclaimedIds(), resend_unknown=False, adoption_allowed=True)


def _seen(
    available: int = 10_000, burn: int = 100, runway: float | None = 90.5, webhook: str = "wh-1"
) -> OrganizationSeen:
    balance = Balance(
        balance_cents=available, available_cents=available, accrued_usage_cents=0, current_month_usage_cents=0,
        transactions=[],
    )  # fmt: skip
    usage = CurrentUsage(
        usage_cents=0, usage_hours=0, breakdown=[], burn_per_hour_cents=burn, projected_runway_hours=runway
    )
    return OrganizationSeen(balance, usage, WebhookStatus(id=webhook) if webhook else None)


def _finding(
    state: AccountState, seen: OrganizationSeen | None = None, metadata: dict[str, Any] = PLAIN, **other: object
) -> AccountFinding:
    spec = {"apiKeySecretRef": {"name": "relay", "key": "api-key"}}
    account = CloudAccount.model_validate({"metadata": {"name": "default", "generation": 1} | metadata, "spec": spec})
    told: dict[str, object] = {"in_use": InUse(), "now": NOW} | other
    return AccountFinding(account=account, state=state, who=WHO, seen=seen, **told)  # type: ignore[arg-type]


def new_status(before: AccountStatus, finding: AccountFinding) -> AccountStatus:
    account = finding.account.model_copy(update={"status": before})
    return report.new_status(replace(finding, account=account))


def _says(status: AccountStatus, wanted: ConditionType) -> tuple[str, str] | None:
    condition = conditions.find(status.conditions, wanted)
    return None if condition is None else (condition.status, condition.reason)


def test_a_working_account_is_ready_and_shows_its_organization(ready: AccountReady) -> None:
    status = new_status(AccountStatus(), _finding(ready, _seen()))
    assert _says(status, ConditionType.READY) == ("True", "Available")
    assert _says(status, ConditionType.STALLED) is None
    assert _says(status, ConditionType.WEBHOOK_READY) == ("True", "Subscribed")
    assert (status.organization_id, status.organization_name, status.scopes) == ("org-1", "Team A", ["vms:read"])
    assert (status.available_cents, status.burn_per_hour_cents, status.runway_hours) == (10_000, 100, 90)
    assert status.observed_generation == 1


def test_a_pass_that_found_nothing_new_writes_nothing(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen()))
    later = NOW + timedelta(hours=1)
    assert status_patch(before, new_status(before, _finding(ready, _seen(), now=later))) == {}
    assert status_patch(before, new_status(before, _finding(ready, None, now=later))) == {}


def test_what_another_release_told_stays_while_nothing_is_looked_at(ready: AccountReady) -> None:
    told = new_status(AccountStatus(), _finding(ready, _seen()))
    words = [one.model_copy(update={"reason": "OfAnotherRelease"}) for one in told.conditions]
    before = told.model_copy(update={"conditions": words})
    after = new_status(before, _finding(SILENT))
    assert _says(after, ConditionType.READY) == ("True", "OfAnotherRelease")
    assert _says(after, ConditionType.WEBHOOK_READY) == ("True", "OfAnotherRelease")


def test_money_that_drifts_as_workloads_run_is_not_written(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen(10_000)))
    assert status_patch(before, new_status(before, _finding(ready, _seen(9_850, runway=89.2)))) == {}
    moved = new_status(before, _finding(ready, _seen(9_700, runway=88)))
    assert (moved.available_cents, moved.runway_hours) == (9_700, 88)


def test_money_is_written_when_what_runs_changes_or_funds_become_low(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen(10_000, runway=24.1)))
    assert new_status(before, _finding(ready, _seen(9_990, burn=200, runway=24.1))).available_cents == 9_990
    low = new_status(before, _finding(ready, _seen(9_990, runway=23.9)))
    assert low.runway_hours == 23
    assert _says(low, ConditionType.FUNDS_LOW) == ("True", "RunwayShort")


def _spent(cents: int, minutes: float = 0) -> Spend:
    usage = CurrentUsage(usage_cents=cents, usage_hours=0, breakdown=[])
    return month_of(usage, {}, NOW + timedelta(minutes=minutes)).spend


def test_spend_is_written_with_the_money_that_is_written_anyway_and_alone_when_it_is_worth_it(
    ready: AccountReady,
) -> None:
    before = new_status(AccountStatus(), _finding(ready, replace(_seen(10_000), spend=_spent(1_000))))
    assert before.spend == _spent(1_000)
    soon, later = (replace(_seen(9_850), spend=_spent(1_150, minutes)) for minutes in (14, 15))
    assert status_patch(before, new_status(before, _finding(ready, soon))) == {}
    grown = new_status(before, _finding(ready, later))
    assert (grown.spend, grown.available_cents) == (later.spend, 9_850)
    moved = new_status(before, _finding(ready, replace(_seen(9_000), spend=soon.spend)))
    assert (moved.spend, moved.available_cents) == (soon.spend, 9_000)


def test_spend_that_is_not_told_this_time_stays(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, replace(_seen(), spend=_spent(1_000))))
    assert new_status(before, _finding(ready, _seen(5_000))).spend == _spent(1_000)
    assert new_status(before, _finding(ready, None)).spend == _spent(1_000)


def test_a_key_that_may_not_see_the_balance_writes_no_more_than_one_that_may(ready: AccountReady) -> None:
    seen = replace(_seen(), balance=None)
    before = new_status(AccountStatus(), _finding(ready, replace(seen, spend=_spent(1_000))))
    assert (before.available_cents, before.spend) == (None, _spent(1_000))
    again = replace(_seen(runway=70.5), balance=None, spend=_spent(1_010, 15))
    assert status_patch(before, new_status(before, _finding(ready, again))) == {}
    balance = new_status(before, _finding(ready, _seen(500)))
    assert balance.available_cents == 500


@pytest.mark.parametrize("runway", [None, float("nan"), float("inf")])
def test_without_burn_there_is_no_runway_and_funds_are_not_low(ready: AccountReady, runway: float | None) -> None:
    status = new_status(AccountStatus(), _finding(ready, _seen(burn=0, runway=runway)))
    assert status.runway_hours is None
    assert _says(status, ConditionType.FUNDS_LOW) is None


def test_funds_below_zero_are_low_though_nothing_burns(ready: AccountReady) -> None:
    status = new_status(AccountStatus(), _finding(ready, _seen(-324, burn=0, runway=None)))
    low = conditions.find(status.conditions, ConditionType.FUNDS_LOW)
    assert low is not None
    assert low.message == "the available balance is -324 cents: add funds, or nothing starts"
    assert new_status(status, _finding(ready, _seen(1, burn=0, runway=None))).available_cents == 1


def test_funds_below_the_floor_are_low_though_nothing_burns(ready: AccountReady) -> None:
    seen = _seen(499, burn=0, runway=None)
    assert seen.usage is not None
    above, below = (
        new_status(AccountStatus(), _finding(ready, replace(seen, usage=seen.usage.model_copy(update=told))))
        for told in ({"auto_stop_floor_cents": 499}, {"auto_stop_floor_cents": 500})
    )
    assert _says(above, ConditionType.FUNDS_LOW) is None
    low = conditions.find(below.conditions, ConditionType.FUNDS_LOW)
    assert low is not None
    assert low.message == "the available balance is 499 cents, below the floor of 500: add funds, or nothing starts"


def test_that_low_funds_are_below_the_floor_is_told_though_they_hardly_moved(ready: AccountReady) -> None:
    low = new_status(AccountStatus(), _finding(ready, _seen(5, runway=0)))
    below = conditions.find(new_status(low, _finding(ready, _seen(-1, runway=0))).conditions, ConditionType.FUNDS_LOW)
    assert below is not None
    assert below.message.startswith("the available balance is -1 cents")


def test_the_least_deposit_is_told_with_the_money_and_a_spend_limit_at_once(ready: AccountReady) -> None:
    def seen(available: int, least: int, limit: int | None) -> OrganizationSeen:
        told = _seen(available)
        assert told.balance is not None
        more = {"min_deposit_cents": least, "monthly_spend_limit_cents": limit}
        return replace(told, balance=told.balance.model_copy(update=more))

    before = new_status(AccountStatus(), _finding(ready, seen(10_000, 1_000, 50_000)))
    assert (before.min_deposit_cents, before.monthly_spend_limit_cents) == (1_000, 50_000)
    assert status_patch(before, new_status(before, _finding(ready, seen(9_990, 1_010, 50_000)))) == {}
    lifted = new_status(before, _finding(ready, seen(9_990, 1_010, None)))
    assert (lifted.min_deposit_cents, lifted.monthly_spend_limit_cents) == (1_000, None)


def test_a_revoked_key_stalls_the_account_and_what_was_known_stays(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen()))
    status = new_status(before, _finding(REVOKED))
    assert _says(status, ConditionType.READY) == ("False", "AccountUnauthorized")
    assert _says(status, ConditionType.STALLED) == ("True", "AccountUnauthorized")
    assert (status.organization_id, status.available_cents) == ("org-1", 10_000)
    again = new_status(status, _finding(ready, _seen()))
    assert _says(again, ConditionType.READY) == ("True", "Available")
    assert _says(again, ConditionType.STALLED) is None


def test_a_silent_cloud_leaves_ready_as_it_was_and_stalls_after_three_failures(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen()))
    once = new_status(before, _finding(SILENT, failures=1))
    assert status_patch(before, once) == {}
    thrice = new_status(once, _finding(SILENT, failures=3))
    assert _says(thrice, ConditionType.READY) == ("True", "Available")
    assert _says(thrice, ConditionType.STALLED) == ("True", "CloudUnavailable")


def test_an_account_that_was_never_seen_working_is_neither_ready_nor_not() -> None:
    status = new_status(AccountStatus(), _finding(SILENT, failures=1))
    assert _says(status, ConditionType.READY) == ("Unknown", "CloudUnavailable")


def test_a_deleted_account_in_use_says_what_depends_on_it(ready: AccountReady) -> None:
    used = InUse(gpu_pods=2, ssh_keys=1, inference_batches=3)
    status = new_status(AccountStatus(), _finding(ready, _seen(), DELETED, in_use=used))
    stalled = conditions.find(status.conditions, ConditionType.STALLED)
    assert stalled is not None
    assert stalled.reason == "InUse"
    assert "2 GpuPods, 3 InferenceBatches that are not finished, 1 SshKeys; delete them first" in stalled.message
    assert _says(status, ConditionType.READY) == ("True", "Available")


def test_a_deleted_account_that_only_deleted_objects_use_does_not_ask_for_their_deletion(ready: AccountReady) -> None:
    finding = _finding(ready, _seen(), DELETED, in_use=InUse(gpu_pods=2), all_going=True)
    stalled = conditions.find(new_status(AccountStatus(), finding).conditions, ConditionType.STALLED)
    assert stalled is not None
    assert stalled.message == "it is kept while objects depend on it: 2 GpuPods; they are being deleted"


def test_a_deleted_account_whose_key_is_revoked_stalls_once(ready: AccountReady) -> None:
    before = new_status(AccountStatus(), _finding(ready, _seen()))
    status = new_status(before, _finding(REVOKED, None, DELETED, in_use=InUse(gpu_pods=1)))
    assert [item.type for item in status.conditions].count("Stalled") == 1
    assert _says(status, ConditionType.READY) == ("False", "AccountUnauthorized")


def test_what_the_key_may_not_do_is_told_without_making_the_account_unready(ready: AccountReady) -> None:
    seen = OrganizationSeen(
        webhook_trouble="the key lacks clusters:write", notes=("the balance cannot be read: billing:read",)
    )
    status = new_status(AccountStatus(), _finding(ready, seen))
    told = conditions.find(status.conditions, ConditionType.READY)
    assert told is not None
    assert told.status == "True"
    assert "billing:read" in told.message
    assert _says(status, ConditionType.WEBHOOK_READY) == ("False", "WebhookRefused")


def test_a_paused_account_says_so(ready: AccountReady) -> None:
    status = new_status(AccountStatus(), _finding(ready, _seen(), {"annotations": {"gpurelay.dev/paused": "true"}}))
    assert _says(status, ConditionType.PAUSED) == ("True", "Paused")


def test_what_cannot_be_written_down_of_what_is_left_is_told_and_makes_the_account_no_less_ready(
    ready: AccountReady,
) -> None:
    status = new_status(AccountStatus(), _finding(ready, _seen(), unrecorded="the ConfigMap a/b cannot be written"))
    told = conditions.find(status.conditions, ConditionType.LEFTOVER_UNRECORDED)
    assert told is not None
    assert told.message == "the ConfigMap a/b cannot be written"
    assert _says(status, ConditionType.READY) == ("True", "Available")
    again = new_status(status, _finding(ready))
    assert _says(again, ConditionType.LEFTOVER_UNRECORDED) is None


@pytest.mark.parametrize(
    ("outdated", "before", "after"), [(False, None, "here"), (True, None, None), (True, "former", "here")]
)
def test_an_older_crd_would_drop_where_the_account_is(
    ready: AccountReady, *, outdated: bool, before: str | None, after: str | None
) -> None:
    """What stands there shows that this kind's CRD keeps it, and must not stand beside another cloud's organization."""
    state = replace(ready, endpoints=Endpoints("here"))
    told = new_status(AccountStatus(endpoint=before), _finding(state, outdated=outdated))
    assert told.endpoint == after

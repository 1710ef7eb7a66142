"""Money that runs out stops things; nothing is given up, and all goes on when funds are back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, READ_BALANCE, asked, changes, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

L40S_CENTS = 89
"""Of one GPU, an hour."""


def _exhausted(item: Manifest | None) -> bool:
    return stalled(item) == "BalanceExhausted"


async def _balance(workspace: Workspace, cents: int) -> None:
    await workspace.cloud.control.change_organization(workspace.organization.id, balanceCents=cents)


async def test_a_create_without_funds_waits_and_is_sent_again_when_there_are_some(brisk_workspace: Workspace) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    await _balance(brisk_workspace, 0)
    await brisk_workspace.apply(gpu_pod())

    def waiting(item: Manifest | None) -> bool:
        return condition(item, "Reconciling").get("reason") == "WaitingForBudget"

    told = await brisk_workspace.becomes("GpuPod", "trainer", waiting)
    assert condition(told, "Ready")["status"] == "False"
    assert condition(told, "BudgetExceeded")["status"] == "True"
    assert "nextAttemptTime" in told["status"]
    await _balance(brisk_workspace, 100_000)
    ready = await brisk_workspace.becomes("GpuPod", "trainer")
    assert condition(ready, "BudgetExceeded") == {}
    assert [one["status"] for one in await asked(brisk_workspace, CREATE_POD)].count(200) == 1


async def test_funds_that_come_back_are_used_though_the_next_attempt_is_minutes_away(workspace: Workspace) -> None:
    """One request of the account's every ten seconds meanwhile, and none of the objects that wait."""
    await workspace.becomes("CloudAccount", "default")
    await _balance(workspace, -324)
    before_refusals = await count(workspace, READ_BALANCE)
    await workspace.apply(gpu_pod())
    await workspace.apply(gpu_cluster(replicas=1))

    def waiting(item: Manifest | None) -> bool:
        return condition(item, "Reconciling").get("reason") == "WaitingForBudget"

    told = [await workspace.becomes(*one, waiting) for one in (("GpuPod", "trainer"), ("GpuCluster", "llm"))]
    assert [condition(one, "BudgetExceeded")["status"] for one in told] == ["True", "True"]
    # A deposit is what raises the balance over what the account read after the first refusal.
    await eventually(lambda: count(workspace, READ_BALANCE), lambda reads: reads > before_refusals, what="a balance")
    await _balance(workspace, 100_000)
    ready = [await workspace.becomes(*one) for one in (("GpuPod", "trainer"), ("GpuCluster", "llm"))]
    for before, after in zip(told, ready, strict=True):
        agreed = datetime.fromisoformat(before["status"]["nextAttemptTime"])
        began = condition(after, "Ready")["lastTransitionTime"]
        assert datetime.fromisoformat(began) < agreed, "it did not wait for the attempt that was agreed"
    assert await count(workspace, CREATE_POD) == await count(workspace, CREATE_CLUSTER) == 2


async def test_a_pod_stopped_for_its_balance_tells_the_day_of_deletion_and_starts_when_funds_are_back(
    brisk_workspace: Workspace,
) -> None:
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _balance(brisk_workspace, -1)
    told = await brisk_workspace.becomes("GpuPod", "trainer", _exhausted)
    assert told["status"]["state"] == "stopped"
    assert condition(told, "Ready")["status"] == "False"
    deadline = datetime.fromisoformat(told["status"]["deletionDeadline"])
    assert abs(deadline - datetime.now(UTC) - timedelta(days=7)) < timedelta(minutes=5)
    (named,) = re.findall(r"deleted by the cloud with its volume on (\S+)", condition(told, "Stalled")["message"])
    assert datetime.fromisoformat(named) == deadline

    await _balance(brisk_workspace, 100_000)
    started = await brisk_workspace.becomes("GpuPod", "trainer")
    assert started["status"]["id"] == pod["status"]["id"]
    assert "deletionDeadline" not in started["status"]
    assert stalled(started) == ""


async def test_a_pod_asked_to_be_stopped_is_not_started_by_new_funds(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _balance(brisk_workspace, -1)
    told = await brisk_workspace.becomes("GpuPod", "trainer", _exhausted)
    await brisk_workspace.kube.patch("GpuPod", "trainer", {"spec": {"budget": {"maxPricePerHourCents": 0}}})
    held = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "BudgetExceeded")
    await brisk_workspace.kube.patch("GpuPod", "trainer", {"spec": {"powerState": "Stopped"}})
    stopped = await brisk_workspace.becomes("GpuPod", "trainer")
    assert {one["status"]["deletionDeadline"] for one in (held, stopped)} == {told["status"]["deletionDeadline"]}
    await _balance(brisk_workspace, 100_000)
    await brisk_workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": "now"})

    def looked(item: Manifest | None) -> bool:
        return bool((item or {})["status"].get("reconcileAt") == "now")

    assert (await brisk_workspace.becomes("GpuPod", "trainer", looked))["status"]["state"] == "stopped"
    assert (await brisk_workspace.organization.vm(pod["status"]["id"]))["status"] == "stopped"
    kept = await brisk_workspace.becomes(
        "GpuPod", "trainer", lambda item: "deletionDeadline" not in (item or {})["status"]
    )
    assert "deleted" not in condition(kept, "Ready")["message"]


async def test_a_paused_pod_tells_that_its_balance_stopped_it_and_is_not_started(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/paused": "true"})
    held = await workspace.becomes("GpuPod", "trainer", lambda item: bool(condition(item, "Paused")))
    assert condition(held, "Ready")["reason"] == "Running"
    await _balance(workspace, -1)
    told = await workspace.becomes("GpuPod", "trainer", lambda item: "deletionDeadline" in (item or {})["status"])
    assert (told["status"]["state"], condition(told, "Ready")["reason"]) == ("stopped", "Paused")
    await _balance(workspace, 100_000)
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": "now"})

    def looked(item: Manifest | None) -> bool:
        return bool((item or {})["status"].get("reconcileAt") == "now")

    assert (await workspace.becomes("GpuPod", "trainer", looked))["status"]["state"] == "stopped"
    assert await changes(workspace) == [CREATE_POD]
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/paused": None})
    started = await workspace.becomes("GpuPod", "trainer")
    assert "deletionDeadline" not in started["status"]


async def test_a_cluster_stopped_for_its_balance_is_started_when_funds_are_back(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    await _balance(brisk_workspace, -1)
    told = await brisk_workspace.becomes("GpuCluster", "llm", _exhausted)
    assert "deletionDeadline" not in told["status"]
    assert "deleted" not in condition(told, "Stalled")["message"]
    await _balance(brisk_workspace, 100_000)
    started = await brisk_workspace.becomes("GpuCluster", "llm")
    assert started["status"]["id"] == cluster["status"]["id"]


async def test_a_cluster_has_a_price_with_and_without_a_budget(brisk_workspace: Workspace) -> None:
    def priced(replicas: int) -> Callable[[Manifest | None], bool]:
        return lambda item: bool(item and item["status"].get("pricePerHourCents") == replicas * L40S_CENTS)

    await brisk_workspace.apply(gpu_cluster(replicas=1, budget={"maxPricePerHourCents": 10_000}))
    await brisk_workspace.becomes("GpuCluster", "llm", priced(1))
    await brisk_workspace.kube.patch("GpuCluster", "llm", {"spec": {"budget": None, "replicas": 2}})
    await brisk_workspace.becomes("GpuCluster", "llm", priced(2))


async def test_a_pod_not_funded_for_a_week_is_gone_and_told_so(brisk_private_workspace: Workspace) -> None:
    control = brisk_private_workspace.cloud.control
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    await _balance(brisk_private_workspace, -1)
    await brisk_private_workspace.becomes("GpuPod", "trainer", _exhausted)
    await control.advance(7 * 86_400 + 60)
    told = await brisk_private_workspace.becomes(
        "GpuPod", "trainer", lambda item: stalled(item) == "TerminatedExternally"
    )
    assert told["status"]["id"] == pod["status"]["id"]
    assert len(await asked(brisk_private_workspace, CREATE_POD)) == 1


async def test_an_account_tells_that_its_funds_are_low_and_that_they_are_not(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.becomes("GpuPod", "trainer")
    await _balance(brisk_workspace, 200)
    account = await brisk_workspace.becomes(
        "CloudAccount", "default", lambda item: condition(item, "FundsLow").get("status") == "True"
    )
    assert account["status"]["runwayHours"] < 24
    assert account["status"]["burnPerHourCents"] > 0
    await _balance(brisk_workspace, 100_000)
    look = brisk_workspace.kube.looking_at("CloudAccount", "default")
    await eventually(look, lambda item: not condition(item, "FundsLow"), what="funds are no longer low")

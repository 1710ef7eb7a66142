"""The metrics as a scraper sees them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from relay_operator.observability.metrics import Metrics, WebhookOutcome, process_metrics

BOUNDED_LABELS = {
    *("kind", "outcome", "reason", "condition", "operation", "status", "verb", "priority", "namespace", "account"),
    *("fate", "model", "schedule", "account_namespace", "cost_center"),
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


def test_every_name_has_the_prefix_and_every_label_a_closed_set_of_values(metrics: Metrics) -> None:
    for metric in metrics.registry.collect():
        assert re.fullmatch(r"gpurelay_[a-z_]+", metric.name)
        assert metric.documentation.endswith(".")
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} <= BOUNDED_LABELS


def test_no_answer_is_counted_apart_from_every_status(metrics: Metrics) -> None:
    metrics.on_cloud_request("create_pod", None, 0.5)
    metrics.on_cloud_request("create_pod", 200, 0.5)
    metrics.on_write("gpupods", "patch", 0)
    value = metrics.registry.get_sample_value
    assert value("gpurelay_cloud_requests_total", {"operation": "create_pod", "status": "none"}) == 1
    assert value("gpurelay_cloud_requests_total", {"operation": "create_pod", "status": "200"}) == 1
    assert value("gpurelay_kubernetes_writes_total", {"kind": "gpupods", "verb": "patch", "outcome": "none"}) == 1


def test_however_many_statuses_a_cloud_sends_few_are_told_apart(metrics: Metrics) -> None:
    for status in range(1000):
        metrics.on_cloud_request("get_vm", status, 0.5)
    told = {
        sample.labels["status"]: sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "gpurelay_cloud_requests_total"
    }
    assert {"200", "204", "401", "404", "422", "429", "502", "503"} <= told.keys()
    assert {status: number for status, number in told.items() if not status.isdigit()} == {
        "1xx": 100,
        "2xx": 95,
        "3xx": 95,
        "4xx": 87,
        "5xx": 96,
        "other": 500,
    }


def test_webhook_outcomes_are_there_before_the_first_delivery(metrics: Metrics) -> None:
    for outcome in WebhookOutcome:
        assert metrics.registry.get_sample_value("gpurelay_webhook_deliveries_total", {"outcome": outcome}) == 0


def test_late_creates_are_there_before_the_first() -> None:
    registry = process_metrics("1.2.3", ("GpuPod",)).registry
    assert registry.get_sample_value("gpurelay_late_creates_total", {"kind": "GpuPod"}) == 0


def test_a_deleted_account_is_not_shown_any_longer(metrics: Metrics) -> None:
    metrics.on_balance("team-a", "default", 5_000, None, None)
    metrics.on_balance("team-b", "default", 7_000, 120, 2_000)
    metrics.forget_account("team-a", "default")
    metrics.forget_account("team-c", "never-seen")
    text = generate_latest(metrics.registry).decode()
    assert "team-a" not in text
    assert 'gpurelay_burn_cents_per_hour{account="default",namespace="team-b"} 120.0' in text
    assert 'gpurelay_account_auto_stop_floor_cents{account="default",namespace="team-b"} 2000.0' in text


def test_a_floor_is_zero_until_the_cloud_reports_one_and_then_keeps_its_value(metrics: Metrics) -> None:
    labels, value = {"namespace": "team-a", "account": "default"}, metrics.registry.get_sample_value
    metrics.on_balance(**labels, available_cents=5_000, burn_cents_per_hour=None, floor_cents=None)
    assert value("gpurelay_account_auto_stop_floor_cents", labels) == 0
    metrics.on_balance(**labels, available_cents=5_000, burn_cents_per_hour=90, floor_cents=2_000)
    metrics.on_balance(**labels, available_cents=5_000, burn_cents_per_hour=None, floor_cents=None)
    assert value("gpurelay_account_auto_stop_floor_cents", labels) == 2_000


def test_who_spent_nothing_more_is_not_shown_any_longer(metrics: Metrics) -> None:
    metrics.on_spend("team-a", "default", [("team-a", "research", 70), ("team-a", "sales", 5)])
    metrics.on_spend("", "default", [("team-a", "research", 30)])
    metrics.on_spend("team-a", "default", [("team-a", "research", 71)])
    labels = {"account": "default", "namespace": "team-a", "cost_center": "research"}
    value = metrics.registry.get_sample_value
    assert value("gpurelay_spend_cents", {**labels, "account_namespace": "team-a"}) == 71
    assert value("gpurelay_spend_cents", {**labels, "account_namespace": ""}) == 30
    assert "sales" not in generate_latest(metrics.registry).decode()
    metrics.forget_account("team-a", "default")
    assert value("gpurelay_spend_cents", {**labels, "account_namespace": "team-a"}) is None
    assert value("gpurelay_spend_cents", {**labels, "account_namespace": ""}) == 30


def test_who_spends_on_is_shown_all_the_time(metrics: Metrics) -> None:
    labels = {"account_namespace": "team-a", "account": "default", "namespace": "team-a", "cost_center": ""}
    seen: list[float | None] = []

    def shares() -> Iterator[tuple[str, str, int]]:
        seen.append(metrics.registry.get_sample_value("gpurelay_spend_cents", labels))
        yield "team-a", "", 71

    metrics.on_spend("team-a", "default", [("team-a", "", 70)])
    metrics.on_spend("team-a", "default", shares())
    assert seen == [70]


def test_what_one_account_spent_takes_no_walk_through_the_series_of_all(metrics: Metrics) -> None:
    series = _Unwalked()
    metrics.spend_cents._metrics = series
    for cents in (70, 71):
        metrics.on_spend("team-a", "default", [("team-a", f"research {cents}", cents)])
    metrics.forget_account("team-a", "default")
    assert len(series) == 0


class _Unwalked(dict[Sequence[str], Any]):
    """Series that nobody may go through one by one."""

    def __iter__(self) -> Iterator[Sequence[str]]:
        raise AssertionError("somebody walks through all series")

    keys = __iter__  # type: ignore[assignment]


def test_the_process_tells_its_version_and_its_memory() -> None:
    text = generate_latest(process_metrics("1.2.3", ()).registry).decode()
    assert 'gpurelay_build_info{version="1.2.3"} 1.0' in text
    assert "process_resident_memory_bytes" in text

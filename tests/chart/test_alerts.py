"""Each alert fires when somebody must act, and not before: Prometheus' own promtool plays the series."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.binaries import promtool
from tests.support.chart import rendered
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OURS = 'job="relay-operator-metrics",namespace="relay-system"'
ANOTHER_RELEASE = 'job="relay-operator-metrics",namespace="another"'
Labels = dict[str, str]


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, a value a minute, by name and own labels; and when the alert fires."""

    alert: str
    series: dict[str, str]
    fires: dict[str, tuple[Labels, ...]]
    """By time since the first value: the labels of what fires then, those that all have aside; nothing is none."""


JOB = {"job": "relay-operator-metrics"}
ACCOUNT = {**JOB, "exported_namespace": "a", "account": "x"}
BALANCE = 'gpurelay_account_available_cents{exported_namespace="a",account="x"}'
FLOOR = 'gpurelay_account_auto_stop_floor_cents{exported_namespace="a",account="x"}'
BURN = 'gpurelay_burn_cents_per_hour{exported_namespace="a",account="x"}'
FAILING = 'gpurelay_cloud_requests_total{operation="get_vm",status="503"}'
UNREACHED = 'gpurelay_cloud_requests_total{operation="whoami",status="none"}'
REFUSED = 'gpurelay_cloud_requests_total{operation="get_vm",status="404"}'
NO_ROOM = 'gpurelay_cloud_requests_total{operation="create_pod",status="503"}'
WORKING = 'gpurelay_cloud_requests_total{operation="get_vm",status="200"}'

CASES = (
    Case(
        "RelayCreateOutcomeUnknown",
        {'gpurelay_create_outcome_unknown{kind="GpuPod"}': "_x3 1x9 _x20"},
        {"7m": (), "9m": ({"kind": "GpuPod"},), "25m": ()},
    ),
    Case(
        "RelayLateCreate",
        {'gpurelay_late_creates_total{kind="GpuPod",pod="a"}': "0x9 1x90"},
        {"9m": (), "11m": ({**JOB, "pod": "a", "kind": "GpuPod"},), "75m": ()},
    ),
    Case(
        "RelayOrphans",
        {'gpurelay_leftovers{fate="orphan",pod="a"}': "0x4 2x80 0x9"},
        {"60m": (), "70m": ({"fate": "orphan"},), "90m": ()},
    ),
    Case(
        "RelayOrphans",
        {'gpurelay_leftovers{fate="kept"}': "1x90", 'gpurelay_leftovers{fate="late"}': "1x90"},
        {"90m": ()},
    ),
    Case(
        "RelayStalled",
        {'gpurelay_troubles{kind="GpuCluster",condition="Stalled"}': "1x20 _x20"},
        {"14m": (), "16m": ({"kind": "GpuCluster"},), "30m": ()},
    ),
    Case("RelayStalled", {'gpurelay_troubles{kind="GpuPod",condition="FundsLow"}': "1x30"}, {"30m": ()}),
    Case(
        "RelayDeletionDeadline",
        {'gpurelay_deletion_deadlines{kind="GpuPod"}': "1x10 _x20"},
        {"4m": (), "6m": ({"kind": "GpuPod"},), "20m": ()},
    ),
    Case(
        "RelayDeletionStuck",
        {'gpurelay_deletions{kind="GpuPod"}': "0x4 1x70 _x20"},
        {"60m": (), "70m": ({"kind": "GpuPod"},), "85m": ()},
    ),
    Case("RelayDeletionStuck", {'gpurelay_deletions{kind="GpuPod"}': "1x50 0x1 1x50"}, {"100m": ()}),
    Case(
        "RelayBatchFailed",
        {'gpurelay_troubles{kind="InferenceBatch",condition="Failed"}': "_x4 1x5 _x20"},
        {"3m": (), "6m": ({"kind": "InferenceBatch"},), "20m": ()},
    ),
    Case(
        "RelayWebhooksSilent",
        {'gpurelay_troubles{kind="CloudAccount",condition="WebhookReady"}': "1x40 _x20"},
        {"29m": (), "31m": ({"kind": "CloudAccount"},), "50m": ()},
    ),
    Case(
        "RelayNoLeader",
        {'gpurelay_leader{pod="a"}': "1x4 0x20", 'gpurelay_leader{pod="b"}': "0x9 1x20"},
        {"4m": (), "8m": ({},), "12m": ()},
    ),
    Case("RelayNoLeader", {}, {"3m": ({},)}),
    Case("RelayCloudUnavailable", {FAILING: "0+6x40", WORKING: "0+4x40"}, {"14m": (), "20m": ({},)}),
    Case("RelayCloudUnavailable", {UNREACHED: "0+6x40", WORKING: "0+0x40"}, {"20m": ({},)}),
    Case("RelayCloudUnavailable", {FAILING: "0+4x40", REFUSED: "0+6x40"}, {"40m": ()}),
    Case("RelayCloudUnavailable", {NO_ROOM: "0+9x40", WORKING: "0+1x40"}, {"40m": ()}),
    Case(
        "RelayQueueStuck",
        {
            'gpurelay_queue_oldest_seconds{pod="a"}': "0x4 130+60x20 0x9",
            'gpurelay_queue_oldest_seconds{pod="b"}': "0x40",
        },
        {"14m": (), "16m": ({},), "30m": ()},
    ),
    Case(
        "RelayWebhookSignatures",
        {'gpurelay_webhook_deliveries_total{outcome="bad_signature",pod="a"}': "0x4 0+3x10 30x40"},
        {"8m": (), "14m": ({**JOB, "pod": "a", "outcome": "bad_signature"},), "40m": ()},
    ),
    Case("RelayWebhookSignatures", {'gpurelay_webhook_deliveries_total{outcome="duplicate"}': "0+9x40"}, {"40m": ()}),
    Case(
        "RelayFundsLow",
        {BALANCE: "7399x20 99999x9", FLOOR: "5000x40", BURN: "100x40"},
        {"9m": (), "11m": (ACCOUNT,), "25m": ()},
    ),
    Case("RelayFundsLow", {BALANCE: "7401x20", FLOOR: "5000x20", BURN: "100x20"}, {"20m": ()}),
    Case("RelayFundsLow", {BALANCE: "-324x20", FLOOR: "0x20"}, {"9m": (), "11m": (ACCOUNT,)}),
    Case("RelayFundsLow", {BALANCE: "0x20", FLOOR: "0x20", BURN: "0x20"}, {"20m": ()}),
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the chart gives to Prometheus, as a file of its own."""
    manifests = asyncio.run(rendered("relay-system", "metrics.prometheusRule.enabled=true"))
    (rule,) = (one["spec"] for one in manifests if one["kind"] == "PrometheusRule")
    path = tmp_path_factory.mktemp("alerts") / "rules.yaml"
    path.write_text(yaml.safe_dump(rule))
    return path


def test_prometheus_takes_the_rules(rules: Path) -> None:
    check("check", "rules", "--lint=all", "--lint-fatal", rules)


def test_each_alert_is_seen_to_fire_and_to_be_silent(rules: Path) -> None:
    alerts = {one["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for one in group["rules"]}
    assert {case.alert for case in CASES if any(case.fires.values())} == alerts
    assert {case.alert for case in CASES if () in case.fires.values()} == alerts


@pytest.mark.parametrize("alert", dict.fromkeys(case.alert for case in CASES))
def test_an_alert_fires_when_somebody_must_act_and_is_silent_before_and_after(alert: str, rules: Path) -> None:
    cases = [case for case in CASES if case.alert == alert]
    of_another = [replace(case, fires=dict.fromkeys(case.fires, ())) for case in cases if alert != "RelayNoLeader"]
    play(rules, [(case, OURS) for case in cases] + [(case, ANOTHER_RELEASE) for case in of_another])


def test_nothing_fires_for_a_release_in_which_all_is_well(rules: Path) -> None:
    well = {
        'gpurelay_leader{pod="a"}': "1x60",
        BALANCE: "99999x60",
        FLOOR: "5000x60",
        BURN: "100x60",
        WORKING: "0+9x60",
    }
    well |= {'gpurelay_late_creates_total{kind="GpuPod"}': "0x60", 'gpurelay_leftovers{fate="orphan"}': "0x60"}
    play(rules, [(Case(alert, well, {"60m": ()}), OURS) for alert in {case.alert for case in CASES}])


def play(rules: Path, cases: Sequence[tuple[Case, str]]) -> None:
    """Has promtool play each case with the labels of its target."""
    groups = yaml.safe_load(rules.read_text())["groups"]
    severity = {one["alert"]: one["labels"]["severity"] for group in groups for one in group["rules"]}
    played = {
        "rule_files": [rules.name],
        "evaluation_interval": "1m",
        "tests": [as_test(case, target, severity[case.alert]) for case, target in cases],
    }
    path = rules.with_name("played.yaml")
    path.write_text(yaml.safe_dump(played))
    check("test", "rules", path)


def as_test(case: Case, target: str, severity: str) -> dict[str, Any]:
    every = {"alertname": case.alert, "alertstate": "firing", "severity": severity, "namespace": "relay-system"}
    return {
        "name": f"{case.alert} with {case.series}",
        "interval": "1m",
        "input_series": [{"series": targeted(name, target), "values": values} for name, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}',
                "eval_time": moment,
                "exp_samples": [{"labels": braced("ALERTS", every | labels), "value": 1} for labels in firing],
            }
            for moment, firing in case.fires.items()
        ],
    }


def targeted(series: str, target: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    return f"{name}{{{target}{',' if labels else ''}{labels}}}"


def braced(name: str, labels: Labels) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def check(*arguments: str | Path) -> None:
    command = [str(promtool()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

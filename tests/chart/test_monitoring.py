"""Alerts and dashboard ask Prometheus for what /metrics shows, and lead to a page that says what to do."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
from prometheus_client import generate_latest

from relay_operator.observability.metrics import process_metrics
from tests.support.chart import CHART, rendered
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

ALERTS = ("metrics.prometheusRule.enabled=true",)
DASHBOARD: dict[str, Any] = json.loads((CHART / "dashboards" / "relay-operator.json").read_text())
TARGET = {"job", "namespace", "pod", "exported_namespace"}
"""Labels that Prometheus gives to what it scrapes."""


def shown() -> dict[str, str]:
    """Name to type of all that /metrics shows, as it says itself."""
    text = generate_latest(process_metrics("1.2.3", ()).registry).decode()
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))


def series() -> set[str]:
    """Names that a query can ask for."""
    histograms = {name for name, kind in shown().items() if kind == "histogram"}
    return shown().keys() | {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}


async def alerts() -> list[dict[str, Any]]:
    (rule,) = (one for one in await rendered("relay-system", *ALERTS) if one["kind"] == "PrometheusRule")
    return [one for group in rule["spec"]["groups"] for one in group["rules"]]


def targets() -> Iterator[tuple[str, str]]:
    """Query and legend of everything on the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"].replace("$__rate_interval", "5m"), target["legendFormat"]


async def test_every_query_is_one_that_prometheus_can_read() -> None:
    queries = [one["expr"] for one in await alerts()] + [query for query, _ in targets()]
    for query in queries:
        promql_parser.parse(query)
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse(queries[0].replace(")", "", 1))


async def test_queries_ask_for_metrics_that_exist_of_this_release_alone() -> None:
    in_alerts = [one["expr"] for one in await alerts()]
    on_dashboard = [query for query, _ in targets()]
    of_this_release = (
        *((one, '{job="relay-operator-metrics",namespace="relay-system"') for one in in_alerts),
        *((one, '{job="$job",namespace="$namespace"') for one in on_dashboard),
    )
    for query, selector in of_this_release:
        asked = re.findall(r"\b(?:gpurelay|process)_\w+", query)
        assert query.count(selector) == len(asked) > 0, query
        assert set(asked) <= series()


def test_everything_that_is_measured_is_on_the_dashboard_or_tells_of_itself() -> None:
    queries = " ".join(query for query, _ in targets())
    unseen = {name for name in shown() if name.startswith("gpurelay_") and name not in queries}
    assert unseen == {"gpurelay_build_info"}


def test_a_legend_names_labels_that_its_query_keeps() -> None:
    for query, legend in targets():
        kept = {label.strip() for names in re.findall(r"by \(([^)]*)\)", query) for label in names.split(",")}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= (kept or TARGET), query


async def test_each_alert_leads_to_a_heading_that_exists() -> None:
    for one in await alerts():
        url, _, anchor = one["annotations"]["runbook_url"].partition("#")
        page = REPOSITORY / "docs" / f"{url.rstrip('/').rpartition('/')[2]}.md"
        headings = {text.lower() for text in re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE)}
        assert anchor in headings
        assert anchor == one["alert"].lower()


async def test_runbooks_can_be_a_sites_own() -> None:
    own = "metrics.prometheusRule.runbookUrl=https://wiki.example.com/gpu/"
    (rule,) = (one for one in await rendered("relay-system", *ALERTS, own) if one["kind"] == "PrometheusRule")
    first = rule["spec"]["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"].startswith("https://wiki.example.com/gpu/#relay")


async def test_there_is_an_alert_for_all_that_a_person_must_do() -> None:
    said = {one["alert"]: one["expr"] for one in await alerts()}
    conditions = [f'condition="{each}"' for each in ("Stalled", "Failed", "WebhookReady")]
    for needle in (*conditions, "deletion_deadlines", "deletions"):
        assert any(needle in expression for expression in said.values()), needle


async def test_the_dashboard_is_where_the_sidecar_of_grafana_looks() -> None:
    manifests = await rendered("relay-system", "metrics.dashboard.enabled=true")
    (found,) = (one for one in manifests if one["kind"] == "ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["relay-operator.json"]) == DASHBOARD


def test_no_two_panels_share_an_id_or_a_place() -> None:
    panels = DASHBOARD["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    cells = [
        (x, y)
        for one in panels
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)

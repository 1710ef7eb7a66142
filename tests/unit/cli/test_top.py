"""What `kubectl relay top` makes of objects."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import parsed
from relay_cli.objects import CloudObject
from relay_cli.tables import WIDTH, as_json
from relay_cli.top import Row, running, shown


def _object(name: str = "trainer", kind: str = "GpuPod", **status: Any) -> dict[str, Any]:
    told = {"id": "one", "state": "running", "pricePerHourCents": 249, "gpuModelId": "h100", "gpuCount": 1} | status
    return {"kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": {"image": "x"}, "status": told}


def _rows(*objects: dict[str, Any]) -> list[Row]:
    return running([parsed(CloudObject, one) for one in objects])


@pytest.mark.parametrize("state", ["stopped", "terminated", "failed", None])
def test_what_takes_no_machine_does_not_run(state: str | None) -> None:
    assert _rows(_object(state=state)) == []


@pytest.mark.parametrize(("state", "billed"), [("running", True), ("degraded", True), ("deploying", False)])
def test_what_is_on_its_way_is_shown_and_not_yet_billed(state: str, billed: bool) -> None:
    (row,) = _rows(_object(state=state))
    assert row.billed is billed


@pytest.mark.parametrize(("kind", "billed"), [("GpuCluster", True), ("GpuVm", False)])
def test_a_cluster_whose_replicas_load_is_billed(kind: str, billed: bool) -> None:
    (row,) = _rows(_object(kind=kind, state="provisioning"))
    assert row.billed is billed


def test_the_gpus_of_a_cluster_are_those_of_all_replicas() -> None:
    (row,) = _rows(_object(kind="GpuCluster", gpuCount=2, replicas=3))
    assert row.gpus == 6
    (unsaid,) = _rows(_object(kind="ServingDeployment", gpuCount=None, replicas=3))
    assert unsaid.gpus is None


def test_what_a_later_release_asks_of_an_object_does_not_keep_it_from_being_read() -> None:
    (row,) = _rows(_object() | {"spec": {"updateStrategy": {"type": "OfTomorrow"}, "powerState": 7}})
    assert row.name == "trainer"


@pytest.mark.parametrize(
    ("spec", "status", "name"),
    [
        ({}, {}, "default"),
        ({"accountRef": {"name": "asked"}}, {}, "asked"),
        ({"accountRef": {"name": "asked"}}, {"account": {"name": "has"}}, "has"),
    ],
)
def test_the_account_is_the_one_it_was_made_with(spec: dict[str, Any], status: dict[str, Any], name: str) -> None:
    (row,) = _rows(_object(**status) | {"spec": spec})
    assert row.account == name


def test_a_shared_account_is_told_from_one_of_the_namespace_with_the_same_name() -> None:
    own, shared = _rows(_object(), _object(account={"kind": "ClusterCloudAccount", "name": "default"}))
    assert (own.account_kind, shared.account_kind) == ("CloudAccount", "ClusterCloudAccount")
    assert [line.split()[2] for line in shown([own, shared], everywhere=False).splitlines()[1:3]] == [
        "default",
        "ccacct/default",
    ]


def test_since_is_the_start_of_the_run_else_of_the_state() -> None:
    state, run = "2026-11-23T08:00:00Z", "2026-11-23T09:00:00Z"
    both, one = _rows(_object(stateSince=state, runningSince=run), _object(stateSince=state))
    assert (both.since, one.since) == (datetime(2026, 11, 23, 9, tzinfo=UTC), datetime(2026, 11, 23, 8, tzinfo=UTC))


def test_the_sum_is_of_what_is_billed_and_says_whose_price_is_missing() -> None:
    rows = _rows(_object(), _object(pricePerHourCents=1), _object(state="deploying"), _object(pricePerHourCents=None))
    assert shown(rows, everywhere=False).endswith("\n3 of 4 billed: $2.50 an hour, and 1 whose price is not known\n")


def _blue(**fields: Any) -> dict[str, Any]:
    return {"former": [{"id": "old", "name": "llm-1", "pricePerHourCents": 400, "gpus": 2} | fields]}


@pytest.mark.parametrize(
    ("status", "billed", "cents", "gpus"),
    [
        (_blue(), True, 649, 3),  # both run
        ({"state": "provisioning"} | _blue(), True, 649, 3),  # the new one's replicas load
        ({"state": "stopping"} | _blue(), True, 400, 3),
        ({"id": None} | _blue(), True, 400, 2),  # status still describes the old one
        ({"id": None, "state": None} | _blue(), True, 400, 2),
        ({"state": "deploying"} | _blue(pricePerHourCents=None), True, None, 3),
        ({"pricePerHourCents": None} | _blue(), True, None, 3),
        ({"state": "deploying"} | _blue(pricePerHourCents=None, gpus=None), False, 249, 1),  # a stopped one is not paid
    ],
)
def test_the_old_cluster_beside_the_new_one_counts(
    status: dict[str, Any], billed: bool, cents: int | None, gpus: int
) -> None:
    (row,) = _rows(_object(kind="GpuCluster", **status))
    assert (row.billed, row.price_per_hour_cents, row.gpus) == (billed, cents, gpus)


def test_the_longest_names_fit_80_columns_and_are_whole() -> None:
    name, namespace = "n" * 253, "s" * 63
    rows = _rows(
        _object(name, kind="GpuCluster", gpuModelId="m" * 128, replicas=1000)
        | {"metadata": {"name": name, "namespace": namespace}}
    )
    text = shown(rows, everywhere=True)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert (text.count("n") >= 253, text.count("s") >= 63) == (True, True)


def test_nothing_is_told_in_a_sentence() -> None:
    assert shown([], everywhere=True) == "Nothing runs in any namespace.\n"


def test_programs_read_items_in_the_names_of_the_api() -> None:
    (item,) = json.loads(as_json(_rows(_object(runningSince="2026-11-23T09:00:00Z"))))["items"]
    assert item == {
        "namespace": "ml",
        "kind": "GpuPod",
        "name": "trainer",
        "account": "default",
        "accountKind": "CloudAccount",
        "organization": None,
        "state": "running",
        "gpus": 1,
        "gpuModelId": "h100",
        "pricePerHourCents": 249,
        "billed": True,
        "since": "2026-11-23T09:00:00Z",
    }
    assert json.loads(as_json([])) == {"items": []}


def test_an_object_that_cannot_be_read_is_told_without_what_is_in_it() -> None:
    with pytest.raises(Failure, match=r"^GpuPod/ml/trainer cannot be read: status\.pricePerHourCents: ") as failed:
        parsed(CloudObject, _object(pricePerHourCents="hunter2"))
    assert "hunter2" not in str(failed.value)

"""When the demo takes an object for finished."""

from typing import Any

import pytest

from hack.demo.happenings import failed, unfinished


def _item(kind: str, **conditions: str) -> dict[str, Any]:
    told = [
        {"type": name, "status": status, "reason": "Running", "message": "12 of 40 records answered"}
        for name, status in conditions.items()
    ]
    metadata = {"name": "one", "generation": 1}
    return {"kind": kind, "metadata": metadata, "status": {"observedGeneration": 1, "conditions": told}}


def test_a_batch_that_runs_is_ready_and_not_finished() -> None:
    assert unfinished([_item("InferenceBatch", Ready="True")]) == [
        "InferenceBatch one: Running: 12 of 40 records answered"
    ]


@pytest.mark.parametrize(
    "item",
    [_item("InferenceBatch", Ready="True", Complete="True"), _item("GpuPod", Ready="True")],
    ids=["batch", "pod"],
)
def test_what_came_to_its_end_or_is_as_asked_is_finished(item: dict[str, Any]) -> None:
    assert unfinished([item]) == []


def test_what_failed_is_not_finished_and_not_waited_for() -> None:
    item = _item("InferenceBatch", Ready="False", Failed="True", Stalled="True")
    assert unfinished([item])
    assert failed(item)
    assert not failed(_item("InferenceBatch", Ready="False", Reconciling="True"))

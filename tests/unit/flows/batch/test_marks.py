"""What is believed of the mark beside published answers, which anybody may have edited who may write there."""

import json
from typing import Any

import pytest

from relay_operator.flows.batch.marks import published_by
from tests.unit.flows.batch.examples import TOKEN

MARK: dict[str, Any] = {
    "token": TOKEN,
    "at": "2026-11-21T12:00:00Z",
    "output": {"answers": "s3://bucket/output.jsonl"},
    "counts": {"total": 1, "completed": 1, "failed": 0},
    "unanswered": 0,
    "lost": 0,
}
PROBLEM = {"code": "file_lost", "message": "gone"}


def test_a_mark_of_this_batch_is_believed() -> None:
    assert published_by(TOKEN, json.dumps(MARK)) is not None
    assert published_by("another", json.dumps(MARK)) is None


@pytest.mark.parametrize(
    "edited",
    [
        {"counts": {"total": 2**63, "completed": 1, "failed": 0}},
        {"usage": {"inputTokens": 1, "outputTokens": 1, "costNanoUsd": 2**63}},
        {"output": {"lines": 2**63}},
        {"problems": [PROBLEM] * 21},
        {"problems": [PROBLEM | {"line": 2**63}]},
        {"reasons": [{"code": "x", "count": 1}] * 6},
        {"reasons": [{"code": "x", "count": 2**63}]},
    ],
    ids=lambda edited: next(iter(edited)),
)
def test_what_no_status_can_hold_is_not_a_mark(edited: dict[str, Any]) -> None:
    """Its status would be refused at every attempt, and the batch would neither end nor go."""
    assert published_by(TOKEN, json.dumps(MARK | edited)) is None

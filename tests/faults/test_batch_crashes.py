"""The operator is killed, or gets SIGTERM, at each step from the records to the published answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CREATE_BATCH, DELETE_FILE, UPLOAD
from tests.faults.batch_steps import DOWNLOAD, LOOK
from tests.faults.plans import Plan
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet

    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _ended(
    side: Side, operation: str, when: Moment, nth: int = 1, subject: str = "*", deed: Deed = Deed.KILL_OPERATOR
) -> Rule:
    return Rule(side, operation, Hold(when, deed), subject=subject, nth=nth)


def _inference(operation: str, when: Moment, nth: int = 1) -> Rule:
    return _ended(Side.INFERENCE, operation, when, nth)


def _in_map(operation: str, when: Moment) -> Rule:
    return _ended(Side.KUBE, operation, when, subject="answers")


def _in_bucket(key: str, when: Moment) -> Rule:
    return _ended(Side.STORE, "PUT object", when, subject=f"out/{key}")


_IN_MAPS = {
    "while it reads the input": _ended(Side.KUBE, "GET configmaps", Moment.ACTED, subject="prompts"),
    "after the first upload arrived": _inference(UPLOAD, Moment.ACTED),
    "before the second upload": _inference(UPLOAD, Moment.BEFORE, 2),
    "after the output was claimed": _in_map("POST configmaps", Moment.ACTED),
    "before the create": _inference(CREATE_BATCH, Moment.BEFORE),
    "after the create was acted on": _inference(CREATE_BATCH, Moment.ACTED),
    "after the create was answered": _inference(CREATE_BATCH, Moment.DELIVERED),
    "after the create of records that are sent again": _inference(CREATE_BATCH, Moment.ACTED, 3),
    "while it looks": _inference(LOOK, Moment.ACTED),
    "while it downloads": _inference(DOWNLOAD, Moment.ACTED),
    "before the output is published": _in_map("PATCH configmaps", Moment.BEFORE),
    "after the output was published": _in_map("PATCH configmaps", Moment.ACTED),
    "between the output and the status": _in_map("PATCH configmaps", Moment.DELIVERED),
    "while it deletes files": _inference(DELETE_FILE, Moment.ACTED, 2),
}
_IN_BUCKETS = {
    "while it reads the input": _ended(Side.STORE, "GET object", Moment.ACTED, subject="in.jsonl"),
    "while it tries whether it may write": _ended(Side.STORE, "POST uploads", Moment.ACTED),
    "after the answers were claimed": _in_bucket("output.jsonl.claim", Moment.ACTED),
    "after the errors were claimed": _in_bucket("errors.jsonl.claim", Moment.DELIVERED),
    "before the answers are published": _in_bucket("output.jsonl", Moment.BEFORE),
    "after the answers were published": _in_bucket("output.jsonl", Moment.ACTED),
    "between answers and errors": _in_bucket("errors.jsonl", Moment.BEFORE),
    "between the errors and the mark": _in_bucket("errors.jsonl", Moment.DELIVERED),
    "between the output and the status": _in_bucket("result.json", Moment.DELIVERED),
}


def _some(moments: Iterable[str], *always: str) -> list[ParameterSet]:
    """Returns all moments; those that are not in `always` are marked as long."""
    return [pytest.param(when, marks=() if when in always else pytest.mark.long) for when in moments]


_MOSTLY = (
    "while it reads the input",
    "before the create",
    "after the create was acted on",
    "after the create was answered",
    "while it looks",
    "while it downloads",
    "between the output and the status",
)


@pytest.mark.parametrize("when", _some(_IN_MAPS, *_MOSTLY))
async def test_killed(batch_plays: Plays, when: str) -> None:
    await batch_plays.holds(Plan(f"batch killed {when}", "batch", (_IN_MAPS[when],)))
    assert batch_plays.stage.restarts == 1


@pytest.mark.parametrize("when", _some(_IN_BUCKETS, "between answers and errors", "between the output and the status"))
async def test_killed_with_buckets(batch_plays: Plays, when: str) -> None:
    await batch_plays.holds(Plan(f"bucket killed {when}", "bucket", (_IN_BUCKETS[when],)))


@pytest.mark.parametrize("deed", [Deed.KILL_OPERATOR, Deed.TERMINATE_OPERATOR])
async def test_ended_again_and_again(batch_plays: Plays, deed: Deed) -> None:
    steps_of_one_run = (
        _ended(Side.INFERENCE, UPLOAD, Moment.ACTED, deed=deed),
        _ended(Side.INFERENCE, CREATE_BATCH, Moment.ACTED, deed=deed),
        _ended(Side.INFERENCE, CREATE_BATCH, Moment.ACTED, 3, deed=deed),
        _ended(Side.INFERENCE, DOWNLOAD, Moment.ACTED, 4, deed=deed),
        _ended(Side.KUBE, "PATCH configmaps", Moment.ACTED, subject="answers", deed=deed),
        _ended(Side.INFERENCE, DELETE_FILE, Moment.BEFORE, deed=deed),
    )
    await batch_plays.holds(Plan(f"batch {deed} at six steps", "batch", steps_of_one_run))

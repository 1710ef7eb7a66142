"""How soon a pass follows another one that changed nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from relay_operator.api.conditions import ObjectStatus, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.controller import Controller
from relay_operator.engine.flow import Told, Turn
from relay_operator.engine.memory import Memory
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return

TURN = Turn(ObjectKey("InferenceBatch", "ns", "nightly"), "uid-1", datetime(2026, 11, 21, tzinfo=UTC), Priority.RETRY)


@pytest.mark.parametrize(
    ("back", "quiet_looks", "seconds"),
    [
        (Return.TRANSITION, 0, 5),
        (Return.TRANSITION, 2, 20),
        (Return.TRANSITION, 100, 300),
        (Return.STEADILY, 0, 5),
        (Return.STEADILY, 100, 5),
    ],
)
def test_only_what_costs_nothing_more_is_looked_at_ever_more_slowly(
    back: Return, quiet_looks: int, seconds: float
) -> None:
    engine = SimpleNamespace(
        retry_policy=RetryPolicy(Backoff(1, 1), lambda: 0.5), intervals=PollIntervals(5, 300, jitter=0.1)
    )
    controller = Controller(cast("Any", engine), cast("Any", SimpleNamespace(memory=Memory)))
    told = Told(ObjectStatus(), ObjectStatus(), Report("True", None, Reason.RUNNING, "", back))
    memory, facts = Memory("uid-1", quiet_looks=quiet_looks), cast("Any", SimpleNamespace(error=None))
    assert controller._due(TURN, facts, told, memory, deleting=False) == (seconds, Priority.RETRY)

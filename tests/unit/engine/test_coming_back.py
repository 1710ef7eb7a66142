"""How soon a pass follows another one that changed nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relay_operator.api.conditions import ObjectStatus, Reason
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.memory import Memory
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return, Told
from relay_operator.engine.return_time import return_time

NOW = datetime(2026, 11, 21, tzinfo=UTC)


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
    told = Told(ObjectStatus(), ObjectStatus(), Report("True", None, Reason.RUNNING, "", back))
    memory, policy = Memory("uid-1", quiet_looks=quiet_looks), RetryPolicy(Backoff(1, 1), lambda: 0.5)
    due = return_time(told, memory, NOW, policy, PollIntervals(5, 300, jitter=0.1), unread=False, deleting=False)
    assert due == (seconds, Priority.RETRY)

"""Every scenario by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.faults import steps
from tests.faults.batch_scenarios import BATCHES
from tests.faults.scenarios import (
    ACCOUNT,
    CLUSTER,
    ENDED_WITH_ITS_NAMESPACE,
    POD,
    RUNNERS,
    SCHEDULE,
    STARTED,
    VM,
    Scenario,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_POD, _CLUSTER = ("account", "pod"), ("account", "cluster")

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "account": Scenario(ACCOUNT, "default", after=(), own=("*",)),
    "pod": Scenario(POD, "trainer"),
    "vm": Scenario(VM, "box"),
    "cluster": Scenario(CLUSTER, "llm"),
    "runners": Scenario(RUNNERS, "ci"),
    "stopped-pod": Scenario(POD, "trainer", (steps.STOP, steps.START), _POD),
    "stopped-cluster": Scenario(CLUSTER, "llm", (steps.STOP, steps.START), _CLUSTER),
    "scaled-cluster": Scenario(CLUSTER, "llm", (steps.SCALE_UP, steps.SCALE_DOWN), _CLUSTER),
    "recreated-pod": Scenario(POD, "trainer", (steps.RECREATE,), _POD),
    "recreated-cluster": Scenario(CLUSTER, "llm", (steps.RECREATE,), _CLUSTER),
    "blue-green-cluster": Scenario(CLUSTER, "llm", (steps.BLUE_GREEN,), _CLUSTER, at_once=2),
    "namespace": Scenario(POD, "trainer", (), _POD, ENDED_WITH_ITS_NAMESPACE, ("PATCH *", "DELETE *")),
    "rotated-key": Scenario(POD, "trainer", (steps.ROTATE,), _POD, own=("GET secrets", "GET /v1/whoami", "PATCH *")),
    "copied-pod": Scenario(POD, "trainer", (steps.COPY,), _POD),
    "copied-cluster": Scenario(CLUSTER, "llm", (steps.COPY,), _CLUSTER),
    "namesake": Scenario(CLUSTER, "llm", (steps.NAMESAKE,), _CLUSTER, forced=True),
    "namesake-in-mid-create": Scenario(
        CLUSTER, "llm", (steps.NAMESAKE_IN_MID_CREATE,), (*_CLUSTER, "namesake"), forced=True
    ),
    "namesake-in-mid-create-of-a-pod": Scenario(
        POD, "trainer", (steps.NAMESAKE_IN_MID_CREATE,), (*_POD, "namesake", "namesake-in-mid-create"), forced=True
    ),
    "kept-pod": Scenario(POD, "trainer", (steps.ORPHAN,), _POD, kept=True),
    "kept-cluster": Scenario(CLUSTER, "llm", (steps.STOP_AND_KEEP,), _CLUSTER, kept=True),
    "lost-status": Scenario(CLUSTER, "llm", (steps.LOSE_STATUS,), _CLUSTER),
    "moved-pod": Scenario(POD, "trainer", (steps.MOVE,), _POD),
    "schedule": Scenario(SCHEDULE, "nightly", (steps.FIRE,)),
    "restored-pod": Scenario(POD, "trainer", (steps.RESTORE,), _POD),
    "restored-cluster-without-status": Scenario(CLUSTER, "llm", (steps.RESTORE_WITHOUT_STATUS,), _CLUSTER),
    "neighbours": Scenario(CLUSTER, "llm", (steps.NEIGHBOUR,), _CLUSTER),
}
# An operator that starts has done nothing yet that could be lost: the only question is whether it starts.
_AT_THE_START: Final = frozenset(
    {"killed meanwhile", "killed after it was acted on", "answer lost", "500", "read with a 500", "410"}
    | {"429 in seconds", "throttled for seconds"}
)
STARTS: Final[Mapping[str, Scenario]] = {
    "start": Scenario(POD, "trainer", (steps.START_AGAIN,), _POD, own=("*",), only=STARTED, met_by=_AT_THE_START)
}
"""Scenarios of the start of a single operator with leader election."""
EVERY: Final[Mapping[str, Scenario]] = {**SCENARIOS, **STARTS, **BATCHES}

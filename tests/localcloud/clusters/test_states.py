"""The states of clusters: every cell, what happens on the way, and what follows from the replicas."""

from __future__ import annotations

import pytest

from relay_localcloud.clusters.states import (
    CLUSTER_TRANSITIONS,
    ClusterEffect,
    ClusterMove,
    ClusterTrigger,
    derived_status,
)
from relay_localcloud.http.outcomes import Move
from relay_localcloud.replicas.census import Census
from relay_wire.clusters import ClusterStatus
from tests.localcloud.support.cells import cell_of, cells

TABLE = """
                 provisioning  running     degraded    stopping    stopped       failed        terminated
SCALE            =             =           =           409         409           409           409
STOP             stopping      stopping    stopping    -           -             409           409
RESTART          409           =           =           409         provisioning  provisioning  409
TERMINATE        terminated    terminated  terminated  terminated  terminated    terminated    -
FAILED           failed        failed      failed      -           -             -             -
STOPPED          -             -           -           stopped     -             -             -
BALANCE_RAN_OUT  stopping      stopping    stopping    -           -             -             -
"""

MOVES = [(trigger, move) for (_, trigger), move in CLUSTER_TRANSITIONS.items() if isinstance(move, Move)]

ON_ARRIVAL = {
    ClusterStatus.PROVISIONING: (ClusterEffect.PLACE_REPLICAS,),
    ClusterStatus.STOPPING: (ClusterEffect.STOP_REPLICAS, ClusterEffect.WANT_STOPPED),
    ClusterStatus.STOPPED: (ClusterEffect.TERMINATE_REPLICAS,),
    ClusterStatus.FAILED: (ClusterEffect.TERMINATE_REPLICAS, ClusterEffect.TELL_FAILED),
    ClusterStatus.TERMINATED: (ClusterEffect.TERMINATE_REPLICAS,),
}


def test_the_table_has_every_status_and_trigger() -> None:
    written = {(status, trigger) for status, trigger, _ in cells(TABLE)}
    assert written == {(status.value, trigger.name) for status in ClusterStatus for trigger in ClusterTrigger}


@pytest.mark.parametrize(("status", "trigger", "cell"), cells(TABLE))
def test_what_a_trigger_does(status: str, trigger: str, cell: str) -> None:
    assert cell_of(CLUSTER_TRANSITIONS[ClusterStatus(status), ClusterTrigger[trigger]]) == cell


@pytest.mark.parametrize(("trigger", "move"), MOVES)
def test_what_a_move_does_to_replicas(trigger: ClusterTrigger, move: ClusterMove) -> None:
    in_place = (ClusterEffect.RESTART_REPLICAS,) if trigger is ClusterTrigger.RESTART else ()
    assert move.effects == (in_place if move.to is None else ON_ARRIVAL[move.to])


@pytest.mark.parametrize(
    ("before", "census", "after"),
    [
        (ClusterStatus.PROVISIONING, Census(2, starting=["a", "b"]), ClusterStatus.PROVISIONING),
        (ClusterStatus.PROVISIONING, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.PROVISIONING),
        (ClusterStatus.PROVISIONING, Census(2, healthy=["a", "b"]), ClusterStatus.RUNNING),
        (ClusterStatus.PROVISIONING, Census(2, starting=["a"]), ClusterStatus.DEGRADED),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.RUNNING),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], unhealthy=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], lost=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.RUNNING, Census(1, starting=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.DEGRADED, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.DEGRADED, Census(2, healthy=["a", "b"]), ClusterStatus.RUNNING),
    ],
)
def test_the_status_of_a_serving_cluster_follows_from_its_replicas(
    before: ClusterStatus, census: Census, after: ClusterStatus
) -> None:
    assert derived_status(before, census) is after

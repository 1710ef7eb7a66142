"""The states of pods and VMs: every cell of section 3, "Pod status", and what happens on the way."""

from __future__ import annotations

import pytest

from relay_localcloud.runtimes.runtime import Wanted
from relay_localcloud.workloads.transitions import TRANSITIONS, Effect, Home, Move, Timer, Trigger, start_refusal
from relay_wire.pods import PodStatus
from tests.localcloud.support.cells import cell_of, cells

TABLE = """
                 deploying    running      stopping      stopped     interrupted  failed      terminated
STOP             409          stopping     -             -           stopped      409         409
RESTART          409          running      POD_STOPPING  deploying   409          deploying   409
TERMINATE        terminated   terminated   terminated    terminated  terminated   terminated  -
STARTED          running      -            -             -           -            -           -
STOPPED          -            -            stopped       -           -            -           -
CONTAINER_EXITED -            running      -             -           -            -           -
FAILED           failed       failed       -             -           -            -           -
NODE_LOST        interrupted  interrupted  -             -           -            -           -
NODE_RETURNED    -            -            -             -           running      -           -
NODE_SEEN_AGAIN  -            -            -             -           deploying    -           -
HELD_UP          -            deploying    -             -           -            -           -
FOUND_RUNNING    -            -            deploying     deploying   -            deploying   -
NODE_REMOVED     terminated   terminated   terminated    terminated  terminated   terminated  -
RECLAIMED        terminated   terminated   terminated    terminated  terminated   terminated  -
BALANCE_RAN_OUT  -            stopping     -             -           -            -           -
RETENTION_OVER   -            -            -             terminated  terminated   -           -
"""

MOVES = [(state, trigger, move) for (state, trigger), move in TRANSITIONS.items() if isinstance(move, Move)]

ON_ARRIVAL: dict[PodStatus, tuple[tuple[Effect, ...], Wanted | None, Timer | None]] = {
    PodStatus.DEPLOYING: ((Effect.CLAIM_GPUS,), Wanted.STARTED, None),
    PodStatus.RUNNING: ((Effect.START_BILLING, Effect.BOOT, Effect.TELL_RUNNING), None, None),
    PodStatus.STOPPING: ((Effect.STOP_BILLING,), Wanted.STOPPED, None),
    PodStatus.STOPPED: ((Effect.LEAVE_GPUS, Effect.TELL_STOPPED), Wanted.GONE, Timer.RETENTION_IF_UNFUNDED),
    PodStatus.INTERRUPTED: ((Effect.STOP_BILLING,), None, Timer.RETENTION),
    PodStatus.FAILED: ((Effect.STOP_BILLING, Effect.LEAVE_GPUS), Wanted.GONE, None),
    PodStatus.TERMINATED: (
        (Effect.STOP_BILLING, Effect.LEAVE_GPUS, Effect.DELETE_DISK, Effect.TELL_TERMINATED),
        Wanted.DELETED,
        None,
    ),
}
"""What a move does beside changing the state, by where it leads; what is wanted then, and what ends of itself."""


def test_the_table_has_every_state_and_trigger() -> None:
    written = {(state, trigger) for state, trigger, _ in cells(TABLE)}
    assert written == {(state.value, trigger.name) for state in PodStatus for trigger in Trigger}


@pytest.mark.parametrize(("state", "trigger", "cell"), cells(TABLE))
def test_what_a_trigger_does(state: str, trigger: str, cell: str) -> None:
    assert cell_of(TRANSITIONS[PodStatus(state), Trigger[trigger]]) == cell


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_what_a_move_bills_claims_tells_and_wants(state: PodStatus, trigger: Trigger, move: Move) -> None:
    effects, wanted, timer = ON_ARRIVAL[move.to]
    if state is move.to:  # its container is recreated in place
        effects, wanted = (Effect.BOOT,), Wanted.RESTARTED if trigger is Trigger.RESTART else None
    if trigger is Trigger.NODE_SEEN_AGAIN:
        effects, wanted = (), None  # it kept its GPUs, and was wanted all along
    if trigger is Trigger.HELD_UP:
        effects, wanted = (Effect.STOP_BILLING,), None
    if trigger is Trigger.FOUND_RUNNING:
        effects = (Effect.REGAIN_GPUS,)
    if move.to is PodStatus.TERMINATED and trigger is not Trigger.TERMINATE:
        effects = (Effect.SEND_EMAIL, *effects)  # the cloud deletes nothing by itself without one
    assert (move.effects, move.wanted, move.timer) == (effects, wanted, timer)


@pytest.mark.parametrize(
    ("home", "infiniband", "code"),
    [
        (Home(reporting=True, free_gpus=2, infiniband_agent=True), True, None),
        (Home(reporting=True, free_gpus=2, infiniband_agent=False), False, None),
        (Home(reporting=True, free_gpus=1, infiniband_agent=True), True, "POD_NODE_BUSY"),
        (Home(reporting=True, free_gpus=2, infiniband_agent=False), True, "POD_NODE_NO_INFINIBAND"),
        (Home(reporting=False, free_gpus=0, infiniband_agent=False), True, "POD_NODE_OFFLINE"),
    ],
)
def test_a_start_is_refused_for_the_gravest_reason(home: Home, infiniband: bool, code: str | None) -> None:
    refusal = start_refusal(home, 2, infiniband)
    assert (refusal and refusal.code) == code

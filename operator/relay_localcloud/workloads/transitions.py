"""The states of pods and VMs and their transitions: section 3, "Pod status", as one table.

Every pair of state and trigger is in `TRANSITIONS`. Assumptions: `stopping` lies between running and stopped; `failed`
holds no GPU and keeps the volume; a node that stays away during a start interrupts it; VMs follow the same table, and
their `deploying` is shown as `provisioning`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from relay_localcloud.http import outcomes
from relay_localcloud.http.outcomes import STAY, Refusal, Stay, every_pair
from relay_localcloud.runtimes.runtime import Wanted
from relay_wire.pods import PodStatus as S


class Trigger(Enum):
    """What happens to a workload."""

    STOP = auto()  # by the caller, as are the next two
    RESTART = auto()
    TERMINATE = auto()
    STARTED = auto()
    STOPPED = auto()
    CONTAINER_EXITED = auto()
    FAILED = auto()
    NODE_LOST = auto()  # silent for longer than the grace
    NODE_RETURNED = auto()  # and its workloads go on
    NODE_SEEN_AGAIN = auto()  # the runtime will report what runs on it
    HELD_UP = auto()  # its container is to start again, and waits: its node is cordoned, or its former Pod is stuck
    FOUND_RUNNING = auto()  # by a later start than the row knows of: an older state was restored
    NODE_REMOVED = auto()
    RECLAIMED = auto()  # spot capacity, by its owner
    BALANCE_RAN_OUT = auto()
    RETENTION_OVER = auto()


class Effect(Enum):
    """What a move does besides changing the state."""

    CLAIM_GPUS = auto()
    REGAIN_GPUS = auto()  # those that it uses already, without the conditions of a start
    LEAVE_GPUS = auto()  # release them, once nothing of it runs any more
    START_BILLING = auto()
    STOP_BILLING = auto()
    SEND_EMAIL = auto()
    BOOT = auto()
    DELETE_DISK = auto()  # and what belongs to it: snapshots, the log
    TELL_RUNNING = auto()
    TELL_STOPPED = auto()
    TELL_TERMINATED = auto()


class Timer(Enum):
    """What the cloud does by itself after a move, and when."""

    RETENTION = auto()  # 7 days
    RETENTION_IF_UNFUNDED = auto()  # 7 days, if the balance stopped it


@dataclass(frozen=True)
class Move(outcomes.Move[S, Effect]):
    """After the effects the runtime learns what is wanted from then on (None: as before), and the timer is set."""

    wanted: Wanted | None = None
    timer: Timer | None = None


Outcome = Move | Refusal | Stay

_START: Final = Move(S.DEPLOYING, (Effect.CLAIM_GPUS,), Wanted.STARTED)
_GO_ON: Final = Move(S.DEPLOYING, (Effect.REGAIN_GPUS,), Wanted.STARTED)
_RUN: Final = Move(S.RUNNING, (Effect.START_BILLING, Effect.BOOT, Effect.TELL_RUNNING))
_RECREATE: Final = Move(S.RUNNING, (Effect.BOOT,), Wanted.RESTARTED)
_RECREATED: Final = Move(S.RUNNING, (Effect.BOOT,))
_WIND_DOWN: Final = Move(S.STOPPING, (Effect.STOP_BILLING,), Wanted.STOPPED)
_HALT: Final = Move(S.STOPPED, (Effect.LEAVE_GPUS, Effect.TELL_STOPPED), Wanted.GONE, Timer.RETENTION_IF_UNFUNDED)
_FAIL: Final = Move(S.FAILED, (Effect.STOP_BILLING, Effect.LEAVE_GPUS), Wanted.GONE)
_AWAIT: Final = Move(S.DEPLOYING)
_HOLD_UP: Final = Move(S.DEPLOYING, (Effect.STOP_BILLING,))
_INTERRUPT: Final = Move(S.INTERRUPTED, (Effect.STOP_BILLING,), timer=Timer.RETENTION)
_TERMINATE: Final = Move(
    S.TERMINATED, (Effect.STOP_BILLING, Effect.LEAVE_GPUS, Effect.DELETE_DISK, Effect.TELL_TERMINATED), Wanted.DELETED
)
_TERMINATE_WITH_NOTICE: Final = Move(S.TERMINATED, (Effect.SEND_EMAIL, *_TERMINATE.effects), Wanted.DELETED)

_NOT_STARTED_YET: Final = Refusal("It is still being started: wait until it is running.")
_STOPPING: Final = Refusal("Its previous run is still being torn down: try again in a moment.", "POD_STOPPING")
_INTERRUPTED: Final = Refusal("It is interrupted: it runs again when its node returns; stop or terminate it otherwise.")
_NOTHING_TO_STOP: Final = Refusal("It has failed: there is nothing to stop; restart or terminate it.")
_GONE: Final = Refusal("It is terminated.")

_ALWAYS: Final[Mapping[Trigger, Outcome]] = {
    Trigger.TERMINATE: _TERMINATE,
    Trigger.NODE_REMOVED: _TERMINATE_WITH_NOTICE,
    Trigger.RECLAIMED: _TERMINATE_WITH_NOTICE,
}

_ROWS: Final[Mapping[S, Mapping[Trigger, Outcome]]] = {
    S.DEPLOYING: {
        Trigger.STOP: _NOT_STARTED_YET,
        Trigger.RESTART: _NOT_STARTED_YET,
        Trigger.STARTED: _RUN,
        Trigger.FAILED: _FAIL,
        Trigger.NODE_LOST: _INTERRUPT,
    },
    S.RUNNING: {
        Trigger.STOP: _WIND_DOWN,
        Trigger.RESTART: _RECREATE,
        Trigger.CONTAINER_EXITED: _RECREATED,
        Trigger.FAILED: _FAIL,
        Trigger.NODE_LOST: _INTERRUPT,
        Trigger.HELD_UP: _HOLD_UP,
        Trigger.BALANCE_RAN_OUT: _WIND_DOWN,
    },
    S.STOPPING: {
        Trigger.RESTART: _STOPPING,
        Trigger.STOPPED: _HALT,
        Trigger.FOUND_RUNNING: _GO_ON,
    },
    S.STOPPED: {
        Trigger.RESTART: _START,
        Trigger.FOUND_RUNNING: _GO_ON,
        Trigger.RETENTION_OVER: _TERMINATE_WITH_NOTICE,
    },
    S.INTERRUPTED: {
        Trigger.STOP: _HALT,
        Trigger.RESTART: _INTERRUPTED,
        Trigger.NODE_RETURNED: _RUN,
        Trigger.NODE_SEEN_AGAIN: _AWAIT,
        Trigger.RETENTION_OVER: _TERMINATE_WITH_NOTICE,
    },
    S.FAILED: {
        Trigger.STOP: _NOTHING_TO_STOP,
        Trigger.RESTART: _START,
        Trigger.FOUND_RUNNING: _GO_ON,
    },
    S.TERMINATED: {
        Trigger.STOP: _GONE,
        Trigger.RESTART: _GONE,
        Trigger.TERMINATE: STAY,
        Trigger.NODE_REMOVED: STAY,
        Trigger.RECLAIMED: STAY,
    },
}

TRANSITIONS: Final = every_pair({state: {**_ALWAYS, **row} for state, row in _ROWS.items()}, Trigger)

BILLED: Final = frozenset({S.RUNNING})
HOLDS_GPUS: Final = frozenset({S.DEPLOYING, S.RUNNING, S.STOPPING, S.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class Home:
    """The volume's node at a start; the pod starts there or not at all."""

    reporting: bool
    free_gpus: int
    infiniband_agent: bool
    hold: str | None = None  # draining or maintenance: nothing starts on it


def start_refusal(home: Home, gpu_count: int, infiniband: bool) -> Refusal | None:
    """Why a stopped or failed workload cannot start on its node; None if it can (section 3, rows 3 to 5).

    `infiniband` says whether the organization is enabled for it.
    """
    if not home.reporting:
        return Refusal("The node that has its volume is offline.", "POD_NODE_OFFLINE")
    if home.hold is not None:
        return Refusal(f"The node that has its volume is in {home.hold}: nothing starts on it.", "POD_NODE_OFFLINE")
    if infiniband and not home.infiniband_agent:
        return Refusal(
            "The organization is enabled for InfiniBand, but the agent of the node that has its volume is older.",
            "POD_NODE_NO_INFINIBAND",
        )
    if home.free_gpus < gpu_count:
        return Refusal(
            f"The node that has its volume has {home.free_gpus} free GPUs, and {gpu_count} are needed.", "POD_NODE_BUSY"
        )
    return None

"""The states of clusters and their replicas, and what moves them; the specification shows few, so all is assumed.

A cluster's own status follows from its replicas while it serves (`derived_status`); callers and failures move it
otherwise (`CLUSTER_TRANSITIONS`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, Protocol

from relay_localcloud.kernel.outcomes import STAY, Refusal, Stay
from relay_wire.clusters import ClusterStatus as C


class ReplicaState(StrEnum):
    """A replica's state; `lost` (its node is silent) is shown as unhealthy."""

    PROVISIONING = "provisioning"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    LOST = "lost"
    STOPPING = "stopping"
    TERMINATED = "terminated"


class ReplicaTrigger(Enum):
    """What happens to a replica."""

    STARTED = auto()
    CHECK_FAILED = auto()
    CHECK_PASSED = auto()
    RESTART = auto()
    NODE_SILENT = auto()
    NODE_RETURNED = auto()
    STOP = auto()
    TERMINATE = auto()


MOST_REPLICAS: Final = 1000
"""Of one cluster or deployment (assumed): replicas without GPUs have nothing else to run out of."""


class ReplicaEffect(Enum):
    """What a replica's move does beside changing its state."""

    START_BILLING = auto()
    STOP_BILLING = auto()
    RELEASE_GPUS = auto()
    SET_START_TIMER = auto()
    TELL_HEALTHY = auto()
    TELL_UNHEALTHY = auto()
    TELL_TERMINATED = auto()


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    """To another state; effects happen in their order."""

    to: ReplicaState
    effects: tuple[ReplicaEffect, ...] = ()


_SERVE: Final = ReplicaMove(ReplicaState.HEALTHY, (ReplicaEffect.START_BILLING, ReplicaEffect.TELL_HEALTHY))
_STOP: Final = ReplicaMove(ReplicaState.STOPPING, (ReplicaEffect.STOP_BILLING,))
_END: Final = ReplicaMove(
    ReplicaState.TERMINATED, (ReplicaEffect.STOP_BILLING, ReplicaEffect.RELEASE_GPUS, ReplicaEffect.TELL_TERMINATED)
)

REPLICA_TRANSITIONS: Final[Mapping[tuple[ReplicaState, ReplicaTrigger], ReplicaMove]] = {
    (ReplicaState.PROVISIONING, ReplicaTrigger.STARTED): _SERVE,
    (ReplicaState.PROVISIONING, ReplicaTrigger.NODE_SILENT): ReplicaMove(
        ReplicaState.LOST, (ReplicaEffect.TELL_UNHEALTHY,)
    ),
    (ReplicaState.PROVISIONING, ReplicaTrigger.STOP): _STOP,
    (ReplicaState.PROVISIONING, ReplicaTrigger.TERMINATE): _END,
    (ReplicaState.HEALTHY, ReplicaTrigger.CHECK_FAILED): ReplicaMove(
        ReplicaState.UNHEALTHY, (ReplicaEffect.TELL_UNHEALTHY,)
    ),
    (ReplicaState.HEALTHY, ReplicaTrigger.NODE_SILENT): ReplicaMove(
        ReplicaState.LOST, (ReplicaEffect.STOP_BILLING, ReplicaEffect.TELL_UNHEALTHY)
    ),
    (ReplicaState.HEALTHY, ReplicaTrigger.STOP): _STOP,
    (ReplicaState.HEALTHY, ReplicaTrigger.TERMINATE): _END,
    (ReplicaState.UNHEALTHY, ReplicaTrigger.CHECK_PASSED): ReplicaMove(
        ReplicaState.HEALTHY, (ReplicaEffect.TELL_HEALTHY,)
    ),
    (ReplicaState.UNHEALTHY, ReplicaTrigger.RESTART): ReplicaMove(
        ReplicaState.PROVISIONING, (ReplicaEffect.STOP_BILLING, ReplicaEffect.SET_START_TIMER)
    ),
    (ReplicaState.UNHEALTHY, ReplicaTrigger.NODE_SILENT): ReplicaMove(ReplicaState.LOST, (ReplicaEffect.STOP_BILLING,)),
    (ReplicaState.UNHEALTHY, ReplicaTrigger.STOP): _STOP,
    (ReplicaState.UNHEALTHY, ReplicaTrigger.TERMINATE): _END,
    (ReplicaState.LOST, ReplicaTrigger.NODE_RETURNED): _SERVE,
    (ReplicaState.LOST, ReplicaTrigger.STOP): _STOP,
    (ReplicaState.LOST, ReplicaTrigger.TERMINATE): _END,
    (ReplicaState.STOPPING, ReplicaTrigger.TERMINATE): _END,
}
"""A pair that is absent changes nothing: a healthy replica that restarts is recreated in place and stays healthy."""


class ClusterTrigger(Enum):
    """What happens to a cluster as a whole."""

    SCALE = auto()
    STOP = auto()
    RESTART = auto()
    TERMINATE = auto()
    FAILED = auto()
    STOPPED = auto()
    BALANCE_RAN_OUT = auto()


class ClusterEffect(Enum):
    """What a cluster's move does beside changing its status."""

    PLACE_REPLICAS = auto()
    RESTART_REPLICAS = auto()
    STOP_REPLICAS = auto()
    TERMINATE_REPLICAS = auto()
    SET_STOP_TIMER = auto()
    TELL_FAILED = auto()


@dataclass(frozen=True, slots=True)
class ClusterMove:
    """To another status, or None to leave it to the replicas; effects happen in their order."""

    to: C | None
    effects: tuple[ClusterEffect, ...] = ()


ClusterOutcome = ClusterMove | Refusal | Stay

_F = ClusterEffect
_START: Final = ClusterMove(C.PROVISIONING, (_F.PLACE_REPLICAS,))
_RESTART_IN_PLACE: Final = ClusterMove(None, (_F.RESTART_REPLICAS,))
_WIND_DOWN: Final = ClusterMove(C.STOPPING, (_F.STOP_REPLICAS, _F.SET_STOP_TIMER))
_FAIL: Final = ClusterMove(C.FAILED, (_F.TERMINATE_REPLICAS, _F.TELL_FAILED))
_TERMINATE: Final = ClusterMove(C.TERMINATED, (_F.TERMINATE_REPLICAS,))
_SCALE: Final = ClusterMove(None)

_STARTING: Final = Refusal("It is still being started: wait until it is running or degraded.")
_STOPPING: Final = Refusal("It is being stopped: wait until it is stopped.")
_STOPPED: Final = Refusal("It is stopped: restart it first.")
_FAILED: Final = Refusal("It has failed: restart or terminate it.")
_GONE: Final = Refusal("It is terminated.")

_SERVING_ROW: Final[Mapping[ClusterTrigger, ClusterOutcome]] = {
    ClusterTrigger.SCALE: _SCALE,
    ClusterTrigger.STOP: _WIND_DOWN,
    ClusterTrigger.RESTART: _RESTART_IN_PLACE,
    ClusterTrigger.TERMINATE: _TERMINATE,
    ClusterTrigger.FAILED: _FAIL,
    ClusterTrigger.BALANCE_RAN_OUT: _WIND_DOWN,
}

_CLUSTER_ROWS: Final[Mapping[C, Mapping[ClusterTrigger, ClusterOutcome]]] = {
    C.PROVISIONING: {**_SERVING_ROW, ClusterTrigger.RESTART: _STARTING},
    C.RUNNING: _SERVING_ROW,
    C.DEGRADED: _SERVING_ROW,
    C.STOPPING: {
        ClusterTrigger.SCALE: _STOPPING,
        ClusterTrigger.RESTART: _STOPPING,
        ClusterTrigger.TERMINATE: _TERMINATE,
        ClusterTrigger.STOPPED: ClusterMove(C.STOPPED, (_F.TERMINATE_REPLICAS,)),
    },
    C.STOPPED: {
        ClusterTrigger.SCALE: _STOPPED,
        ClusterTrigger.RESTART: _START,
        ClusterTrigger.TERMINATE: _TERMINATE,
    },
    C.FAILED: {
        ClusterTrigger.SCALE: _FAILED,
        ClusterTrigger.STOP: _FAILED,
        ClusterTrigger.RESTART: _START,
        ClusterTrigger.TERMINATE: _TERMINATE,
    },
    C.TERMINATED: {
        ClusterTrigger.SCALE: _GONE,
        ClusterTrigger.STOP: _GONE,
        ClusterTrigger.RESTART: _GONE,
    },
}

CLUSTER_TRANSITIONS: Final[Mapping[tuple[C, ClusterTrigger], ClusterOutcome]] = {
    (status, trigger): row.get(trigger, STAY) for status, row in _CLUSTER_ROWS.items() for trigger in ClusterTrigger
}

SERVING: Final = frozenset({C.PROVISIONING, C.RUNNING, C.DEGRADED})
"""The statuses that follow from the replicas."""


class Counted(Protocol):
    """A replica, as far as a census goes."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> ReplicaState: ...


@dataclass(frozen=True, slots=True)
class Census:
    """The replicas of a cluster or deployment, sorted; `wanted` is how many there are to be."""

    wanted: int
    healthy: Sequence[str] = ()
    starting: Sequence[str] = ()
    unhealthy: Sequence[str] = ()
    lost: Sequence[str] = ()

    @classmethod
    def of(cls, wanted: int, members: Sequence[Counted]) -> "Census":
        """Sort live replicas; those that stop are in no group."""
        groups: dict[ReplicaState, list[str]] = {state: [] for state in ReplicaState}
        for member in members:
            groups[member.status].append(member.id)
        healthy, starting = groups[ReplicaState.HEALTHY], groups[ReplicaState.PROVISIONING]
        return cls(wanted, healthy, starting, groups[ReplicaState.UNHEALTHY], groups[ReplicaState.LOST])

    @property
    def missing(self) -> int:
        """How many are wanted that found no room."""
        return self.wanted - len(self.healthy) - len(self.starting) - len(self.unhealthy) - len(self.lost)

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing serves and nothing is about to."""
        return not self.healthy and not self.starting


def derived_status(status: C, census: Census) -> C:
    """The status of a serving cluster: degraded while anything is amiss, running once all are healthy.

    While replicas start it stays what it was: a cluster that grows still runs, one that recovers is still degraded.
    """
    if census.unhealthy or census.lost or census.missing > 0:
        return C.DEGRADED
    return status if census.starting else C.RUNNING


def degradation(census: Census, replica: str) -> str:
    """What is amiss and with which replicas; `replica` says what one of them needs, such as `1 x h100`."""
    parts = [f"{len(census.healthy)} of {census.wanted} replicas are healthy."]
    if census.unhealthy:
        parts.append(f"Failing health checks: {', '.join(census.unhealthy)}.")
    if census.lost:
        parts.append(f"On nodes that do not report: {', '.join(census.lost)}.")
    if census.starting:
        parts.append(f"Starting: {', '.join(census.starting)}.")
    if census.missing > 0:
        parts.append(f"Waiting for room for {census.missing} more ({replica} each).")
    return " ".join(parts)

"""The states of clusters and their transitions; the specification shows few states, so all are assumed.

While a cluster serves, its status follows from its replicas (`derived_status`); callers and failures change it
otherwise (`CLUSTER_TRANSITIONS`).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from relay_localcloud.http.outcomes import Move, Refusal, Stay, every_pair
from relay_localcloud.replicas.census import Census
from relay_wire.clusters import ClusterStatus as C


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
    """What a cluster's move does besides changing its status."""

    PLACE_REPLICAS = auto()
    RESTART_REPLICAS = auto()
    STOP_REPLICAS = auto()
    TERMINATE_REPLICAS = auto()
    WANT_STOPPED = auto()
    TELL_FAILED = auto()


ClusterMove = Move[C | None, ClusterEffect]  # a move to None leaves the status to the replicas
ClusterOutcome = ClusterMove | Refusal | Stay

_F = ClusterEffect
_START: Final = ClusterMove(C.PROVISIONING, (_F.PLACE_REPLICAS,))
_RESTART_IN_PLACE: Final = ClusterMove(None, (_F.RESTART_REPLICAS,))
_WIND_DOWN: Final = ClusterMove(C.STOPPING, (_F.STOP_REPLICAS, _F.WANT_STOPPED))
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

CLUSTER_TRANSITIONS: Final = every_pair(_CLUSTER_ROWS, ClusterTrigger)

SERVING: Final = frozenset({C.PROVISIONING, C.RUNNING, C.DEGRADED})
"""The statuses that follow from the replicas."""


def derived_status(status: C, census: Census) -> C:
    """The status of a serving cluster: degraded while anything is wrong, running once all replicas are healthy.

    While replicas start, it stays what it was: a growing cluster is still running, a recovering one still degraded. One
    that ran and has no healthy replica left does not serve.
    """
    if census.is_amiss or (status is C.RUNNING and not census.healthy):
        return C.DEGRADED
    return status if census.starting else C.RUNNING

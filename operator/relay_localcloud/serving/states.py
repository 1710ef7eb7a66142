"""The states of serving deployments and their transitions; the specification shows none, so all are assumed.

While a deployment serves, its status follows from its replicas (`derived_status`), which have the same states as those
of clusters (`replicas/states.py`); callers, the balance and a promoted green change it otherwise (`TRANSITIONS`).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, Never

from relay_localcloud.http.outcomes import STAY, Move, Refusal, Stay, every_pair
from relay_localcloud.replicas.census import Census
from relay_wire.serving import DeploymentStatus as S


class Trigger(Enum):
    """What happens to a deployment."""

    SCALE = auto()  # by the caller, as are the next three
    CHANGE = auto()
    PROMOTE = auto()
    DELETE = auto()
    REPLACED = auto()  # a green deployment was promoted
    BALANCE_RAN_OUT = auto()


Outcome = Move[S | None, Never] | Refusal | Stay
"""A move to None leaves the status to the replicas; moves have no effects."""

SERVING: Final = frozenset({S.PROVISIONING, S.RUNNING, S.DEGRADED, S.IDLE})
"""The statuses that follow from the replicas."""

_FOLLOW: Final[Outcome] = Move(None)
_START: Final[Outcome] = Move(S.PROVISIONING)
_DRAIN: Final[Outcome] = Move(S.DRAINING)
_STOP: Final[Outcome] = Move(S.STOPPED)

NOT_READY: Final = Refusal("A green is promoted once all its replicas are healthy: wait until it is running.")
_STOPPED: Final = Refusal("It is stopped: a change of replicasDesired starts it again.")
_GOING: Final = Refusal("It is being drained and will be gone.")

_SERVING_ROW: Final[Mapping[Trigger, Outcome]] = {
    Trigger.SCALE: _FOLLOW,
    Trigger.CHANGE: _FOLLOW,
    Trigger.PROMOTE: NOT_READY,
    Trigger.DELETE: _DRAIN,
    Trigger.REPLACED: _DRAIN,
    Trigger.BALANCE_RAN_OUT: _STOP,
}

_ROWS: Final[Mapping[S, Mapping[Trigger, Outcome]]] = {
    S.PROVISIONING: _SERVING_ROW,
    S.RUNNING: {**_SERVING_ROW, Trigger.PROMOTE: _FOLLOW},
    S.DEGRADED: _SERVING_ROW,
    S.IDLE: _SERVING_ROW,
    S.STOPPED: {
        Trigger.SCALE: _START,
        Trigger.CHANGE: _FOLLOW,
        Trigger.PROMOTE: _STOPPED,
        Trigger.DELETE: _DRAIN,
        Trigger.REPLACED: _DRAIN,
        Trigger.BALANCE_RAN_OUT: STAY,
    },
    S.DRAINING: {
        Trigger.SCALE: _GOING,
        Trigger.CHANGE: _GOING,
        Trigger.PROMOTE: _GOING,
        Trigger.DELETE: _DRAIN,  # a deployment that drains step by step now drains at once
        Trigger.REPLACED: STAY,
        Trigger.BALANCE_RAN_OUT: _DRAIN,
    },
}

TRANSITIONS: Final = every_pair(_ROWS, Trigger)
"""The outcome of every pair; a drained deployment is deleted, so there is no state for it."""


def derived_status(status: S, census: Census) -> S:
    """The status of a serving deployment.

    While replicas start, it stays what it was, such as degraded, unless something is wrong or none is healthy yet.
    """
    if census.is_amiss:
        return S.DEGRADED
    if census.starting:
        return S.PROVISIONING if status in {S.IDLE, S.RUNNING} and not census.healthy else status
    return S.RUNNING if census.healthy else S.IDLE

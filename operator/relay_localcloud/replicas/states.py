"""The states of a replica and their transitions; the specification shows few states, so all are assumed."""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Final

from relay_localcloud.http.outcomes import Move

MOST_REPLICAS: Final = 1000
"""The limit of one cluster or deployment (assumed), since replicas without GPUs have no other bound."""


class ReplicaState(StrEnum):
    """A replica's state; `SHOWN_AS` has those that the API shows as another. A simulated cloud uses only some."""

    PROVISIONING = "provisioning"
    STARTING = "starting"  # its container runs, and has not been healthy yet
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    RECOVERING = "recovering"  # its container starts again
    FAILED = "failed"  # its container is not retried, and its GPUs are released
    LOST = "lost"  # its node is silent
    UNREACHED = "unreached"  # its node is silent, and it has not been healthy since it was last to start
    STOPPING = "stopping"
    TERMINATED = "terminated"


class ReplicaTrigger(Enum):
    """What happens to a replica."""

    STARTED = auto()  # and healthy
    CONTAINER_RUNS = auto()
    CONTAINER_AWAY = auto()  # it does not run: it is to start, or to start again
    CONTAINER_FAILED = auto()  # and is not retried
    CHECK_FAILED = auto()
    CHECK_PASSED = auto()
    RESTART = auto()
    NODE_SILENT = auto()
    NODE_RETURNED = auto()  # and its replicas go on
    NODE_SEEN_AGAIN = auto()  # the runtime will report what runs on it
    HELD_UP = auto()  # its container is to start again, and waits: its node is cordoned, or its former Pod is stuck
    STOP = auto()
    TERMINATE = auto()


class ReplicaEffect(Enum):
    """What a replica's move does besides changing its state."""

    START_BILLING = auto()
    STOP_BILLING = auto()
    GIVE_BACK = auto()  # release its GPUs and address, and end what runs of it
    WANT_STARTED = auto()
    WANT_RESTARTED = auto()
    WANT_STOPPED = auto()
    TELL_HEALTHY = auto()
    TELL_UNHEALTHY = auto()
    TELL_TERMINATED = auto()


ReplicaMove = Move[ReplicaState, ReplicaEffect]

_S, _T, _E = ReplicaState, ReplicaTrigger, ReplicaEffect
_SERVE: Final = ReplicaMove(_S.HEALTHY, (_E.START_BILLING, _E.TELL_HEALTHY))
_STOP: Final = ReplicaMove(_S.STOPPING, (_E.STOP_BILLING, _E.WANT_STOPPED))
_END: Final = ReplicaMove(_S.TERMINATED, (_E.STOP_BILLING, _E.GIVE_BACK, _E.TELL_TERMINATED))
_AWAIT: Final = ReplicaMove(_S.RECOVERING, (_E.TELL_UNHEALTHY,))
_HOLD_UP: Final = ReplicaMove(_S.PROVISIONING, (_E.STOP_BILLING,))
_GIVE_UP: Final = ReplicaMove(_S.FAILED, (_E.STOP_BILLING, _E.GIVE_BACK, _E.TELL_UNHEALTHY))
_GIVE_UP_UNHEALTHY: Final = ReplicaMove(_S.FAILED, (_E.STOP_BILLING, _E.GIVE_BACK))
_WHILE_IT_RUNS: Final = {_T.STOP: _STOP, _T.TERMINATE: _END}

_ROWS: Final[Mapping[ReplicaState, Mapping[ReplicaTrigger, ReplicaMove]]] = {
    _S.PROVISIONING: {
        **_WHILE_IT_RUNS,
        _T.STARTED: _SERVE,
        _T.CONTAINER_RUNS: ReplicaMove(_S.STARTING, (_E.START_BILLING,)),
        _T.CONTAINER_FAILED: ReplicaMove(_S.FAILED, (_E.GIVE_BACK, _E.TELL_UNHEALTHY)),
        _T.NODE_SILENT: ReplicaMove(_S.UNREACHED, (_E.TELL_UNHEALTHY,)),
    },
    _S.STARTING: {
        **_WHILE_IT_RUNS,
        _T.CONTAINER_FAILED: _GIVE_UP,
        _T.CHECK_PASSED: ReplicaMove(_S.HEALTHY, (_E.TELL_HEALTHY,)),
        _T.RESTART: ReplicaMove(_S.STARTING, (_E.WANT_RESTARTED,)),
        _T.NODE_SILENT: ReplicaMove(_S.UNREACHED, (_E.STOP_BILLING, _E.TELL_UNHEALTHY)),
        _T.HELD_UP: _HOLD_UP,
    },
    _S.HEALTHY: {
        **_WHILE_IT_RUNS,
        _T.CHECK_FAILED: ReplicaMove(_S.UNHEALTHY, (_E.TELL_UNHEALTHY,)),
        _T.CONTAINER_AWAY: _AWAIT,
        _T.CONTAINER_FAILED: _GIVE_UP,
        _T.RESTART: ReplicaMove(_S.HEALTHY, (_E.WANT_RESTARTED,)),
        _T.NODE_SILENT: ReplicaMove(_S.LOST, (_E.STOP_BILLING, _E.TELL_UNHEALTHY)),
    },
    _S.UNHEALTHY: {
        **_WHILE_IT_RUNS,
        _T.CHECK_PASSED: ReplicaMove(_S.HEALTHY, (_E.TELL_HEALTHY,)),
        _T.CONTAINER_AWAY: ReplicaMove(_S.RECOVERING),
        _T.CONTAINER_FAILED: _GIVE_UP_UNHEALTHY,
        _T.RESTART: ReplicaMove(_S.PROVISIONING, (_E.STOP_BILLING, _E.WANT_STARTED)),
        _T.NODE_SILENT: ReplicaMove(_S.LOST, (_E.STOP_BILLING,)),
    },
    _S.RECOVERING: {
        **_WHILE_IT_RUNS,
        _T.CHECK_PASSED: ReplicaMove(_S.HEALTHY, (_E.TELL_HEALTHY,)),
        _T.CONTAINER_FAILED: _GIVE_UP_UNHEALTHY,
        _T.RESTART: ReplicaMove(_S.PROVISIONING, (_E.STOP_BILLING, _E.WANT_STARTED)),
        _T.NODE_SILENT: ReplicaMove(_S.LOST, (_E.STOP_BILLING,)),
        _T.HELD_UP: _HOLD_UP,
    },
    _S.FAILED: dict.fromkeys((_T.STOP, _T.TERMINATE, _T.RESTART), _END),  # after a restart, another takes its place
    _S.LOST: {
        **_WHILE_IT_RUNS,
        _T.NODE_RETURNED: _SERVE,
        _T.NODE_SEEN_AGAIN: ReplicaMove(_S.PROVISIONING),
    },
    _S.UNREACHED: {
        **_WHILE_IT_RUNS,
        _T.STARTED: ReplicaMove(_S.LOST),
        _T.NODE_RETURNED: ReplicaMove(_S.PROVISIONING),
        _T.NODE_SEEN_AGAIN: ReplicaMove(_S.PROVISIONING),
    },
    _S.STOPPING: {_T.TERMINATE: _END},
}

REPLICA_TRANSITIONS: Final[Mapping[tuple[ReplicaState, ReplicaTrigger], ReplicaMove]] = {
    (state, trigger): move for state, row in _ROWS.items() for trigger, move in row.items()
}
"""An absent pair changes nothing; a healthy replica that restarts is recreated in place and stays healthy."""

SILENT: Final = frozenset({ReplicaState.LOST, ReplicaState.UNREACHED})
"""States of replicas whose node does not report."""
SHOWN_AS: Final[Mapping[ReplicaState, str]] = {
    ReplicaState.STARTING: ReplicaState.PROVISIONING.value,
    ReplicaState.RECOVERING: ReplicaState.UNHEALTHY.value,
    ReplicaState.FAILED: ReplicaState.UNHEALTHY.value,
    ReplicaState.LOST: ReplicaState.UNHEALTHY.value,
    ReplicaState.UNREACHED: ReplicaState.UNHEALTHY.value,
}
"""The status words for states that the specification has no word for."""

"""Failures of workloads that the console can trigger, as events of the control interface."""

from collections.abc import Mapping
from typing import Any, Final

from relay_localcloud.clusters.states import CLUSTER_TRANSITIONS, ClusterTrigger
from relay_localcloud.http.outcomes import Move
from relay_localcloud.workloads.transitions import TRANSITIONS, Trigger

_LABELS: Final = {
    "fail": "Let it fail",
    "exit": "Let its container exit",
    "unhealthy": "Let its replicas become unhealthy",
    "healthy": "Let its replicas recover",
}
"""The labels of buttons by event."""
_OF_REPLICAS: Final = ("unhealthy", "healthy")
_BY_STATUS: Final[Mapping[str, tuple[Mapping[tuple[Any, Any], object], Mapping[str, object]]]] = {
    "pods": (TRANSITIONS, {"fail": Trigger.FAILED, "exit": Trigger.CONTAINER_EXITED}),
    "clusters": (CLUSTER_TRANSITIONS, {"fail": ClusterTrigger.FAILED}),
    "deployments": ({}, {}),
}


def offered(kind: str, status: str, *, has_replicas: bool) -> dict[str, str]:
    """The events possible for a kind of workload (`pods`, `clusters`, `deployments`) in a status, with their labels."""
    outcomes, triggers = _BY_STATUS[kind]
    events = [event for event, trigger in triggers.items() if isinstance(outcomes[status, trigger], Move)]
    return {event: _LABELS[event] for event in (*events, *(_OF_REPLICAS if has_replicas else ()))}

"""Reports to pods' rows: facts become triggers and reasons, once each."""

from collections.abc import Sequence
from typing import Final

from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.kubernetes.facts import (
    CannotStart,
    Cordoned,
    Deleted,
    Exited,
    Fact,
    Failed,
    FoundRunning,
    Gone,
    NotMade,
    Pending,
    Started,
    Stuck,
    TakenOff,
    Vanished,
)
from relay_localcloud.workloads import moves
from relay_localcloud.workloads.transitions import Trigger
from relay_localcloud.workloads.workloads import WORKLOADS, Workload
from relay_wire.pods import PodStatus

EXITED: Final = "CONTAINER_EXITED"
STOPS_LATE: Final = "Its Pod was to end and is still there: it is stopped once that is gone."
_RESTORED: Final = "It was started after the backup from which the cloud was restored, and runs on."
_STARTING: Final = frozenset({PodStatus.DEPLOYING, PodStatus.RUNNING})
"""States in which the reason may say why a container does not run yet, or not again."""


def tell(tx: Tx, workload: Workload, facts: Sequence[Fact]) -> None:
    """Apply the facts, exits only once; any other fact reported before changes nothing."""
    for fact in facts:
        workload = _told(tx, workload, fact)


def _told(tx: Tx, workload: Workload, fact: Fact) -> Workload:
    match fact:
        case Started(at):
            return _started(tx, workload, at)
        case Exited():
            ran = moves.apply(tx, workload, Trigger.STARTED, at=fact.started_at)
            return moves.apply(tx, ran, Trigger.CONTAINER_EXITED, of_exit(fact))
        case (
            Cordoned(words, ended_at) | Stuck(words, ended_at) | Vanished(words, ended_at) | NotMade(words, ended_at)
        ) if workload.status is PodStatus.RUNNING:
            return moves.apply(tx, workload, Trigger.HELD_UP, words or workload.status_reason, ended_at)
        case Deleted(words) | TakenOff(words) if workload.status is PodStatus.RUNNING:
            again = workload.status_reason == words
            return workload if again else moves.apply(tx, workload, Trigger.CONTAINER_EXITED, words)
        case Stuck() if workload.status is PodStatus.STOPPING and workload.status_reason is None:
            return _says(tx, workload, STOPS_LATE)
        case (
            Pending(words)
            | CannotStart(words)
            | Cordoned(words)
            | Stuck(words)
            | Deleted(words)
            | TakenOff(words)
            | Vanished(str(words))
            | NotMade(str(words))
        ):
            return _says(tx, workload, words) if workload.status in _STARTING else workload
        case Failed(words, ended_at):
            return moves.apply(tx, workload, Trigger.FAILED, words, ended_at)
        case FoundRunning():
            return moves.found_running(tx, workload, _RESTORED)
        case Gone():
            is_late = workload.status_reason == STOPS_LATE
            return moves.apply(tx, _says(tx, workload, None) if is_late else workload, Trigger.STOPPED)
        case _:
            return workload


def _started(tx: Tx, workload: Workload, at: int) -> Workload:
    if workload.status is not PodStatus.RUNNING:
        return moves.apply(tx, workload, Trigger.STARTED, at=at)
    last_exit = workload.status_reason is not None and workload.status_reason.startswith(EXITED)
    return workload if last_exit else _says(tx, workload, None)


def _says(tx: Tx, workload: Workload, words: str | None) -> Workload:
    return workload if workload.status_reason == words else WORKLOADS.changed(tx, workload, status_reason=words)


def of_exit(exited: Exited) -> str:
    """How the container ended, in the kubelet's words."""
    said = f" ({exited.reason})" if exited.reason else ""
    return f"{EXITED}: exit code {exited.exit_code}{said}" + (f": {exited.message}" if exited.message else "")

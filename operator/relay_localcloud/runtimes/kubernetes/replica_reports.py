"""Reports to replicas' rows: facts become triggers and reasons, and then the replica's group is settled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from relay_localcloud.capacity import nodes
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.engine import GroupT, Replicas
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import REPLICA_TRANSITIONS, SILENT, ReplicaState, ReplicaTrigger
from relay_localcloud.runtimes.kubernetes.facts import (
    NOT_HEALTHY_YET,
    Awaited,
    CannotStart,
    Cordoned,
    Deleted,
    Exited,
    Fact,
    Failed,
    FoundRunning,
    Gone,
    Healthy,
    NotMade,
    Pending,
    Started,
    Stuck,
    TakenOff,
    Unhealthy,
    Vanished,
)
from relay_localcloud.runtimes.kubernetes.reports import EXITED, of_exit

_STARTS_AGAIN: Final = "Its container starts again."


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to a replica, why if there is a reason, and when if that is known."""

    trigger: ReplicaTrigger
    words: str | None = None
    at: int | None = None


def steps_of(fact: Fact) -> Iterator[Step]:
    """The steps that follow from a fact."""
    match fact:
        case Started(at):
            yield Step(ReplicaTrigger.CONTAINER_RUNS, at=at)
        case Healthy():
            yield Step(ReplicaTrigger.CHECK_PASSED)
        case Unhealthy(words):
            yield Step(ReplicaTrigger.CHECK_FAILED, words)
        case Exited():
            yield Step(ReplicaTrigger.CONTAINER_RUNS, at=fact.started_at)
            yield Step(ReplicaTrigger.CONTAINER_AWAY, of_exit(fact))
        case Cordoned(words, ended_at) | Stuck(words, ended_at) | Vanished(words, ended_at) | NotMade(words, ended_at):
            yield Step(ReplicaTrigger.CONTAINER_AWAY, words)
            yield Step(ReplicaTrigger.HELD_UP, words, ended_at)
        case Pending(words) | CannotStart(words) | Deleted(words) | TakenOff(words):
            yield Step(ReplicaTrigger.CONTAINER_AWAY, words)
        case Failed(words, ended_at):
            yield Step(ReplicaTrigger.CONTAINER_FAILED, words, ended_at)
        case Awaited():
            yield Step(ReplicaTrigger.CONTAINER_AWAY)
        case FoundRunning() | Gone():
            return


def tell(tx: Tx, replicas: Replicas[GroupT], group: GroupT, replica: Replica, facts: Sequence[Fact]) -> None:
    """Apply the facts, exits only once, and settle the group if that changed anything."""
    after = replica
    for step in (step for fact in facts for step in steps_of(fact)):
        after = _apply(tx, replicas, group, after, step)
    stops = replica.status is ReplicaState.STOPPING and replicas.facts.stopped is not None
    is_over = stops and Gone() in facts
    if is_over:
        replicas.apply(tx, group, after, ReplicaTrigger.TERMINATE)
    is_due = not after.replacement_due and _is_displaced(tx, replica, facts)
    if is_due:
        replicas.rows.change(tx, replica.id, replacement_due=True)
    if is_over or is_due or after != replica:
        replicas.settle_all(tx, [group.id])


def _is_displaced(tx: Tx, replica: Replica, facts: Sequence[Fact]) -> bool:
    """Whether it cannot run where it was placed, so that another one is to take its place on a node with room.

    A replica has no volume that ties it to its node. One whose node is silent is replaced with all others there.
    """
    kinds = {type(fact) for fact in facts}
    if replica.node_id is None:
        return Stuck in kinds
    return Cordoned in kinds or (Pending in kinds and nodes.get(tx, replica.node_id).free_count < 0)


def _apply(tx: Tx, replicas: Replicas[GroupT], group: GroupT, replica: Replica, step: Step) -> Replica:
    words = step.words
    if (replica.status, step.trigger) in REPLICA_TRANSITIONS:
        replicas.apply(tx, group, replica, step.trigger, words or _STARTS_AGAIN, step.at)
        replica = replicas.get(tx, replica.id) or replica
    if words is not None and words != replica.reason and not _says_more(replica, words):
        replicas.rows.change(tx, replica.id, reason=words)
        replica = replace(replica, reason=words)
    return replica


def _says_more(replica: Replica, words: str) -> bool:
    """Whether the present reason stays: if the replica serves or is lost, or if it says how the container exited."""
    if replica.status in SILENT | {ReplicaState.HEALTHY}:
        return True
    return words == NOT_HEALTHY_YET and (replica.reason or "").startswith(EXITED)

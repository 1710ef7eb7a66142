"""The step that follows from a holder and its Pod, as one table. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.runtimes.kubernetes.holdings import Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import (
    CLOUD_ID,
    CORDON,
    INSTANCE,
    REPLICA_ID,
    START,
    name_of,
    organization_of,
)
from relay_localcloud.runtimes.kubernetes.observed import OVER, Pod
from relay_localcloud.runtimes.runtime import Labelled

REMADE_AFTER: Final = 10 * SECOND
"""How long a Pod that its kubelet ended stays, since its creation: some kubelets reject every Pod at once."""
_COUNT: Final = re.compile(r"[0-9]{1,18}")
"""A start that fits the database: whoever may make Pods on the cluster may annotate them with anything."""


class Situation(Enum):
    """What exists under the name of a holder's Pod."""

    ABSENT = auto()
    CLOSED = auto()  # absent, and the holder's node is cordoned, or without one every node
    FOREIGN = auto()  # a Pod that is not this cloud's
    PRESENT = auto()
    UNPLACED = auto()  # on no node yet, and cordons keep it off as in CLOSED
    LATER = auto()  # of a later start than the row's, since the state was restored from a backup
    LEAVING = auto()  # being deleted, by whomever
    REJECTED = auto()  # in phase Succeeded or Failed, and younger than REMADE_AFTER
    OUTDATED = auto()  # of an earlier start, in phase Succeeded or Failed, or kept off a node that was held meanwhile


class Step(Enum):
    """What to do about a situation."""

    NOTHING = auto()
    MAKE = auto()  # create the objects that are missing
    END = auto()  # delete the Pod
    SWEEP = auto()  # delete the other objects; the volume only for Standing.END


_WITHOUT_POD: Final[Mapping[Situation, Step]] = {
    Situation.ABSENT: Step.SWEEP,
    Situation.CLOSED: Step.SWEEP,
    Situation.FOREIGN: Step.SWEEP,
    Situation.PRESENT: Step.END,
    Situation.UNPLACED: Step.END,
    Situation.LATER: Step.NOTHING,
    Situation.LEAVING: Step.NOTHING,
    Situation.REJECTED: Step.END,
    Situation.OUTDATED: Step.END,
}
STEPS: Final[Mapping[Standing, Mapping[Situation, Step]]] = {
    Standing.RUN: {
        Situation.ABSENT: Step.MAKE,
        Situation.CLOSED: Step.NOTHING,
        Situation.FOREIGN: Step.NOTHING,
        Situation.PRESENT: Step.NOTHING,
        Situation.UNPLACED: Step.END,  # the time within which it is to be scheduled begins at its creation
        Situation.LATER: Step.NOTHING,
        Situation.LEAVING: Step.NOTHING,
        Situation.REJECTED: Step.NOTHING,
        Situation.OUTDATED: Step.END,
    },
    Standing.REST: _WITHOUT_POD,
    Standing.END: {**_WITHOUT_POD, Situation.LATER: Step.END},  # an end is final, so it was wanted after that start
}


def situation(
    holding: Holding, pod: Pod | None, instance: str, now: int, *, cordoned: bool = False, held: bool = False
) -> Situation:
    """The situation of a holder; `pod` is the Pod of its name; its node is `cordoned`, or `held` by its owner.

    Of a holder without a node, `cordoned` is about every node on which it could run.
    """
    if pod is None:
        return Situation.CLOSED if cordoned else Situation.ABSENT
    if pod.metadata.labels.get(INSTANCE) != instance:
        return Situation.FOREIGN
    start = start_of(pod)
    if start > holding.start:
        return Situation.LATER
    if pod.metadata.deletion_timestamp is not None:
        return Situation.LEAVING
    if start < holding.start:
        return Situation.OUTDATED
    if pod.status.phase not in OVER:
        return _unended(pod, cordoned=cordoned, held=held)
    return Situation.REJECTED if now - pod.metadata.creation_timestamp < REMADE_AFTER else Situation.OUTDATED


def _unended(pod: Pod, *, cordoned: bool, held: bool) -> Situation:
    if pod.spec.node_name is not None:
        return Situation.PRESENT
    if cordoned:
        return Situation.UNPLACED
    tolerates = any(each.key == CORDON for each in pod.spec.tolerations)
    return Situation.OUTDATED if held and not tolerates else Situation.PRESENT


def is_known(pod: Pod, instance: str, starts: Mapping[str, int]) -> bool:
    """Whether a Pod is this cloud's, and of a start that its rows have; `starts` are the last ones by holder."""
    return start_of(pod) <= starts.get(holder_of(pod, instance), -1)


def holder_of(pod: Pod, instance: str) -> str:
    """The id of the holder that a Pod of this cloud belongs to; empty for a Pod of others."""
    labels = pod.metadata.labels
    return (labels.get(REPLICA_ID) or labels.get(CLOUD_ID, "")) if labels.get(INSTANCE) == instance else ""


def labelled(cluster: str, pods: Iterable[Pod], instance: str) -> Iterator[Labelled]:
    """The Pods of a cluster that bear the mark of this cloud as those that it creates do."""
    for pod in pods:
        holder_id, metadata = holder_of(pod, instance), pod.metadata
        if metadata.name == name_of(holder_id) and organization_of(metadata.namespace) is not None:
            named = holder_id, metadata.labels.get(CLOUD_ID, holder_id), cluster, metadata.namespace
            yield Labelled(*named, start_of(pod), metadata.creation_timestamp)


def start_of(pod: Pod) -> int:
    """The start of its holder that a Pod belongs to; 0 without a valid annotation, so that the Pod is recreated."""
    said = pod.metadata.annotations.get(START, "")
    return int(said) if _COUNT.fullmatch(said) else 0

"""What a holder and its Pod make of each other, as one table: what is to be made, to end, or to be swept. Pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from relay_localcloud.runtimes.kubernetes.holdings import Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, START
from relay_localcloud.runtimes.kubernetes.observed import Pod

_OVER: Final = frozenset({"Succeeded", "Failed"})


class Situation(Enum):
    """What there is under the name of a holder's Pod."""

    ABSENT = auto()
    FOREIGN = auto()  # a Pod that is not this cloud's
    PRESENT = auto()
    LATER = auto()  # of a later start than the row knows of, since the state was restored
    LEAVING = auto()  # on its way out, whoever wanted that
    OUTDATED = auto()  # of an earlier start, or over


class Step(Enum):
    """What is done about it."""

    NOTHING = auto()
    MAKE = auto()  # whatever of it is not there
    END = auto()  # the Pod
    SWEEP = auto()  # what else is there of it; the volume only at the end


_WITHOUT_POD: Final[Mapping[Situation, Step]] = {
    Situation.ABSENT: Step.SWEEP,
    Situation.FOREIGN: Step.SWEEP,
    Situation.PRESENT: Step.END,
    Situation.LATER: Step.NOTHING,
    Situation.LEAVING: Step.NOTHING,
    Situation.OUTDATED: Step.END,
}
STEPS: Final[Mapping[Standing, Mapping[Situation, Step]]] = {
    Standing.RUN: {
        Situation.ABSENT: Step.MAKE,
        Situation.FOREIGN: Step.NOTHING,
        Situation.PRESENT: Step.NOTHING,
        Situation.LATER: Step.NOTHING,
        Situation.LEAVING: Step.NOTHING,
        Situation.OUTDATED: Step.END,
    },
    Standing.REST: _WITHOUT_POD,
    Standing.END: _WITHOUT_POD,
}


def situation(holding: Holding, pod: Pod | None, instance: str) -> Situation:
    """What there is of a holder; `pod` is what has its name."""
    if pod is None:
        return Situation.ABSENT
    if pod.metadata.labels.get(INSTANCE) != instance:
        return Situation.FOREIGN
    start = start_of(pod)
    if start > holding.start:
        return Situation.LATER
    if pod.metadata.deletion_timestamp is not None:
        return Situation.LEAVING
    return Situation.OUTDATED if start < holding.start or pod.status.phase in _OVER else Situation.PRESENT


def start_of(pod: Pod) -> int:
    """Which start of its holder a Pod is; 0 if somebody took that off it, so that it is made anew."""
    said = pod.metadata.annotations.get(START, "")
    return int(said) if said.isdecimal() else 0

"""What stands behind a resource that no object records. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, TypeVar

from relay_operator.api.cloudaccount import Orphans
from relay_operator.engine.leftovers import Fate, Leftover
from relay_wire.billing import CurrentUsage

_GRACE = timedelta(days=1)
"""How long an orphan is told before it is ended, where the account asks for that."""
_KINDS: Final[Mapping[str, str]] = {"pod": "GpuPod", "vm": "GpuVm", "cluster": "GpuCluster"}
"""By what the usage calls them."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A resource of the cloud."""

    kind: str
    id: str
    name: str


FoundT = TypeVar("FoundT", Stray, Leftover)


class Standing(Enum):
    """Whose it is."""

    LEFT_ALONE = auto()  # asked for, another account's or operator's, or it cannot be said at this moment
    SEARCHED = auto()  # its object asks what became of that create, and takes it
    LATE = auto()  # its object gave the create up
    ORPHAN = auto()  # the object that gave the name is not there


def unseen(looked: Mapping[str, float], usage: CurrentUsage | None) -> Iterator[tuple[Stray, float]]:
    """What the month's usage tells, with its hours; apart from what was looked at when it had as many hours."""
    for item in usage.breakdown if usage is not None else ():
        kind, hours = _KINDS.get(item.kind or ""), item.hours or 0.0
        if kind and item.resource_id and item.name and hours != looked.get(item.resource_id):
            yield Stray(kind, item.resource_id, item.name), hours


def standing(*, given: bool, here: bool, searched: bool, settled: bool, watched: bool) -> Standing:
    """Of what no object records, and nobody keeps.

    `given`: an object that is there gave the name; `here`: it is with this account; `searched`: it asks itself what
    became of that create; `settled`: no pass is over it; `watched`: every object of the cluster is seen.
    """
    if given and here and searched:
        return Standing.SEARCHED
    if not settled:
        return Standing.LEFT_ALONE
    if given:
        return Standing.LATE if here else Standing.LEFT_ALONE
    return Standing.ORPHAN if watched else Standing.LEFT_ALONE


def in_turn(those: Iterable[FoundT], looked: Mapping[str, int], most: int) -> list[FoundT]:
    """As many as one sweep looks at: those that were not looked at for the longest time.

    `looked` tells by id in which sweep it was done last.
    """
    return sorted(those, key=lambda one: looked.get(one.id, 0))[:most]


def to_end(record: Leftover, policy: Orphans, now: datetime, *, everywhere: bool, ours: bool) -> bool:
    """Whether it is ended: what was created too late at once, an orphan after a day, and what is kept never.

    `ours`: an object of this installation gave its name. What was adopted has another, which only a status tells, and
    whoever writes one could have anything ended.
    """
    match record.fate:
        case Fate.LATE:
            return True
        case Fate.ORPHAN:
            return policy is Orphans.DELETE and everywhere and ours and now - record.since >= _GRACE
        case Fate.KEPT:
            return False

"""Decides about resources that no object records. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Final, TypeVar

from relay_operator.api.cloudaccount import Orphans
from relay_operator.engine.leftover import Fate, Leftover
from relay_wire.base import RESOURCE_ID
from relay_wire.billing import CurrentUsage

_GRACE = timedelta(days=1)
"""How long an orphan is reported before it is deleted, if the account asks for deletion."""
_KINDS: Final[Mapping[str, str]] = {"pod": "GpuPod", "vm": "GpuVm", "cluster": "GpuCluster"}
"""Kinds by their names in the cloud's usage."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A cloud resource that no object may record."""

    kind: str
    id: str
    name: str


FoundT = TypeVar("FoundT", Stray, Leftover)


def unseen(looked: Mapping[str, float], usage: CurrentUsage | None) -> Iterator[tuple[Stray, float]]:
    """Resources of the month's usage and their hours, except those whose hours are the same as at the last look.

    The usage may have several lines for one resource, and lines without the id of any.
    """
    hours = defaultdict[Stray, float](float)
    for item in (usage.breakdown or ()) if usage is not None else ():
        kind, told = _KINDS.get(item.kind or ""), item.hours or 0.0
        if kind and item.resource_id and item.name:
            hours[Stray(kind, item.resource_id, item.name)] += told if isfinite(told) else 0.0
    for stray, total in hours.items():
        if total != looked.get(stray.id) and RESOURCE_ID.fullmatch(stray.id):
            yield stray, total


def fate_of(*, given: bool, here: bool, settled: bool, watched: bool) -> Fate | None:
    """What becomes of a resource that no object records or searches for and nobody keeps; None to leave it alone.

    `given`: an existing object gave its name; `here`: that object uses this account; `settled`: no pass is over it;
    `watched`: this operator sees every object of the cluster.
    """
    if not settled:
        return None
    if given:
        return Fate.LATE if here else None
    return Fate.ORPHAN if watched else None


def in_turn(those: Iterable[FoundT], looked: Mapping[str, int], most: int) -> list[FoundT]:
    """The items that one sweep looks at: at most `most`, those not looked at for longest first.

    `looked` has, by id, the sweep of the last look.
    """
    return sorted(those, key=lambda one: looked.get(one.id, 0))[:most]


def onward(strays: Iterable[Stray], after: str) -> list[Stray]:
    """The strays by id, first those after `after`: if a look is forgotten, its stray keeps no other from a turn."""

    def place(cloud_id: str) -> tuple[int, str]:
        return len(cloud_id), cloud_id  # ids that count up keep their order

    last = place(after)
    return sorted(strays, key=lambda one: (place(one.id) <= last, place(one.id)))


def to_end(record: Leftover, policy: Orphans, now: datetime, *, everywhere: bool, ours: bool) -> bool:
    """Whether to delete the leftover: a late create at once, an orphan after a day, a kept resource never.

    `ours`: an object of this installation gave its name. An adopted resource has another name, and only a status claims
    it: whoever writes statuses could otherwise have anything deleted.
    """
    match record.fate:
        case Fate.LATE:
            return True
        case Fate.ORPHAN:
            return policy is Orphans.DELETE and everywhere and ours and now - record.since >= _GRACE
        case Fate.KEPT:
            return False

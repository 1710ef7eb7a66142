"""Serves groups that wait for room once some becomes free: the oldest first, and one per transaction.

A transaction holds up every request, so each is kept short.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from relay_localcloud.capacity import addresses, claims
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.capacity.vacancies import Queue, Waiting
from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import DueItem
from relay_localcloud.kernel.store import Tx

LOOKED_AT_ONCE: Final = 200
"""How many waiting groups one transaction examines at most."""


class Waits(Protocol):
    """A group that waits for room."""

    @property
    def demand(self) -> Demand | None:
        """What each replica needs of a node; None if it takes no GPU."""
        ...


WaitsT = TypeVar("WaitsT", bound=Waits)


def serve(
    tx: Tx, item: DueItem, queue: Queue, found: Callable[[str], WaitsT], settle: Callable[[WaitsT], object]
) -> None:
    """Serve one group that waits for the GPU model in the item's subject, and schedule those behind it.

    `settle` places what it can for a group that `found` returns for an id.
    """
    after = int(str(item.payload.get("after", 0)))
    if not queue.others_are_served(tx, item.subject):
        waiting = queue.waiting_for(tx, item.subject, after, LOOKED_AT_ONCE)
        served = _first(tx, waiting, found, settle)
        if served is None and len(waiting) < LOOKED_AT_ONCE:
            return
        after = (served or waiting[-1]).sequence
    if not due.is_scheduled(tx.connection, queue.fill, item.subject):  # else more became free: start from the first
        tx.schedule(tx.now, queue.fill, item.subject, {"after": after})


def _first(
    tx: Tx, waiting: Iterable[Waiting], found: Callable[[str], WaitsT], settle: Callable[[WaitsT], object]
) -> Waiting | None:
    """Settle and return the first that finds room, if any; a demand that finds none is not looked up twice."""
    unmet = set[Demand | None]()
    for each in waiting:
        group = found(each.group_id)
        if group.demand in unmet:
            continue
        if _is_room(tx, group.demand):
            settle(group)
            return each
        unmet.add(group.demand)
    return None


def _is_room(tx: Tx, demand: Demand | None) -> bool:
    return addresses.is_one_free(tx) and (demand is None or claims.find_room(tx.connection, demand) is not None)

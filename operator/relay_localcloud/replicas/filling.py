"""Room became free: who waits for it is served, the oldest first, one in a transaction, since all others wait then."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from relay_localcloud.capacity import addresses, claims
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.capacity.vacancies import Queue, Waiting
from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import DueItem
from relay_localcloud.kernel.store import Tx

LOOKED_AT_ONCE: Final = 200
"""How many of those who wait are looked at in one transaction."""


class Waits(Protocol):
    """Who waits."""

    @property
    def demand(self) -> Demand | None:
        """What each replica needs of a node; None if it takes no GPU."""
        ...


WaitsT = TypeVar("WaitsT", bound=Waits)


def serve(
    tx: Tx, item: DueItem, queue: Queue, found: Callable[[str], WaitsT], settle: Callable[[WaitsT], object]
) -> None:
    """Serve one of those who wait for the model that is the item's subject, and later those behind it."""
    after = int(str(item.payload.get("after", 0)))
    if not queue.others_are_served(tx, item.subject):
        waiting = queue.waiting_for(tx, item.subject, after, LOOKED_AT_ONCE)
        served = _first(tx, waiting, found, settle)
        if served is None and len(waiting) < LOOKED_AT_ONCE:
            return
        after = (served or waiting[-1]).sequence
    if not due.is_scheduled(tx.connection, queue.fill, item.subject):  # else more became free: from the first again
        tx.schedule(tx.now, queue.fill, item.subject, {"after": after})


def _first(
    tx: Tx, waiting: Iterable[Waiting], found: Callable[[str], WaitsT], settle: Callable[[WaitsT], object]
) -> Waiting | None:
    """The first for whom there was room, if any; where there was none, the same is not looked for again."""
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

"""Room shared by organizations: one that needs much of it takes nothing from those that need little."""

from collections.abc import Iterable


def even_share(held: Iterable[int], room: int) -> int:
    """The most that each may keep so that all together keep at most `room`; a holder of less keeps all of it.

    It is at least an even part of the room; what some do not need is shared among the others.
    """
    amounts = sorted(held)
    left = room
    for place, amount in enumerate(amounts):
        share = left // (len(amounts) - place)
        if amount > share:
            return share
        left -= amount
    return room


def may_take(has: int, free: int) -> bool:
    """Whether an organization with `has` places may take another, if all leave `free` places free.

    It has no more than a third of what is free, so that the next one finds room, however long the others keep theirs;
    one alone has a quarter of all places at most.
    """
    return 3 * has < free

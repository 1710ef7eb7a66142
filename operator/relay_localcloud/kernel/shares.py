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

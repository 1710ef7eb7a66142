"""Room that organizations share: whoever needs much of it takes nothing from those who need little."""

from collections.abc import Iterable


def even_share(held: Iterable[int], room: int) -> int:
    """The most that each may keep so that all together keep at most `room`; whoever has less keeps all of it.

    At least an even part of the room; what some do not need is shared among the others.
    """
    amounts = sorted(held)
    left = room
    for place, amount in enumerate(amounts):
        share = left // (len(amounts) - place)
        if amount > share:
            return share
        left -= amount
    return room

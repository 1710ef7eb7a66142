"""Which holder has its turn next: organizations take turns, so that one with thousands of holders delays no other."""

from collections.abc import Callable, Container
from typing import Final

NOBODY: Final = ""
"""Stands for the organization of a holder whose row is gone or, since the disk is full, cannot be read."""


class Due:
    """The holders whose turns are due; of an organization, the one that is due the longest comes first."""

    def __init__(self) -> None:
        self._holders = set[str]()
        self._unsorted: dict[str, None] = {}
        self._of: dict[str, dict[str, None]] = {}

    def add(self, holder_id: str, organization_id: str | None = None) -> None:
        """Give a holder a turn; without its organization, `sort` finds that."""
        if holder_id in self._holders:
            return
        self._holders.add(holder_id)
        (self._unsorted if organization_id is None else self._of.setdefault(organization_id, {}))[holder_id] = None

    @property
    def is_sorted(self) -> bool:
        """Whether the organization of every holder is known."""
        return not self._unsorted

    def sort(self, owner_of: Callable[[str], str]) -> None:
        """Find the organizations that are unknown; `owner_of` gives that of a holder."""
        for holder_id in self._unsorted:
            self._of.setdefault(owner_of(holder_id), {})[holder_id] = None
        self._unsorted.clear()

    def take(self, most: int, under_way: Container[str]) -> list[str]:
        """Remove and return up to `most` sorted holders whose turns begin now: not those whose turns are under way."""
        taken: list[str] = []
        passed = 0
        while len(taken) < most and passed < len(self._of):
            owner, waiting = next(iter(self._of.items()))
            del self._of[owner]
            first = next((each for each in waiting if each not in under_way), None)
            passed += 1
            if first is not None:
                passed = 0
                del waiting[first]
                self._holders.discard(first)
                taken.append(first)
            if waiting:
                self._of[owner] = waiting  # behind the others
        return taken

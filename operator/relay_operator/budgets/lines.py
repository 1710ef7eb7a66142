"""The objects that wait for room in a budget: the oldest comes first, whatever the others ask for."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from relay_operator.api.meta import ObjectKey

_STALE: Final = 2
_FEW: Final = 64
"""More than `_STALE` times as many places as objects in a line, and this many more, are gone through once."""


class Age(NamedTuple):
    """Orders objects by age."""

    created: str
    """RFC 3339, in UTC."""
    uid: str
    generation: int = 0
    """Generation of the spec that waits."""


class Line(NamedTuple):
    """Identifies a line: for room in an account, or in one namespace's share of it."""

    account: ObjectKey
    namespace: str | None = None


@dataclass(slots=True)
class Lines:
    """All lines. O(log n) for each object that joins or leaves."""

    waits: Callable[[ObjectKey, Age, Line], bool]
    """Whether the object of this age still waits in the line: not one that is gone, or has another spec or account."""
    _ages: dict[Line, dict[ObjectKey, Age]] = field(default_factory=dict)
    _order: dict[Line, list[tuple[Age, ObjectKey]]] = field(default_factory=dict)
    _of: dict[ObjectKey, set[Line]] = field(default_factory=dict)
    _vacated: set[ObjectKey] = field(default_factory=set)

    def join(self, key: ObjectKey, age: Age, lines: Iterable[Line]) -> set[ObjectKey]:
        """Wait in these lines only; returns the accounts of the lines left."""
        wanted = set(lines)
        left = self._of.get(key, set()) - wanted
        for line in left:
            self._leave(key, line)
        for line in wanted:
            ages = self._ages.setdefault(line, {})
            if ages.get(key) != age:
                ages[key] = age
                self._push(line, age, key)
                self._of.setdefault(key, set()).add(line)
        return {line.account for line in left}

    def leave(self, key: ObjectKey) -> set[ObjectKey]:
        """Leave all lines; returns their accounts."""
        left = set(self._of.get(key, ()))
        for line in left:
            self._leave(key, line)
        return {line.account for line in left}

    def is_behind(self, key: ObjectKey, age: Age, line: Line) -> bool:
        """Whether an older object waits in the line."""
        first = self.first(line)
        return first is not None and first != key and self._ages[line][first] < age

    def first(self, line: Line) -> ObjectKey | None:
        """The oldest object that still waits."""
        order, ages = self._order.get(line, []), self._ages.get(line, {})
        while order:
            age, key = order[0]
            if ages.get(key) == age and self.waits(key, age, line):
                return key
            heapq.heappop(order)
            if ages.get(key) == age:
                self._vacated |= self.leave(key)
        return None

    def vacated(self) -> set[ObjectKey]:
        """Accounts of the lines from which objects that no longer wait were removed since the last call."""
        accounts, self._vacated = self._vacated, set()
        return accounts

    def of(self, account: ObjectKey) -> list[Line]:
        """The lines in which objects wait for room in the account."""
        return [line for line in self._ages if line.account == account]

    def _push(self, line: Line, age: Age, key: ObjectKey) -> None:
        order, ages = self._order.setdefault(line, []), self._ages[line]
        heapq.heappush(order, (age, key))
        if len(order) > _STALE * len(ages) + _FEW:
            order[:] = [(age, key) for key, age in ages.items()]
            heapq.heapify(order)

    def _leave(self, key: ObjectKey, line: Line) -> None:
        self._of[key].discard(line)
        if not self._of[key]:
            del self._of[key]
        del self._ages[line][key]
        if not self._ages[line]:
            del self._ages[line], self._order[line]

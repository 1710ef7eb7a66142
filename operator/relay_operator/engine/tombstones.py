"""Where objects ended, so that what was read before does not bring them back."""

from collections import OrderedDict
from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class Tombstones:
    """The resource versions of the last ends. Bounded: a list is read, and a write answered, within less of them."""

    limit: int = 10_000
    _ends: OrderedDict[ObjectKey, int] = field(default_factory=OrderedDict)

    def put(self, key: ObjectKey, version: int) -> None:
        """The object of this name ended at this version."""
        self._ends[key] = max(version, self._ends.get(key, 0))
        self._ends.move_to_end(key)
        if len(self._ends) > self.limit:
            self._ends.popitem(last=False)

    def covers(self, key: ObjectKey, version: int) -> bool:
        """Whether an object of this version had ended before; a namesake that was made since has a greater one."""
        return 0 < version <= self._ends.get(key, 0)

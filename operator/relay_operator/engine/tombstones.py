"""The versions at which objects were deleted, so that older observations do not bring them back."""

from collections import OrderedDict
from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class Tombstones:
    """The versions of the latest deletions. Bounded: a list is read, and a write answered, within fewer of them."""

    limit: int = 10_000
    _ends: OrderedDict[ObjectKey, int] = field(default_factory=OrderedDict)

    def put(self, key: ObjectKey, version: int) -> None:
        """Record that the object of this name was deleted at this version."""
        self._ends[key] = max(version, self._ends.get(key, 0))
        self._ends.move_to_end(key)
        if len(self._ends) > self.limit:
            self._ends.popitem(last=False)

    def covers(self, key: ObjectKey, version: int) -> bool:
        """Whether this version is from before the deletion; a namesake that was created since has a greater one."""
        return 0 < version <= self._ends.get(key, 0)

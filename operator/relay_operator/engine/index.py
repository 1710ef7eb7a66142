"""Objects by a name that they have, such as a cloud id, a token or an owner."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from relay_operator.api.meta import ObjectKey

NameT = TypeVar("NameT", bound=Hashable)


@dataclass(slots=True)
class Index(Generic[NameT]):
    """Keys by name. O(1) per change; a name without objects takes no memory."""

    _holders: dict[NameT, ObjectKey | set[ObjectKey]] = field(default_factory=dict)
    """A single key is stored without a set: a set takes 216 bytes, and most names have one object."""

    def move(self, key: ObjectKey, before: NameT | None, after: NameT | None) -> None:
        """Replace the object's name `before` with `after`; None if it has none."""
        if before == after:
            return
        if before is not None:
            self._remove(key, before)
        if after is not None:
            self._add(key, after)

    def of(self, name: NameT) -> frozenset[ObjectKey]:
        """The objects with this name."""
        held = self._holders.get(name)
        if held is None:
            return frozenset()
        return frozenset(held) if isinstance(held, set) else frozenset((held,))

    def names(self) -> tuple[NameT, ...]:
        """All names that have objects."""
        return tuple(self._holders)

    def _add(self, key: ObjectKey, name: NameT) -> None:
        held = self._holders.get(name)
        if held is None:
            self._holders[name] = key
        elif isinstance(held, set):
            held.add(key)
        else:
            self._holders[name] = {held, key}

    def _remove(self, key: ObjectKey, name: NameT) -> None:
        held = self._holders[name]
        if isinstance(held, set):
            held.discard(key)
        if not isinstance(held, set) or not held:
            del self._holders[name]

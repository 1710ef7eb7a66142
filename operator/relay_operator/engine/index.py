"""Objects by something that each of them has one of, or none."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from relay_operator.api.meta import ObjectKey

NameT = TypeVar("NameT", bound=Hashable)


@dataclass(slots=True)
class Index(Generic[NameT]):
    """Keys by name. O(1) per change; a name that nobody has takes no room."""

    _holders: dict[NameT, ObjectKey | set[ObjectKey]] = field(default_factory=dict)
    """One key as it is: a set takes 216 bytes, and most names have one object."""

    def move(self, key: ObjectKey, before: NameT | None, after: NameT | None) -> None:
        """The object had `before`, and has `after` from now on; None is no name."""
        if before == after:
            return
        if before is not None:
            self._remove(key, before)
        if after is not None:
            self._add(key, after)

    def of(self, name: NameT) -> frozenset[ObjectKey]:
        """Who has it."""
        held = self._holders.get(name)
        if held is None:
            return frozenset()
        return frozenset(held) if isinstance(held, set) else frozenset((held,))

    def names(self) -> tuple[NameT, ...]:
        """Every name that somebody has."""
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

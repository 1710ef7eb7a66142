"""What the engine remembers of an object between passes, in this process only.

Nothing here may be needed for safety: a new process starts with none of it and only takes longer to be sure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.persist import Unwritten


@dataclass(slots=True)
class Memory:
    """One object's; a namesake with another uid starts afresh. Flows remember more."""

    uid: str
    unanswered: int = 0
    """Looks in a row that the cloud did not answer."""
    kube_failures: int = 0
    """Passes in a row that the Kubernetes API did not let finish."""
    quiet_looks: int = 0
    """Looks in a row that showed nothing different: transitions are polled ever more slowly."""
    unwritten: Unwritten | None = None
    """What was paid for, until status tells it."""
    ending: bool = False
    """What status could not tell is taken to its end: until then nothing else is made."""


MemoryT = TypeVar("MemoryT", bound=Memory)


@dataclass(slots=True)
class Memories(Generic[MemoryT]):
    """Every object's of a kind."""

    new: Callable[[str], MemoryT]
    """Of an object with this uid."""
    _by_key: dict[ObjectKey, MemoryT] = field(default_factory=dict)

    def of(self, key: ObjectKey, uid: str) -> MemoryT:
        memory = self._by_key.get(key)
        if memory is None or memory.uid != uid:
            memory = self._by_key[key] = self.new(uid)
        return memory

    def unwritten(self) -> list[tuple[ObjectKey, MemoryT]]:
        """Of all objects whose status does not tell yet what was paid for."""
        return [(key, memory) for key, memory in self._by_key.items() if memory.unwritten is not None]

    def get(self, key: ObjectKey) -> MemoryT | None:
        """What is remembered of the object of this name, or of an earlier one."""
        return self._by_key.get(key)

    def drop(self, key: ObjectKey) -> MemoryT | None:
        return self._by_key.pop(key, None)

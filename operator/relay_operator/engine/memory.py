"""What the engine remembers of an object between passes, in this process only.

Nothing here may be needed for safety: a new process starts with none of it and only takes longer to be sure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.confirmation import ConfirmationDelays
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


@dataclass(slots=True)
class SearchingMemory(Memory):
    """Of an object whose create can be searched for in lists."""

    searched: str = ""
    """What the lists below were searched for."""
    searched_since: float = 0.0
    not_seen: int = 0
    """Complete lists in a row that did not have it."""
    not_seen_at: float = 0.0

    def lacks(self, what: str, now: float, delays: ConfirmationDelays) -> float | None:
        """One more complete list without it: seconds until another can tell more, None if it was not created.

        By this process's own clock: the cloud may act on a create long after it was sent.
        """
        if self.searched != what:  # what an earlier search's lists lacked says nothing about this one
            self.searched, self.not_seen, self.searched_since = what, 0, now
        early = delays.unknown - (now - self.searched_since)
        if early <= 0 and (self.not_seen == 0 or now - self.not_seen_at >= delays.absence):
            self.not_seen, self.not_seen_at = self.not_seen + 1, now
        if self.not_seen >= delays.searches:
            return None
        return early if early > 0 else delays.absence - (now - self.not_seen_at)


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

"""What the engine remembers of an object between passes, in this process only.

Safety must not depend on it: a new process starts without it, and only takes longer to be sure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.persist import Unwritten

MOST_EVENTS: Final = 25
"""Of one object at once; a cloud can change its mind each second, and others' Events need room."""
_EVENT_SECONDS: Final = 300.0
"""How long each of them counts."""


@dataclass(slots=True)
class Memory:
    """The memory of one object; a namesake with another UID gets a new one. Flows remember more."""

    uid: str
    unanswered: int = 0
    """Consecutive looks that the cloud did not answer."""
    kube_failures: int = 0
    """Consecutive passes that the Kubernetes API did not let finish."""
    quiet_looks: int = 0
    """Consecutive passes that did not change status: transitions are polled ever more slowly."""
    unwritten: Unwritten | None = None
    """What was paid for, until status records it."""
    events_until: float = 0.0
    """Until when Events that were recorded count (monotonic seconds), one after another."""

    def may_announce(self, now: float) -> bool:
        """Count one more Event of the object; False if it had too many lately."""
        until = max(self.events_until, now) + _EVENT_SECONDS
        if until - now > MOST_EVENTS * _EVENT_SECONDS:
            return False
        self.events_until = until
        return True


@dataclass(slots=True)
class SearchingMemory(Memory):
    """The memory of an object whose create can be searched for in lists."""

    searched: str = ""
    """What the lists below were searched for."""
    searched_since: float = 0.0
    not_seen: int = 0
    """Consecutive complete lists that lacked it."""
    not_seen_at: float = 0.0

    def lacks(self, what: str, now: float, delays: ConfirmationDelays) -> float | None:
        """Count one more complete list that lacks it; seconds until another may help, None if it was not created.

        Counts on this process's own clock, since the cloud may act on a create long after it was sent.
        """
        if self.searched != what:  # lists of an earlier search prove nothing for this one
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
    """The memories of all objects of a kind."""

    new: Callable[[str], MemoryT]
    """Returns a new memory for an object with this UID."""
    _by_key: dict[ObjectKey, MemoryT] = field(default_factory=dict)

    def of(self, key: ObjectKey, uid: str) -> MemoryT:
        memory = self._by_key.get(key)
        if memory is None or memory.uid != uid:
            memory = self._by_key[key] = self.new(uid)
        return memory

    def unwritten(self) -> list[tuple[ObjectKey, MemoryT]]:
        """Objects whose status does not record yet what was paid for, with their memories."""
        return [(key, memory) for key, memory in self._by_key.items() if memory.unwritten is not None]

    def get(self, key: ObjectKey) -> MemoryT | None:
        """The memory of the object with this name, or of an earlier one; None if there is none."""
        return self._by_key.get(key)

    def drop(self, key: ObjectKey) -> MemoryT | None:
        return self._by_key.pop(key, None)

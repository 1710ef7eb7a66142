"""Ids that webhooks named and no object records: an open intent's resource may be among them."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from relay_operator.engine.confirmation import ConfirmationDelays

_LONGEST = 253
"""The most characters of a name that are kept; the operator gives no name as long as this."""


@dataclass(slots=True)
class UnclaimedIds:
    """The unclaimed ids of one account, newest last, with the names of those that were looked up. Bounded."""

    limit: int = 1000
    clock: Callable[[], float] = time.monotonic
    newborn: float = ConfirmationDelays().newborn
    """For so many seconds after the first 404, a 404 means nothing: the webhook may precede the cloud's own reads."""
    _names: OrderedDict[str, str | None] = field(default_factory=OrderedDict)
    _words: dict[str, str] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)
    """Since when the cloud does not find an id."""

    def add(self, cloud_id: str) -> None:
        """Add an id that a webhook named."""
        self._names.setdefault(cloud_id, None)
        self._names.move_to_end(cloud_id)
        while len(self._names) > self.limit:
            self.discard(next(iter(self._names)))

    def learn(self, cloud_id: str, name: str, word: str = "") -> None:
        """Record the id's name, and the cloud's word for its kind: one look-up serves all open intents."""
        self.add(cloud_id)
        self._missing.pop(cloud_id, None)
        self._names[cloud_id] = name[:_LONGEST]
        self._words.setdefault(cloud_id, word[:_LONGEST])

    def not_found(self, cloud_id: str) -> None:
        """Note a 404; removes the id if this is not the first, and the first was long enough ago."""
        now = self.clock()
        if now - self._missing.setdefault(cloud_id, now) >= self.newborn:
            self.discard(cloud_id)

    def discard(self, cloud_id: str) -> bool:
        """Remove an id that has an owner, or is gone; returns whether it was known."""
        seen = cloud_id in self._names
        self._names.pop(cloud_id, None)
        self._words.pop(cloud_id, None)
        self._missing.pop(cloud_id, None)
        return seen

    def __contains__(self, cloud_id: object) -> bool:
        return cloud_id in self._names

    def named(self, name: str) -> str | None:
        """The id with this name; None if none is known."""
        return next((cloud_id for cloud_id, known in self._names.items() if known == name), None)

    def names(self, but: str | None = None) -> Iterator[tuple[str, str]]:
        """Ids with their names, of those that were looked up, except those that the cloud calls `but`."""
        known = self._names.items()
        return iter([(cloud_id, name) for cloud_id, name in known if name and self._words[cloud_id] != but])

    def nameless(self) -> Iterator[str]:
        """Ids whose names are unknown, newest first, without those of which another 404 would mean nothing yet."""
        early = {cloud_id for cloud_id, since in self._missing.items() if self.clock() - since < self.newborn}
        return iter([each for each, known in reversed(self._names.items()) if known is None and each not in early])

"""Ids that webhooks named and no object records: an open intent's resource may be among them."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

_LONGEST = 253
"""The most characters of a name that are kept; the operator gives no name as long as this."""


@dataclass(slots=True)
class UnclaimedIds:
    """The unclaimed ids of one account, newest last, with the names of those that were looked up. Bounded."""

    limit: int = 1000
    _names: OrderedDict[str, str | None] = field(default_factory=OrderedDict)
    _words: dict[str, str] = field(default_factory=dict)

    def add(self, cloud_id: str) -> None:
        """Add an id that a webhook named."""
        self._names.setdefault(cloud_id, None)
        self._names.move_to_end(cloud_id)
        while len(self._names) > self.limit:
            self.discard(next(iter(self._names)))

    def learn(self, cloud_id: str, name: str, word: str = "") -> None:
        """Record the id's name, and the cloud's word for its kind: one look-up serves all open intents."""
        self.add(cloud_id)
        self._names[cloud_id] = name[:_LONGEST]
        self._words.setdefault(cloud_id, word[:_LONGEST])

    def discard(self, cloud_id: str) -> bool:
        """Remove an id that has an owner, or is gone; returns whether it was known."""
        seen = cloud_id in self._names
        self._names.pop(cloud_id, None)
        self._words.pop(cloud_id, None)
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
        """Ids that were not looked up yet, newest first."""
        return iter([cloud_id for cloud_id, known in reversed(self._names.items()) if known is None])

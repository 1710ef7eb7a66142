"""Ids that webhooks named and no object records: an open intent's resource may be among them."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class UnclaimedIds:
    """One account's unowned ids, newest last, with the name once somebody looked. Bounded."""

    limit: int = 1000
    _names: OrderedDict[str, str | None] = field(default_factory=OrderedDict)
    _words: dict[str, str] = field(default_factory=dict)

    def add(self, cloud_id: str) -> None:
        """A webhook named this id."""
        self._names.setdefault(cloud_id, None)
        self._names.move_to_end(cloud_id)
        while len(self._names) > self.limit:
            self.discard(next(iter(self._names)))

    def learn(self, cloud_id: str, name: str, word: str = "") -> None:
        """Its name, and the cloud's word for what it is: it is looked up once however many intents are open."""
        self.add(cloud_id)
        self._names[cloud_id] = name
        self._words.setdefault(cloud_id, word)

    def discard(self, cloud_id: str) -> bool:
        """It has an owner, or is gone; tells whether it had been seen."""
        seen = cloud_id in self._names
        self._names.pop(cloud_id, None)
        self._words.pop(cloud_id, None)
        return seen

    def __contains__(self, cloud_id: object) -> bool:
        return cloud_id in self._names

    def named(self, name: str) -> str | None:
        """The id known by this name."""
        return next((cloud_id for cloud_id, known in self._names.items() if known == name), None)

    def names(self, but: str | None = None) -> Iterator[tuple[str, str]]:
        """Ids with their names, of those that somebody looked up, `but` those that the cloud has this word for."""
        known = self._names.items()
        return iter([(cloud_id, name) for cloud_id, name in known if name and self._words[cloud_id] != but])

    def nameless(self) -> Iterator[str]:
        """Ids nobody has looked up yet, newest first."""
        return iter([cloud_id for cloud_id, known in reversed(self._names.items()) if known is None])

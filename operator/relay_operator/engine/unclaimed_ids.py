"""Ids that webhooks named and no object records: an open intent's resource may be among them."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class UnclaimedIds:
    """One account's unowned ids, newest last, with the name once somebody looked. Bounded."""

    limit: int = 1000
    _names: OrderedDict[str, str | None] = field(default_factory=OrderedDict)

    def add(self, cloud_id: str) -> None:
        """A webhook named this id."""
        self._names.setdefault(cloud_id, None)
        self._names.move_to_end(cloud_id)
        while len(self._names) > self.limit:
            self._names.popitem(last=False)

    def learn(self, cloud_id: str, name: str) -> None:
        """Its name, so that it is looked up once however many intents are open."""
        self.add(cloud_id)
        self._names[cloud_id] = name

    def discard(self, cloud_id: str) -> bool:
        """It has an owner, or is gone; tells whether it had been seen."""
        seen = cloud_id in self._names
        self._names.pop(cloud_id, None)
        return seen

    def __contains__(self, cloud_id: object) -> bool:
        return cloud_id in self._names

    def named(self, name: str) -> str | None:
        """The id known by this name."""
        return next((cloud_id for cloud_id, known in self._names.items() if known == name), None)

    def names(self) -> Iterator[tuple[str, str]]:
        """Ids with their names, of those that somebody looked up."""
        return iter([(cloud_id, name) for cloud_id, name in self._names.items() if name])

    def nameless(self) -> Iterator[str]:
        """Ids nobody has looked up yet, newest first."""
        return iter([cloud_id for cloud_id, known in reversed(self._names.items()) if known is None])

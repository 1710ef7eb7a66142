"""Plain data that a failure saves, and that is replayed from its file."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.faultrules import Json


class Saved(ABC):
    """What has a name, after which its file is named."""

    name: str

    @abstractmethod
    def as_json(self) -> Json:
        """A form that `from_json` reads."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Json) -> Self:
        """Reads what `as_json` wrote."""

    def save(self, folder: Path) -> Path:
        """Writes it into the folder and answers the file."""
        name = f"{type(self).__name__.lower()} {self.name}"
        path = folder / f"{name.replace(' ', '-').replace('/', '-')}.json"
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        return cls.from_json(json.loads(path.read_text()))

"""Plain data that a failing test saves to a file, for replay."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.faultrules import Json


class Saved(ABC):
    """Data with a name, from which its file gets its name."""

    name: str

    @abstractmethod
    def as_json(self) -> Json:
        """Returns the data as JSON for `from_json`."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Json) -> Self:
        """Reads what `as_json` returned."""

    def save(self, folder: Path) -> Path:
        """Writes the data to a file in the folder and returns its path."""
        name = f"{type(self).__name__.lower()} {self.name}"
        path = folder / f"{name.replace(' ', '-').replace('/', '-')}.json"
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file that `save` wrote."""
        return cls.from_json(json.loads(path.read_text()))

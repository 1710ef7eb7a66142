"""What was learned of undisturbed runs."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.run import Played


@dataclass(frozen=True)
class Learned:
    """One run of each scenario, played by whichever worker needs it first: a folder shows it to the others."""

    folder: Path
    _runs: dict[str, Played] = field(default_factory=dict)

    def find(self, scenario: str) -> Played | None:
        """None where nobody has played it yet."""
        path = self.folder / f"{scenario}.pickle"
        if scenario not in self._runs and path.exists():
            self._runs[scenario] = pickle.loads(path.read_bytes())
        return self._runs.get(scenario)

    def keep(self, scenario: str, played: Played) -> None:
        """From here on everybody finds it."""
        self._runs[scenario] = played
        written = self.folder / f"{scenario}.{os.getpid()}"
        written.write_bytes(pickle.dumps(played))
        written.rename(self.folder / f"{scenario}.pickle")

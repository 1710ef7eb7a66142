"""Undisturbed runs, shared by all test workers."""

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
    """One undisturbed run of each scenario, played by the first worker that needs it and shared through a folder."""

    folder: Path
    _runs: dict[str, Played] = field(default_factory=dict)

    def find(self, scenario: str) -> Played | None:
        """Returns the run of a scenario; None if no worker has played it yet."""
        path = self.folder / f"{scenario}.pickle"
        if scenario not in self._runs and path.exists():
            self._runs[scenario] = pickle.loads(path.read_bytes())
        return self._runs.get(scenario)

    def keep(self, scenario: str, played: Played) -> None:
        """Saves the run of a scenario for all workers."""
        self._runs[scenario] = played
        written = self.folder / f"{scenario}.{os.getpid()}"
        written.write_bytes(pickle.dumps(played))
        written.rename(self.folder / f"{scenario}.pickle")

"""Undisturbed runs, shared by all test workers."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
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

    def keep(self, scenario: str, played: Played) -> Played:
        """Saves the run of a scenario for all workers, unless another worker was faster; returns the run that counts.

        Each worker plays its share of the plans that it derives, so all of them must derive from the same run.
        """
        path, written = self.folder / f"{scenario}.pickle", self.folder / f"{scenario}.{os.getpid()}"
        written.write_bytes(pickle.dumps(played))
        with suppress(FileExistsError):
            path.hardlink_to(written)
        written.unlink()
        found = self.find(scenario)
        assert found is not None, "it was saved just now"
        return found

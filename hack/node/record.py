"""The record of the node that `python -m hack.node up` starts, by which later commands find and end it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hack.node.node import remove
from tests.support.toolchain import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Record:
    """A node's name, its folder, and when each of its processes began, by process id: only both name one process."""

    name: str
    folder: str
    began: dict[str, str | None]

    @classmethod
    def of(cls, name: str, folder: Path, pids: Iterable[int]) -> Self:
        """Returns the record of a node with these processes, which run."""
        return cls(name, str(folder), {str(pid): _began(str(pid)) for pid in pids})

    @classmethod
    def read(cls) -> Self | None:
        """Returns the saved record; None if no node was started since the last one ended."""
        try:
            return cls(**json.loads(_path().read_text()))
        except FileNotFoundError:
            return None

    def save(self) -> None:
        """Saves the record."""
        _path().write_text(json.dumps(asdict(self)))

    @property
    def runs(self) -> bool:
        """Whether the node is whole: every process lives, and the folder is there."""
        return self._alive == [*self.began] and Path(self.folder).exists()

    def end(self) -> None:
        """Kills what lives of the node and removes its cgroups, its folder and the saved record."""
        for pid in self._alive:
            with contextlib.suppress(ProcessLookupError):  # it may have ended with the one before
                os.kill(int(pid), signal.SIGKILL)
        remove(self.name, Path(self.folder))
        _path().unlink()

    @property
    def _alive(self) -> list[str]:
        return [pid for pid, began in self.began.items() if began is not None and _began(pid) == began]


def _path() -> Path:
    return cache_folder() / "node.json"


def _began(pid: str) -> str | None:
    """Returns when a process began, in ticks since the machine's boot; None if it has ended."""
    try:
        status = Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The fields of proc_pid_stat(5) after the second, the name, which may contain spaces: 3 is the state, 22 the start.
    fields = status.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]

"""A local cloud on a machine whose clock can be set: a real process, which reads the wall's time from us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.server import Server
from tests.support.forked import SHIFTED

if TYPE_CHECKING:
    from pathlib import Path


class Machine:
    """Keeps the state of one cloud, and a clock that differs from the real one by so many seconds."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"
        self._offset = folder / "offset"
        self.set_clock(0)

    def set_clock(self, seconds: int) -> None:
        """Set the clock so many seconds ahead of the real one."""
        other = self._offset.with_suffix(".new")
        other.write_text(str(seconds))
        other.replace(self._offset)  # a cloud that runs may read it at any time

    def start(self) -> Server:
        """The cloud, from where it was."""
        server = Server(("--state", str(self._state)), program=(SHIFTED, str(self._offset)))
        server.start()
        return server

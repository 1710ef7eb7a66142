"""`relay-localcloud`, and in a file the longest that anything held its event loop, in seconds of CPU of that thread.

`python -m tests.localcloud.support.watched FILE serve ...`. CPU, since a busy machine takes time from anybody. It runs
on asyncio's own loop, whose callbacks can be measured.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import time
from asyncio.events import Handle
from pathlib import Path
from typing import Final

from relay_localcloud import serve
from relay_localcloud.__main__ import main

_SECONDS: Final = struct.Struct("d")


class Longest:
    """The figure, shared by the cloud and its test through a file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_SECONDS.pack(0.0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _SECONDS.size)

    def note(self, seconds: float) -> None:
        """This long, just now."""
        if seconds > _SECONDS.unpack_from(self._shared)[0]:
            _SECONDS.pack_into(self._shared, 0, seconds)

    def taken(self) -> float:
        """The longest since this was asked last."""
        (seconds,) = _SECONDS.unpack_from(self._shared)
        _SECONDS.pack_into(self._shared, 0, 0.0)
        return float(seconds)


def _watch(longest: Longest) -> None:
    run = Handle._run  # what asyncio calls for each callback

    def measured(handle: Handle) -> None:
        began = time.thread_time()
        run(handle)
        longest.note(time.thread_time() - began)

    Handle._run = measured  # type: ignore[method-assign, assignment]
    serve.loop_factory = lambda containers: asyncio.new_event_loop  # noqa: ARG005 - a keyword of the original


if __name__ == "__main__":
    _watch(Longest(Path(sys.argv[1])))
    sys.exit(main(sys.argv[2:]))

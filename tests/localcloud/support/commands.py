"""Commands of `relay-localcloud` that end by themselves."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tests.localcloud.support.server import COMMAND
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.forked import CLOUD, POSSIBLE, Forked, cloud

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import IO

    Child = Forked | subprocess.Popen[bytes]


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


async def run(*arguments: str | Path, forked: bool = POSSIBLE) -> Ended:
    """Run `relay-localcloud` with these arguments to its end: a fork of it, or the command as people run it."""
    with TemporaryFile() as out, TemporaryFile() as err:
        child = _begun(arguments, out, err, forked=forked)
        return await asyncio.to_thread(_end_of, child, out, err)


def ran(*arguments: str | Path) -> Ended:
    """The same where nothing has to go on meanwhile."""
    with TemporaryFile() as out, TemporaryFile() as err:
        return _end_of(_begun(arguments, out, err, forked=POSSIBLE), out, err)


def _begun(arguments: Sequence[str | Path], out: IO[bytes], err: IO[bytes], *, forked: bool) -> Child:
    if forked:
        return cloud(CLOUD, *map(str, arguments)).start(None, out.fileno(), err.fileno())
    return subprocess.Popen([COMMAND, *arguments], stdout=out, stderr=err)


def _end_of(child: Child, out: IO[bytes], err: IO[bytes]) -> Ended:
    try:
        return Ended(child.wait(PATIENCE_SECONDS), _written(out), _written(err))
    finally:
        child.kill()


def _written(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()

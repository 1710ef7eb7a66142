"""Child processes that a test can kill and restart, and that by default do not outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support import forked
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

# Below Linux's range for outgoing connections (from 32768): no client can get a server's port while that is down.
_PORTS = range(20000, 32000)
_RESERVED: list[socket.socket] = []
"""For every port handed out, a socket on the UDP port of the same number, held until this process ends."""


class StartError(Exception):
    """A process did not become ready; the text ends with the last lines of its log."""


def free_port(ports: range = _PORTS) -> int:
    """Returns a free TCP port of 127.0.0.1 that no outgoing connection uses.

    While this process lives, no other call returns it, in this or in any other test run: a server that listens later,
    or again, finds it free. Raises StartError if none is found.
    """
    for port in random.sample(ports, min(len(ports), 200)):
        reservation = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                reservation.bind(("127.0.0.1", port))
                probe.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
        _RESERVED.append(reservation)
        return port
    raise StartError(f"found no free port among {ports.start}..{ports.stop - 1}")


def tail(path: Path, lines: int = 25) -> str:
    """Returns the last lines of a log file; empty if there is no file."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


async def _always() -> bool:
    return True


@dataclass
class Process:
    """One server process: its command line, its log, and a check that it is ready.

    `ready` is called until it returns True. The process dies with its parent unless `outlives_parent`. With `program`,
    a fork runs instead of `argv` if the platform allows it.
    Call `start` from the main thread: the kernel ends the process together with the thread that started it.
    """

    name: str
    argv: Sequence[str]
    log: Path
    ready: Callable[[], Awaitable[bool]] = _always
    env: Mapping[str, str] | None = None
    stdout: Path | None = None
    start_within: float = PATIENCE_SECONDS
    outlives_parent: bool = False
    program: forked.Program | None = None
    _child: subprocess.Popen[bytes] | forked.Forked | None = field(default=None, init=False, repr=False)

    @property
    def pid(self) -> int:
        """The process id; raises StartError if the process was never started."""
        if self._child is None:
            raise StartError(f"{self.name} was never started")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal that ended it); None while it is alive or if it was never started."""
        return None if self._child is None else self._child.poll()

    def spawn(self) -> None:
        """Starts the process without waiting for it and appends to its log; raises StartError if it is running."""
        if self.running:
            raise StartError(f"{self.name} is running already (pid {self.pid})")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log, (self.stdout or self.log).open("ab") as out:
            if self.program is not None and forked.POSSIBLE:
                self._child = self.program.start(self.env, out.fileno(), log.fileno())
                return
            self._child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=self.env,
                start_new_session=True,  # Ctrl-C reaches only the parent, which ends its children in order.
                preexec_fn=None if self.outlives_parent else forked.die_with_parent,  # noqa: PLW1509  one system call
            )

    async def start(self) -> None:
        """Starts the process and waits until it is ready; raises StartError with the end of its log."""
        self.spawn()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Waits until the process is ready; raises StartError if it ends first, or takes too long and is killed."""
        deadline = time.monotonic() + self.start_within
        while not await self.ready():
            if not self.running:
                raise StartError(self._why(f"ended with exit code {self.exit_code} before it was ready"))
            if time.monotonic() > deadline:
                await self.kill()
                raise StartError(self._why(f"was not ready after {self.start_within:g} s"))
            await asyncio.sleep(0.05)
        if not self.running:
            raise StartError(self._why(f"ended with exit code {self.exit_code}"))

    async def kill(self) -> None:
        """Sends SIGKILL and waits up to 10 seconds for the end; does nothing if the process has ended."""
        await self._signal(self._child, signal.SIGKILL)

    async def stop(self, within: float = 15.0) -> int | None:
        """Sends SIGTERM, then SIGKILL after `within` seconds; returns the exit code.

        A process that `start` makes meanwhile is not touched.
        """
        child = self._child
        await self._signal(child, signal.SIGTERM, within)
        await self._signal(child, signal.SIGKILL)
        return None if child is None else child.poll()

    def end_now(self) -> None:
        """Sends SIGKILL and waits for the end, from code that cannot await."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait(timeout=PATIENCE_SECONDS)

    async def until_ended(self, within: float = PATIENCE_SECONDS) -> int:
        """Waits for the end and returns the exit code; raises TimeoutError, or StartError if it was never started."""
        async with asyncio.timeout(within):
            while self.running:  # noqa: ASYNC110  a child process sets no event
                await asyncio.sleep(0.02)
        code = self.exit_code
        if code is None:
            raise StartError(f"{self.name} was never started")
        return code

    async def _signal(
        self, child: subprocess.Popen[bytes] | forked.Forked | None, number: signal.Signals, within: float = 10.0
    ) -> None:
        if child is None or child.poll() is not None:
            return
        child.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while child.poll() is None:  # noqa: ASYNC110  a child process sets no event
                    await asyncio.sleep(0.02)

    def _why(self, what: str) -> str:
        return f"{self.name} {what}. Its log {self.log} ends:\n{tail(self.log)}"

"""kubectl, as people run it."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support import forked
from tests.support.binaries import kubectl
from tests.support.eventually import PATIENCE_SECONDS


@dataclass(frozen=True)
class Ran:
    """The output and exit code of a command."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with a kubeconfig, in a namespace."""

    kubeconfig: Path
    namespace: str = "default"
    ran: list[str] = field(default_factory=list)
    """Every command, also those of copies of this that another user runs."""

    async def __call__(self, *arguments: str, stdin: str = "", within: float = PATIENCE_SECONDS) -> str:
        """Returns kubectl's standard output; raises AssertionError with its errors if it fails."""
        ran = await self.attempt(*arguments, stdin=stdin, within=within)
        if ran.exit_code:
            raise AssertionError(f"kubectl {' '.join(arguments)} ended with {ran.exit_code}:\n{ran.stderr}")
        return ran.stdout

    async def attempt(self, *arguments: str, stdin: str = "", within: float = PATIENCE_SECONDS) -> Ran:
        """Returns kubectl's output and exit code, for commands that may fail."""
        return await self._ran([str(kubectl()), "--namespace", self.namespace, *arguments], stdin, within)

    async def relay(self, command: str, *arguments: str, stdin: str = "", within: float = PATIENCE_SECONDS) -> Ran:
        """Runs `kubectl relay COMMAND` in the namespace: a fork of the plugin if the platform allows it."""
        words = (command, "--namespace", self.namespace, *arguments)
        if not forked.POSSIBLE:
            return await self._ran([str(kubectl()), "relay", *words], stdin, within)
        self.ran.append(shlex.join(("kubectl", "relay", *words)))
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as log:
            given.write(stdin.encode())
            given.seek(0)
            plugin = forked.cli(*words).start(self._env(), out.fileno(), log.fileno(), given.fileno())
            try:
                exit_code = await asyncio.to_thread(plugin.wait, within)
            finally:
                plugin.kill()
            return Ran(exit_code, *(_told(file) for file in (out, log)))

    async def shell(self, command: str, within: float = PATIENCE_SECONDS) -> str:
        """Runs a shell command with this kubectl and the operator's programs on PATH; returns its standard output.

        Raises AssertionError if the command is empty or fails.
        """
        if not command.strip():
            raise AssertionError("no command to run")
        ran = await self._ran(["bash", "-euo", "pipefail", "-c", command], "", within)
        if ran.exit_code:
            raise AssertionError(f"{command} ended with {ran.exit_code}:\n{ran.stderr}")
        return ran.stdout

    async def _ran(self, command: list[str], stdin: str, within: float) -> Ran:
        self.ran.append(shlex.join(command))
        env = self._env()

        def run() -> Ran:
            done = subprocess.run(
                command, input=stdin, env=env, capture_output=True, text=True, timeout=within, check=False
            )
            return Ran(done.returncode, done.stdout, done.stderr)

        return await asyncio.to_thread(run)

    def _env(self) -> dict[str, str]:
        path = os.pathsep.join((str(kubectl().parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        # It lives too briefly for its garbage to matter.
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "PATH": path, "GOGC": "off"}


def _told(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()

"""kubectl, as people run it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.binaries import kubectl

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Ran:
    """What a command said, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with a kubeconfig, in a namespace."""

    kubeconfig: Path
    namespace: str = "default"

    async def __call__(self, *arguments: str, stdin: str = "", within: float = 60.0) -> str:
        """Its standard output; raises AssertionError with what it said where it failed."""
        ran = await self.attempt(*arguments, stdin=stdin, within=within)
        if ran.exit_code:
            raise AssertionError(f"kubectl {' '.join(arguments)} ended with {ran.exit_code}:\n{ran.stderr}")
        return ran.stdout

    async def attempt(self, *arguments: str, stdin: str = "", within: float = 60.0) -> Ran:
        """The same where a refusal is what is wanted."""
        command = [str(kubectl()), "--namespace", self.namespace, *arguments]
        env = os.environ | {"KUBECONFIG": str(self.kubeconfig)}

        def run() -> Ran:
            done = subprocess.run(
                command, input=stdin, env=env, capture_output=True, text=True, timeout=within, check=False
            )
            return Ran(done.returncode, done.stdout, done.stderr)

        return await asyncio.to_thread(run)

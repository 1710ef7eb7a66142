"""`make dev`: what runs in front of whoever works on the code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from tests.support.controlplane import ControlPlane


async def test_a_program_whose_code_changes_starts_again(private_controlplane: ControlPlane) -> None:
    env = os.environ | {"RELAY_TEST_KUBECONFIG": str(private_controlplane.kubeconfig)}
    command = [sys.executable, "-u", "-m", "hack.dev"]
    dev = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, env=env, stdout=PIPE, stderr=STDOUT)

    async def said(words: str) -> None:
        assert dev.stdout is not None
        told = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while words not in told.decode():
                line = await dev.stdout.readline()
                assert line, told.decode()
                told += line

    try:
        await said("apply -f examples/")
        for package in ("relay_localcloud", "relay_operator"):
            (REPOSITORY / "operator" / package / "py.typed").touch()
            await said(f"operator/{package}/py.typed has changed")
            await said("is running again")
        dev.send_signal(signal.SIGINT)
        await said("everything has ended")
        assert await dev.wait() == 0
    finally:
        if dev.returncode is None:
            dev.terminate()
            await dev.wait()

"""Processes that tests start end when they should, and say why when they do not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import forked
from tests.support.eventually import eventually
from tests.support.process import Process, StartError, free_port

if TYPE_CHECKING:
    from pathlib import Path

_SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(300)"]
_PARENT = """
import asyncio, pathlib, sys, time
from tests.support.process import Process
child = Process("child", [sys.executable, "-c", "import time; time.sleep(300)"], pathlib.Path(sys.argv[1]))
asyncio.run(child.start())
print(child.pid, flush=True)
time.sleep(300)
"""

_FORKING_PARENT = """
import pathlib, sys, time
from tests.support.forked import Loaded, Program
from tests.support.process import Process
program = Program(Loaded("tests.unit.harness.sleeper"), "tests.unit.harness.sleeper", ("300",))
child = Process("child", [], pathlib.Path(sys.argv[1]), program=program)
child.spawn()
print(child.pid, flush=True)
time.sleep(300)
"""
_LOADED = forked.Loaded("tests.unit.harness.sleeper")


def _forked(tmp_path: Path, seconds: str, **env: str) -> Process:
    program = forked.Program(_LOADED, "tests.unit.harness.sleeper", (seconds,))
    return Process("sleeper", [], tmp_path / "log", env=env, program=program)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(said.strip()) and not said.startswith("Z")


async def test_a_killed_process_is_started_again_on_the_same_command(tmp_path: Path) -> None:
    process = Process("sleeper", _SLEEPER, tmp_path / "log")
    await process.start()
    first = process.pid
    await process.kill()
    assert process.exit_code == -signal.SIGKILL
    await process.start()
    assert process.pid != first
    await process.stop()
    assert not process.running


async def test_a_process_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    argv = [sys.executable, "-c", "import sys; sys.exit('the port is taken')"]
    with pytest.raises(StartError, match=r"exit code 1 before it was ready(.|\n)*the port is taken"):
        await Process("server", argv, tmp_path / "log", ready=never).start()


async def test_what_is_forked_can_be_killed_started_again_and_stopped(tmp_path: Path) -> None:
    process = _forked(tmp_path, "300")
    process.spawn()
    first = process.pid
    assert os.getpgid(first) == first
    assert process.exit_code is None
    await process.kill()
    assert process.exit_code == -signal.SIGKILL
    assert not _alive(first)
    process.spawn()
    assert process.pid != first
    assert await process.stop() == -signal.SIGTERM


async def test_what_is_forked_has_its_own_environment_log_and_exit_code(tmp_path: Path) -> None:
    process = _forked(tmp_path, "0", SLEEPER="the port is taken")
    process.spawn()
    assert await process.until_ended() == 3
    assert process.log.read_text().splitlines() == ["SLEEPER=the port is taken", "0 seconds"]


async def test_what_is_forked_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    child = _child_of_a_killed_parent(tmp_path / "log", _FORKING_PARENT)

    async def gone() -> bool:
        return not _alive(child)

    await eventually(gone)


def _child_of_a_killed_parent(log: Path, program: str = _PARENT) -> int:
    with subprocess.Popen([sys.executable, "-c", program, str(log)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _alive(child)
        parent.kill()
    return child


async def test_a_process_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    child = _child_of_a_killed_parent(tmp_path / "log")

    async def gone() -> bool:
        return not _alive(child)

    await eventually(gone)


async def test_what_never_comes_true_is_told_with_what_was_seen_last() -> None:
    async def look() -> dict[str, int]:
        return {"replicas": 1}

    with pytest.raises(AssertionError, match=r"two replicas did not come true within 0.2 s(.|\n)*'replicas': 1"):
        await eventually(look, lambda seen: seen["replicas"] == 2, within=0.2, what="two replicas")


def test_a_free_port_is_given_to_nobody_else_here_or_in_a_test_run_beside() -> None:
    given = free_port()
    with pytest.raises(StartError, match="no free port"):
        free_port(range(given, given + 1))
    beside = f"from tests.support.process import free_port; free_port(range({given}, {given + 1}))"
    ended = subprocess.run([sys.executable, "-c", beside], capture_output=True, text=True, check=False)
    assert "StartError: found no free port" in ended.stderr

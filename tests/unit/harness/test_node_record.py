"""`make node-down` ends what is left of the node, and nothing else."""

from __future__ import annotations

import secrets
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hack.node.record import Record
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = f"test-{secrets.token_hex(4)}"
_SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]
_KILLED = -9


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The three processes of a node, so to speak."""
    started = [subprocess.Popen(_SLEEPER) for _ in range(3)]
    yield started
    for each in started:
        each.kill()
        each.wait()


@pytest.fixture
def record(sleepers: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """The saved record of a node with these processes, in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "node" / "log").mkdir(parents=True)
    saved = Record.of(_NAME, tmp_path / "node", [each.pid for each in sleepers])
    saved.save()
    return saved


def down() -> str:
    command = [sys.executable, "-m", "hack.node", "down"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_node_ends_with_its_folder_and_its_record(
    record: Record, sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    assert Record.read() == record
    assert record.runs
    assert down() == "the node has ended"
    assert [each.wait() for each in sleepers] == [_KILLED] * 3
    assert not (tmp_path / "node").exists()
    assert down() == "no node is up"


@pytest.mark.parametrize("which", range(3))
def test_a_node_of_which_one_process_has_died_does_not_run_and_the_others_end(
    record: Record, sleepers: list[subprocess.Popen[bytes]], tmp_path: Path, which: int
) -> None:
    sleepers[which].terminate()
    sleepers[which].wait()
    assert not record.runs
    assert down() == "the node has ended"
    assert [each.wait() for each in sleepers].count(_KILLED) == 2
    assert not (tmp_path / "node").exists()


def test_a_process_that_has_the_id_of_one_that_ended_lives_on(
    record: Record, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    reused = str(sleepers[0].pid)
    replace(record, began={**record.began, reused: "1"}).save()
    assert down() == "the node has ended"
    assert [each.wait() for each in sleepers[1:]] == [_KILLED] * 2
    assert sleepers[0].poll() is None


def test_a_record_goes_though_the_folder_is_gone(
    record: Record, sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    (tmp_path / "node" / "log").rmdir()
    (tmp_path / "node").rmdir()
    assert not record.runs
    assert down() == "the node has ended"
    assert [each.wait() for each in sleepers] == [_KILLED] * 3
    assert Record.read() is None

"""What a long run says of itself: no dot a test, failures at once, and pytest's own last line."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(30))
def test_holds(number):
    pass

def test_breaks():
    assert {"it": "broke"} == {}
"""


def run(folder: Path, *more: str) -> list[str]:
    """The lines of a run with progress."""
    (folder / "one").mkdir()
    (folder / "one" / "test_it.py").write_text(TESTS)
    plugin = ["-p", "tests.support.progress", "-p", "no:cacheprovider", "--rootdir", str(folder), "--progress"]
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", *plugin, *more, str(folder / "one")]
    # Plugins that such a run has no use for take seconds to import.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=alone, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_it_tells_what_is_done_and_fails_and_ends_as_pytest_does(tmp_path: Path) -> None:
    lines = run(tmp_path)
    failure, done = _place(lines, "E       AssertionError: assert {'it': 'broke'} == {}"), _place(lines, "31/31")
    assert failure < done
    assert lines[done].split()[1:] == ["31/31", "1", "failed", "one/test_it.py", "done"]
    assert not [line for line in lines if line.startswith("....")]
    (summary,) = [line for line in lines if line.startswith("FAILED ")]
    assert "one/test_it.py::test_breaks" in summary
    assert "1 failed, 30 passed" in lines[-1]


def test_it_tells_the_same_of_workers(tmp_path: Path) -> None:
    lines = run(tmp_path, "-p", "xdist", "-n", "2")
    assert _place(lines, "E       AssertionError: assert {'it': 'broke'} == {}") < _place(lines, "31/31")
    assert "1 failed, 30 passed" in lines[-1]


def _place(lines: list[str], part: str) -> int:
    """The line that has this part; exactly one does."""
    [place] = [number for number, line in enumerate(lines) if part in line]
    return place

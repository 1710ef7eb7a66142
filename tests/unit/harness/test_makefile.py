"""Targets of the Makefile, with programs that only note that they ran."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("failing", "status"), [("", 0), ("-m long or every_run --ignore=tests/faults", 2), ("--dist worksteal", 2)]
)
def test_every_part_of_the_long_tests_runs_and_one_that_fails_fails_them_all(
    tmp_path: Path, failing: str, status: int
) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "pytest").write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/ran\ncase "$*" in *"{failing or "nothing"}"*) exit 1;; esac\n'
    )
    for program in ("python", "pytest"):
        (tmp_path / program).chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    made = ["make", "--old-file=.venv/.installed", f"BIN={tmp_path}", "SEED=1", "test-long"]
    done = subprocess.run(made, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == status, done.stderr
    assert len((tmp_path / "ran").read_text().splitlines()) == 3

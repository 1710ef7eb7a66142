"""Puts a bug into a copy of the operator: a patch from the folder `planted`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

PATCHES: Final = Path(__file__).parent / "planted"
_PACKAGES: Final = ("relay_operator", "relay_client", "relay_kube", "relay_wire")


def planted(name: str, folder: Path) -> Path:
    """A copy of the operator with this bug in it."""
    for package in _PACKAGES:
        shutil.copytree(REPOSITORY / "operator" / package, folder / "operator" / package)
    apply(name, folder)
    return folder / "operator"


def apply(name: str, folder: Path, *options: str) -> None:
    """The patch, to the copy in this folder; with `--check` it is only seen to fit."""
    command = ["git", "apply", "--verbose", *options, str(PATCHES / f"{name}.patch")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, (
        f"{name}.patch does not apply any more: make its change again in the code as it is now, and save `git diff`\n"
        + done.stderr
    )

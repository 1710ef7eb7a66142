"""Plants a bug into a copy of the operator: applies a patch of the folder `planted`."""

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
    """Copies the operator into a folder, plants the bug, and returns the copy's source root."""
    for package in _PACKAGES:
        shutil.copytree(REPOSITORY / "operator" / package, folder / "operator" / package)
    apply(name, folder)
    return folder / "operator"


def apply(name: str, folder: Path, *options: str) -> None:
    """Applies the patch in a folder, or with `--check` only tries to; asserts that it fits."""
    command = ["git", "apply", "--verbose", *options, str(PATCHES / f"{name}.patch")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, (
        f"{name}.patch does not apply any more: make its change again in the code as it is now, and save `git diff`\n"
        + done.stderr
    )

"""Packages that conflict with the installed ones: each lock file has its own folder, for a process's PYTHONPATH."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.toolchain import REPOSITORY, cache_folder, locked

OPENAI_2 = REPOSITORY / "requirements" / "openai2.txt"
"""The OpenAI client before its move to httpx2, which many still use."""

_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:")


class InstallError(Exception):
    """Packages could not be installed; the text ends with the installer's output."""


def packages_of(lock_file: Path) -> Path:
    """Returns the folder with the packages of a lock file; installs them if needed. Raises InstallError."""
    digest = hashlib.sha256(f"{platform.python_version()}/{platform.system()}/{platform.machine()}".encode())
    digest.update(lock_file.read_bytes())
    folder = cache_folder() / f"{lock_file.stem}-{digest.hexdigest()[:16]}"
    if folder.exists():
        return folder
    with locked(folder.with_name(f"{folder.name}.lock"), lock_file.stem):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="installing-") as scratch:
                _install(lock_file, Path(scratch, "packages")).rename(folder)
    return folder


def _install(lock_file: Path, target: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *_OPTIONS,
        "--target",
        str(target),
        "--requirement",
        str(lock_file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise InstallError(
            f"The packages of {lock_file} could not be installed: "
            f"make the package index reachable. pip said:\n{done.stderr.strip()}"
        )
    return target

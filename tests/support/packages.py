"""Packages that cannot be installed beside the others: in folders of their own, for the PYTHONPATH of a process."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.toolchain import REPOSITORY, cache_folder, locked

OPENAI_2 = REPOSITORY / "requirements" / "openai2.txt"
"""The client before its move to httpx2, which many still use."""

_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:")


class InstallError(Exception):
    """The packages of a lock file could not be installed; the text ends with what pip said."""


def packages_of(lock_file: Path) -> Path:
    """The folder that holds the packages of a lock file; they are installed now if they were not before."""
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

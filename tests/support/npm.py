"""Fetches npm packages, each verified against its pinned hash."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
from typing import TYPE_CHECKING

from tests.support.azurite_install import node_and_npm
from tests.support.packages import InstallError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_SECONDS = 600
REMEDY = "make npm's registry reachable"


def unpacked(package: str, sha512: str, scratch: Path, remedy: str = REMEDY) -> Path:
    """Fetches a package (`name@version`) into a scratch folder and returns the folder of its content.

    `sha512` is its integrity in Base64, as `npm view` prints it (`dist.integrity`). Raises InstallError.
    """
    _, npm = node_and_npm()
    run([*npm, "pack", package, "--silent", "--pack-destination", str(scratch)], scratch, package, remedy)
    (archive,) = scratch.glob("*.tgz")
    with archive.open("rb") as content:
        digest = base64.b64encode(hashlib.file_digest(content, "sha512").digest()).decode()
    if digest != sha512:
        raise InstallError(f"{package} from npm is not what it was when it was pinned: its SHA-512 is {digest}.")
    unpack(archive, scratch)
    return scratch / "package"


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar file into a folder."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")


def run(command: list[str], folder: Path, package: str, remedy: str = REMEDY) -> None:
    """Runs a command that installs a package; raises InstallError with its output if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_MOST_SECONDS, check=False)
    if done.returncode:
        raise InstallError(
            f"{package} could not be installed: {remedy}. `{command[0]}` said:\n"
            f"{done.stderr.strip() or done.stdout.strip()}"
        )

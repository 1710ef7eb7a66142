"""Builds the folder of a release: wheels, charts, a bill of materials, notes, and checksums."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import yaml

from tests.support.binaries import helm
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = REPOSITORY / "dist" / "release"
CHARTS: Final = tuple(REPOSITORY / "charts" / name for name in ("relay-operator", "relay-localcloud"))
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


class ReleaseError(Exception):
    """The release cannot be built or fails a check; the text says why."""


@dataclass(frozen=True)
class Package:
    """The files of a release and the environment that its wheel is installed in."""

    version: str
    wheel: Path
    charts: tuple[Path, ...]
    """One per entry of CHARTS, in that order."""
    contents: Path
    """The bill of materials of `environment`, in CycloneDX."""
    environment: Path


def packaged(tag: str | None, scratch: Path) -> Package:
    """Rebuilds FOLDER from nothing. Raises ReleaseError, also if `tag` is not `v` and the version.

    Without a tag, the notes are the changelog's section Unreleased.
    """
    version = _version()
    if tag not in {None, f"v{version}"}:
        raise ReleaseError(f"the tag {tag} is not that of the version {version} in pyproject.toml")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    notes = _notes("Unreleased" if tag is None else version)
    (FOLDER / "NOTES.md").write_text(notes)
    wheel = _wheel()
    environment = installed(wheel, "operator", scratch / "operator")
    contents = FOLDER / f"relay-operator-{version}.cdx.json"
    _list_contents(environment, contents)
    run(str(helm()), "package", *map(str, CHARTS), "--destination", str(FOLDER))
    charts = tuple(FOLDER / f"{chart.name}-{version}.tgz" for chart in CHARTS)
    _sum_up()
    return Package(version, wheel, charts, contents, environment)


def installed(wheel: Path, requirements: str, folder: Path) -> Path:
    """Installs the wheel with exactly the pinned requirements in a new environment and returns its folder."""
    venv.create(folder, with_pip=False, symlinks=True)
    locked = REPOSITORY / "requirements" / f"{requirements}.txt"
    pip = (*_PIP, "--python", str(folder / "bin" / "python"), "install")
    run(*pip, "--only-binary=:all:", "--require-hashes", "--requirement", str(locked))
    run(*pip, "--no-deps", str(wheel))
    return folder


def run(*command: str, **environment: str) -> str:
    """Runs a command and returns its stdout and stderr; raises ReleaseError with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(command)}` failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout + done.stderr


def _version() -> str:
    """Returns the version that the package and the charts share; raises ReleaseError if they differ."""
    package: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    for chart, where in product(CHARTS, ("version", "appVersion")):
        card = yaml.safe_load((chart / "Chart.yaml").read_text())
        if card[where] != package:
            raise ReleaseError(f"Chart.yaml of {chart.name} has the {where} {card[where]}, pyproject.toml {package}")
    return package


def _wheel() -> Path:
    """Builds both wheels into FOLDER and returns the operator's; the other one is the local cloud alone."""
    distributions = (str(REPOSITORY), str(REPOSITORY / "distributions" / "localcloud"))
    run(*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(FOLDER), *distributions)
    (wheel,) = FOLDER.glob("relay_operator-*.whl")
    return wheel


def _list_contents(environment: Path, target: Path) -> None:
    command = (sys.executable, "-m", "cyclonedx_py", "environment", str(environment / "bin" / "python"))
    about = ("--pyproject", str(REPOSITORY / "pyproject.toml"), "--mc-type", "application")
    run(*command, *about, "--output-reproducible", "--validate", "--output-file", str(target))


def _notes(section: str) -> str:
    """Returns the text of one section of the changelog; raises ReleaseError if it is missing."""
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[{re.escape(section)}\].*?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{section}]")
    return found[1].strip() + "\n"


def _sum_up() -> None:
    files = sorted(FOLDER.iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (FOLDER / "SHA256SUMS").write_text("".join(lines))

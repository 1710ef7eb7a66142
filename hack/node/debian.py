"""Root file systems from Debian packages, as the base of the node and of images where no image registry exists."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hack.node.archive import write_image
from tests.support.toolchain import BuildError, cache_folder, locked

_RELEASE: Final = "bookworm"
_NODE: Final = ("runc", "nftables", "iproute2", "procps", "curl", "ca-certificates", "buildah")
_PYTHON: Final = (
    "python3.11",
    "python3.11-venv",
    "python3-pip",
    "python3-distutils",
    "netbase",
    "tzdata",
    "ca-certificates",
)
_SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
_UNREAD: Final = ("doc", "man", "locale", "info")
"""Folders of /usr/share that nothing reads."""
BASE_IMAGE: Final = "localhost/python:3.11-slim"
"""The image that replaces the Dockerfile's base, since no registry may be reachable."""
_PATH: Final = "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 1800.0


def node_root() -> Path:
    """Returns the root file system of a node; built once per machine. Raises BuildError."""
    return _rooted("node-root", _NODE)


def python_image() -> Path:
    """Returns the base image as a docker-archive; built once per machine from Debian's Python. Raises BuildError."""
    root = _rooted("python-root", _PYTHON)
    target = root.with_name(f"{root.name}.tar")
    with locked(target.with_suffix(".lock"), target.name):
        if not target.exists():
            _as_the_official_image(root)
            config = {"Cmd": ["python3"], "Env": [_PATH, "LANG=C.UTF-8"]}
            write_image(root, target, BASE_IMAGE, config)
    return target


def _rooted(name: str, packages: tuple[str, ...]) -> Path:
    digest = hashlib.sha256(" ".join((_RELEASE, *packages)).encode()).hexdigest()[:16]
    target = cache_folder() / f"{name}-{digest}"
    with locked(target.with_suffix(".lock"), target.name):
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(dir=cache_folder(), prefix="laying-"))
            try:
                _lay(scratch / "root", packages)
                (scratch / "root").rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def _lay(root: Path, packages: tuple[str, ...]) -> None:
    program = _mmdebstrap()
    options = ["--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(('usr-is-merged', *packages))}"]
    hooks = program.resolve().parent.parent / "share" / "mmdebstrap" / "hooks"
    options += [f"--hook-dir={hooks / 'merged-usr'}"]  # usr-is-merged instead of usrmerge keeps Perl out
    options += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Check-Valid-Until "false"']
    options += [f"--dpkgopt=path-exclude=/usr/share/{unread}/*" for unread in _UNREAD]
    _run(
        [str(program), *options, _RELEASE, str(root), str(_SOURCES)],
        env={"TMPDIR": str(root.parent), "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    for emptied in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
        for path in (root / emptied).glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _mmdebstrap() -> Path:
    """Returns mmdebstrap from PATH, else unpacks it from its Debian package (it is one Perl script)."""
    found = shutil.which("mmdebstrap")
    if found is not None:
        return Path(found)
    target = cache_folder() / "mmdebstrap"
    with locked(target.with_suffix(".lock"), target.name):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="fetching-") as scratch:
                _download("mmdebstrap", Path(scratch))
                (package,) = Path(scratch).glob("mmdebstrap_*.deb")
                _run(["dpkg-deb", "--extract", str(package), f"{scratch}/root"])
                (Path(scratch) / "root").rename(target)
    return target / "usr" / "bin" / "mmdebstrap"


def _download(package: str, folder: Path) -> None:
    """Downloads a Debian package into a folder; if that fails, updates the package lists first."""
    try:
        _run(["apt-get", "download", package], folder=folder)
    except BuildError:
        _run(["apt-get", "update", "--quiet"])
        _run(["apt-get", "download", package], folder=folder)


def _as_the_official_image(root: Path) -> None:
    """Makes the root resemble the official Python image.

    `python` and `pip` are in /usr/local/bin, pip may install packages; bytecode, unused parts of the library, and
    package sources are removed.
    """
    for name in ("python", "python3", "python3.11"):
        _link(root / "usr/local/bin" / name, "/usr/bin/python3.11")
    _link(root / "usr/local/bin/pip", "/usr/bin/pip3")
    library = root / "usr/lib/python3.11"
    for path in (
        library / "EXTERNALLY-MANAGED",
        root / "etc/resolv.conf",
        root / "etc/hostname",
        *(root / "etc/apt/sources.list.d").glob("*"),
    ):
        path.unlink(missing_ok=True)
    unused = ("lib2to3", "pydoc_data", "test", "idlelib")
    for folder in (*root.rglob("__pycache__"), *(library / name for name in unused), *root.glob("usr/lib/*/gconv")):
        shutil.rmtree(folder, ignore_errors=True)


def _link(path: Path, to: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def _run(command: list[str], *, folder: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | (env or {}), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise BuildError(f"`{command[0]}` failed:\n{(done.stdout + done.stderr)[-2000:]}")

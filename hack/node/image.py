"""Builds the Dockerfile's targets with the buildah of a node's root file system, on Debian's Python."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from hack.node.debian import BASE_IMAGE, node_root, python_image
from tests.support.toolchain import REPOSITORY, BuildError, cache_folder, locked

TARGETS: Final = {"operator": "relay-operator:0.1.0", "localcloud": "relay-localcloud:0.1.0"}
"""The Dockerfile's targets and the names of their images."""
_SECONDS: Final = 1800.0
_PIP: Final = (Path("/etc/pip.conf"), Path.home() / ".config" / "pip" / "pip.conf")


@cache
def built(target: str) -> Path:
    """Builds a target once in a process and returns it as a docker-archive; reuses layers that did not change.

    Raises BuildError.
    """
    work = cache_folder() / "images"
    for folder in ("upper", "work", "root", "containers", "out"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    # The machine's pip configuration is mounted during the build only: the image must not contain it.
    (work / "pip.conf").write_text("".join(path.read_text() for path in _PIP if path.exists()))
    (work / "out" / "python.tar").unlink(missing_ok=True)
    os.link(python_image(), work / "out" / "python.tar")
    with locked(work / "lock", f"the image {target}"):
        names = (target, TARGETS[target], BASE_IMAGE)
        script = Path(__file__).with_name("image.sh")
        folders = (str(node_root()), str(REPOSITORY), str(work))
        command = ["unshare", "--mount", "--propagation", "private", "bash", str(script), *folders, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            raise BuildError(f"the image {target} could not be built:\n{(done.stdout + done.stderr)[-3000:]}")
    return work / "out" / f"{target}.tar"

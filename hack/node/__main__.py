"""`python -m hack.node up|down|image`: a node that outlives the command, and the images for it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from hack.node import image
from hack.node.node import Node, remove
from tests.support.process import StartError
from tests.support.toolchain import BuildError, cache_folder

_NAME = "relay"


def _record() -> Path:
    return cache_folder() / "node.json"


async def _up() -> str:
    """Starts a node that outlives this process, unless one is up; returns the path of its kubeconfig."""
    recorded = _recorded()
    if recorded is not None:
        return str(Path(str(recorded["folder"]), "kubeconfig"))
    images = [image.built(target) for target in image.TARGETS]
    node = await Node.start(_NAME, images, outlives_parent=True)
    pids = [node.pid, node.init.pid, node.forwarding.pid]
    _record().write_text(json.dumps({"folder": str(node.folder), "pids": pids}))
    return str(node.kubeconfig)


def _down() -> str:
    recorded = _recorded()
    if recorded is None:
        _record().unlink(missing_ok=True)
        return "no node is up"
    for pid in recorded["pids"]:
        os.kill(pid, signal.SIGKILL)
    remove(_NAME, Path(recorded["folder"]))
    _record().unlink()
    return "the node has ended"


def _recorded() -> dict[str, Any] | None:
    """Returns the folder and process ids of the node that `up` started; None if it no longer runs."""
    try:
        recorded: dict[str, Any] = json.loads(_record().read_text())
    except FileNotFoundError:
        return None
    runs = all(Path(f"/proc/{pid}").exists() for pid in recorded["pids"])
    return recorded if runs and Path(recorded["folder"]).exists() else None


def main() -> int:
    """`up` prints the path of the kubeconfig; `down` ends the node; `image` prints the paths of the images."""
    parser = argparse.ArgumentParser(prog="python -m hack.node", description=main.__doc__)
    parser.add_argument("command", choices=["up", "down", "image"])
    command = parser.parse_args().command
    try:
        if command == "image":
            answer = "\n".join(str(image.built(target)) for target in image.TARGETS)
        else:
            answer = asyncio.run(_up()) if command == "up" else _down()
    except (BuildError, StartError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    sys.stdout.write(f"{answer}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

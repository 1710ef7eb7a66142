"""`python -m hack.node up|down|image`: a node that outlives the command, and the images for it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from hack.node import image
from hack.node.node import Node
from hack.node.record import Record
from tests.support.process import StartError
from tests.support.toolchain import BuildError

_NAME = "relay"


async def _up() -> str:
    """Starts a node that outlives this process, unless one is up; returns the path of its kubeconfig."""
    known = Record.read()
    if known is not None and known.runs:
        return str(Path(known.folder, "kubeconfig"))
    _down()
    images = [image.built(target) for target in image.TARGETS]
    node = await Node.start(_NAME, images, outlives_parent=True)
    Record.of(_NAME, node.folder, [node.pid, node.init.pid, node.forwarding.pid]).save()
    return str(node.kubeconfig)


def _down() -> str:
    """Ends the node, or what is left of it."""
    known = Record.read()
    if known is None:
        return "no node is up"
    known.end()
    return "the node has ended"


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

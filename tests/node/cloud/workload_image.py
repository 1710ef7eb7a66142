"""What the containers of these tests run: a static program, alone in its image."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hack.node.archive import write_image
from tests.support.toolchain import built_folder, cache_folder

IMAGE: Final = "localhost/workload:1"


def workload_image() -> Path:
    """The image as a docker-archive. Raises BuildError."""
    folder = built_folder(Path(__file__).with_name("workload"), "workload", (".",))
    archive = cache_folder() / f"{folder.parent.name}.tar"
    write_image(folder, archive, IMAGE, {"Entrypoint": ["/workload"], "Env": ["PORT=80"]})
    return archive

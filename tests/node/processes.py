"""The processes of Pods, as the machine below the node sees them: they can be frozen and killed there."""

from __future__ import annotations

from pathlib import Path


def process_of(pod: str) -> int:
    """The machine's number of the operator's process in this Pod; raises AssertionError."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"POD_NAME={pod}".encode() in environment and b"relay-operator" in command:
            return int(folder.name)
    raise AssertionError(f"no process runs in the Pod {pod}")

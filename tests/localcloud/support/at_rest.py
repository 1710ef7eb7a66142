"""What is in the files of a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def files_with(directory: Path, secret: str) -> list[str]:
    """The names of the files that contain a secret in plain text."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path.name for path in files if secret.encode() in path.read_bytes()]

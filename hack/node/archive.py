"""Writes a folder as an image with one layer: a docker-archive, which containerd and buildah read."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DEVICES: Final = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
_NO_TIME: Final = "1970-01-01T00:00:00Z"


def write_image(folder: Path, target: Path, name: str, config: Mapping[str, object]) -> None:
    """Writes the archive; the same folder gives the same bytes. `config` is the image's: `Cmd`, `Entrypoint`, `Env`."""
    layer = _layer(folder)
    document = {
        "architecture": _ARCHITECTURES[os.uname().machine],
        "os": "linux",
        "created": _NO_TIME,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": _NO_TIME}],
    }
    raw = json.dumps(document).encode()
    config_name = f"{hashlib.sha256(raw).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    unfinished = target.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w") as tar:
        for path, content in (("layer.tar", layer), (config_name, raw), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    unfinished.replace(target)


def _layer(folder: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name, filter=_cleaned)
    return out.getvalue()


def _cleaned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.type in _DEVICES:
        return None
    entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry

"""kubectl's own completion finds ours on PATH."""

from __future__ import annotations

from pathlib import Path

from tests.support.kubectl import Kubectl


async def test_kubectl_completes_the_plugins_commands(tmp_path: Path) -> None:
    told = await Kubectl(tmp_path / "none").shell("kubectl __complete relay mo")
    assert told.splitlines()[0] == "models"

"""A machine on which the project's own node cannot run is refused in a sentence that says what to do instead."""

from pathlib import Path

import pytest

from hack.node import node


@pytest.mark.parametrize(
    ("hierarchy", "fits"),
    [("memory", True), ("system.slice", False)],
    ids=["cgroup v1", "cgroup v2 alone"],
)
def test_a_node_needs_cgroup_v1(hierarchy: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / hierarchy).mkdir()
    (tmp_path / hierarchy / "cgroup.procs").touch()
    monkeypatch.setattr(node, "_CGROUPS", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert (node.unfit() == "") is fits
    assert fits or "make kind" in node.unfit()

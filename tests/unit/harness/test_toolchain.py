"""Programs that are built once."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from tests.support.toolchain import installed_from

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_program_with_other_build_tags_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for folder in (f"tool-v1-{platform.machine()}", f"tool-v1-{platform.machine()}-one,two"):
        (tmp_path / "gpurelay" / folder).mkdir(parents=True)
        (tmp_path / "gpurelay" / folder / "tool").touch()
    plain, tagged = (installed_from("example.org/tool", "v1", "tool", tags=tags) for tags in ("", "one,two"))
    assert plain.parent.name == f"tool-v1-{platform.machine()}"
    assert tagged.parent.name == f"tool-v1-{platform.machine()}-one,two"

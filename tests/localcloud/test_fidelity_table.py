"""The fidelity table is true: it lists every operation that is served, and the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

HERE = Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "localcloud" / "fidelity.md").read_text()


def test_every_test_that_the_table_names_exists() -> None:
    defined = {
        name
        for path in HERE.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert named
    assert sorted(named - defined) == []


async def test_the_table_lists_what_is_served_and_marks_what_is_assumed(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen", "--list-vms")
    document = (await server.seeded().call("GET", "/openapi.json")).body
    served = {
        (f"{method.upper()} {path}", "assumed" if operation.get("x-assumed") else "specified")
        for path, operations in document["paths"].items()
        if path.startswith("/v1/")
        for method, operation in operations.items()
    }
    listed = set(re.findall(r"^\| `([A-Z]+ /v1/\S+)` \| (\w+) \|", TABLE, re.MULTILINE))
    assert listed == served

"""The fidelity table is true: it lists every name of the specification and every operation that is served."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from hack import fidelity

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

NAMES = tomllib.loads(fidelity.NAMES.read_text())
TABLE = fidelity.TABLE.read_text()


def test_the_table_lists_every_name_of_the_specification_with_tests_that_exist() -> None:
    assert fidelity.problems(NAMES, TABLE, fidelity.modules()) == []


@pytest.mark.parametrize(
    ("row", "instead", "problem"),
    [
        ("| event | `vm.running`", "| event | `vm.runs`", "the index lacks the event `vm.running`"),
        ("| `GET /v1/whoami` |", "| `GET /v1/whoami/me` |", "the operation GET /v1/whoami has no row"),
        ("`test_no_funds_no_pod`", "`test_no_such_test`", "no test is called test_no_such_test"),
    ],
)
def test_what_the_table_lacks_is_found(row: str, instead: str, problem: str) -> None:
    assert row in TABLE
    assert problem in fidelity.problems(NAMES, TABLE.replace(row, instead), fidelity.modules())


def test_what_did_not_run_is_found() -> None:
    ran = [f"tests/localcloud/test_any.py::{name}[1]" for name in fidelity.tests_named(TABLE)]
    assert fidelity.not_run(TABLE, ran) == []
    assert fidelity.not_run(TABLE, ran[1:]) != []


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

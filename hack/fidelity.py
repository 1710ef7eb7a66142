"""Checks that docs/localcloud/fidelity.md lists every name of the cloud's specification, with tests that prove it.

`python -m hack.fidelity [--ran FILE ...] [--specification FILE]`: `--ran` names files with the tests that passed, one
per line, as `make test` writes them; `--specification` also compares the list of names with the specification's text.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).parents[1]
TESTS = REPOSITORY / "tests" / "localcloud"
TABLE = REPOSITORY / "docs" / "localcloud" / "fidelity.md"
NAMES = TESTS / "specification.toml"
INDEX = "## Every name of the specification"


@dataclass(frozen=True)
class Row:
    """One row of the index: names of one kind, their basis (specified or assumed), and the tests that prove them."""

    kind: str
    names: tuple[str, ...]
    basis: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """A test module: its text, and the tests that it defines."""

    text: str
    tests: frozenset[str]


def index(document: str) -> list[Row]:
    """Returns the rows of the document's index."""
    section = document.partition(INDEX)[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([^|`]+) \| (.+?) \| (specified|assumed) \| (.+) \|$", section, re.MULTILINE)
    ticked = re.compile(r"`([^`]+)`")
    return [
        Row(kind.strip(), tuple(ticked.findall(names)), basis, tuple(ticked.findall(tests)))
        for kind, names, basis, tests in found
    ]


def operations(document: str) -> frozenset[str]:
    """Returns the operations that have a row in the document, as `METHOD /path`."""
    return frozenset(re.findall(r"^\| `([A-Z]+ /v1/\S+)` \| (?:specified|assumed) \|", document, re.MULTILINE))


def tests_named(document: str) -> frozenset[str]:
    """Returns the name of every test in the document."""
    return frozenset(re.findall(r"`(test_\w+)`", document))


def modules(folder: Path = TESTS) -> list[Module]:
    """Returns the test modules below a folder, in order of path."""
    texts = [path.read_text() for path in sorted(folder.rglob("test_*.py"))]
    defined = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
    return [Module(text, frozenset(defined.findall(text))) for text in texts]


def wanted(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yields the kind and name of everything that the index must list."""
    singular = {"events": "event", "codes": "code", "error_types": "error type", "statuses": "status"}
    singular |= {"headers": "header", "limits": "limit"}
    for plural, kind in singular.items():
        for name in _texts(names[plural]):
            yield kind, name
    for group in ("states", "transitions", "fields", "values"):
        tables = names[group]
        assert isinstance(tables, dict)
        for noun, listed in tables.items():
            for name in _texts(listed):
                yield f"{group.removesuffix('s')} of {noun}", name


def problems(names: Mapping[str, object], document: str, tested: Iterable[Module]) -> list[str]:
    """Returns a sentence for each name that the document lacks and for each claim in it that is wrong."""
    tested = list(tested)
    defined = frozenset[str]().union(*(module.tests for module in tested))
    rows = index(document)
    listed = {(row.kind, name): row for row in rows for name in row.names}
    must = set(wanted(names))
    operations_wanted = {*_texts(names["operations"]), *_texts(names["assumed_operations"])}
    return [
        *(f"the operation {one} has no row" for one in sorted(operations_wanted - operations(document))),
        *(f"the index lacks the {kind} `{name}`" for kind, name in sorted(must - listed.keys())),
        *(
            f"the index has a {kind} `{name}` that the specification does not"
            for kind, name in sorted(listed.keys() - must)
        ),
        *(f"no test is called {name}" for name in sorted(tests_named(document) - defined)),
        *(
            f"no test that is named for the {kind} `{name}` is in a module that mentions it"
            for (kind, name), row in sorted(listed.items())
            if not kind.startswith(("limit", "transition")) and not _mentioned(name, row, tested)
        ),
    ]


def not_run(document: str, ran: Iterable[str]) -> list[str]:
    """Returns a sentence for each test in the document that is not among those that passed (`ran`, pytest node ids)."""
    passed = {re.sub(r"\[.*", "", line.strip()).rpartition("::")[2] for line in ran}
    return [f"{name} did not pass, or did not run" for name in sorted(tests_named(document) - passed)]


def unknown(names: Mapping[str, object], specification: str) -> list[str]:
    """Returns a sentence for each name in the specification's text that the list of names lacks."""
    ticked = [name for name in re.findall(r"`([^`]+)`", specification) if not name.startswith("{")]
    in_tables = re.findall(r"^\| Field \|.*\n\|[-|]+\n((?:\|.*\n)+)", specification, re.MULTILINE)
    fields = [name for table in in_tables for name in re.findall(r"^\| (\w+) \|", table, re.MULTILINE)]
    codes = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", specification)
    known = {name for _, name in wanted(names)} | {kind.rpartition(" of ")[2] for kind, _ in wanted(names)}
    known |= {*_texts(names["words"]), *_texts(names["operations"])}
    suffixes = tuple(one.partition("}")[2] for one in _texts(names["assumed_operations"]))
    missing = [
        f"the specification names `{name}`"
        for name in dict.fromkeys([*ticked, *fields, *codes])
        if name not in known and not any(suffix.endswith(name) for suffix in suffixes)
    ]
    table = re.findall(r"^\| (GET|POST|PUT|PATCH|DELETE) \| (/v1/\S+) \|", specification, re.MULTILINE)
    lacking = {f"{method} {path}" for method, path in table} - set(_texts(names["operations"]))
    return [*missing, *(f"the specification has the operation {one}" for one in sorted(lacking))]


def _mentioned(name: str, row: Row, tested: Iterable[Module]) -> bool:
    name = name.lower()  # as tests name headers
    return any(name in module.text.lower() for module in tested if module.tests & set(row.tests))


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(one) for one in value]


def main() -> int:
    """Prints every problem; returns 1 if there is any, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ran", type=Path, nargs="+", default=[])
    parser.add_argument("--specification", type=Path)
    given = parser.parse_args()
    names, document = tomllib.loads(NAMES.read_text()), TABLE.read_text()
    found = problems(names, document, modules())
    if given.ran:
        found += not_run(document, [line for file in given.ran for line in file.read_text().splitlines()])
    if given.specification is not None:
        found += unknown(names, given.specification.read_text())
    for problem in found:
        print(problem)
    print(f"{len(list(wanted(names)))} names, {len(operations(document))} operations, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""docs/request-fields.md has every field of every request body, and each place that it names is one in a spec."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from pydantic import BaseModel

import relay_wire
from relay_operator.crds import DEFINITIONS
from relay_wire.base import Sent, SnakeSent

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "request-fields.md").read_text()
_REQUEST = re.compile(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)
_PLACE = re.compile(r"(?:`([A-Z]\w+)` )?`spec\.([\w.]+)`")
SPECS = {definition.kind: definition.spec for definition in DEFINITIONS}
TABLES = {name: dict(_ROW.findall(text)) for name, text in _REQUEST.findall(PAGE)}


def _kinds_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in model.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


def _requests() -> dict[str, type[BaseModel]]:
    """Every body that is sent, apart from what several of them have alike."""
    for module in pkgutil.iter_modules(relay_wire.__path__):
        importlib.import_module(f"relay_wire.{module.name}")
    own = [kind for kind in _kinds_of(Sent) if kind.__module__.startswith("relay_wire.")]
    return {kind.__name__: kind for kind in own if kind is not SnakeSent and not set(own) & set(kind.__subclasses__())}


def _fields(model: type[BaseModel]) -> dict[str, object]:
    """Types by the name that JSON has."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _is_a_field(model: type[BaseModel], path: str) -> bool:
    name, _, rest = path.partition(".")
    known = _fields(model)
    return name in known and (not rest or any(_is_a_field(each, rest) for each in _models(known[name])))


def _places(cell: str) -> Iterator[tuple[str, str]]:
    """Kind and field of each; the kind is said once."""
    kind = ""
    for named, path in _PLACE.findall(cell):
        kind = named or kind
        yield kind, path


def test_there_is_a_table_for_each_request_and_no_other() -> None:
    assert TABLES.keys() == _requests().keys()


@pytest.mark.parametrize("request_", _requests())
def test_a_table_has_each_field_of_its_request_and_no_other(request_: str) -> None:
    assert TABLES[request_].keys() == _fields(_requests()[request_]).keys()


@pytest.mark.parametrize(("request_", "field"), [(name, field) for name, rows in TABLES.items() for field in rows])
def test_a_field_has_a_place_in_a_spec_or_a_reason_why_not(request_: str, field: str) -> None:
    cell = TABLES[request_][field]
    places = list(_places(cell))
    assert places or cell.startswith("None: "), cell
    for kind, path in places:
        assert _is_a_field(SPECS[kind], path), f"{kind} has no spec.{path}"

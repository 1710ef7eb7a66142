"""The fields that this release needs the API server to keep.

They are read from a generated file: deriving them from the models would take a quarter of a second of each start.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final, TypeAlias

from pydantic import JsonValue, TypeAdapter

from relay_operator.api.meta import GROUP

Fields: TypeAlias = dict[str, JsonValue]
"""A schema without all but its fields, and the fields inside them."""
Needed: TypeAlias = Mapping[str, tuple[str, Fields]]
"""The name of the CRD, and the fields of its objects, by kind."""

FILE: Final = "needed.json"
_INSIDE: Final = ("items", "additionalProperties")
_NEEDED: Final = TypeAdapter(dict[str, tuple[str, Fields]])


def needed() -> Needed:
    """What the generated file says."""
    return _NEEDED.validate_json(files(__package__).joinpath(FILE).read_bytes())


def as_json(schemas: Iterable[tuple[str, str, Mapping[str, JsonValue]]]) -> str:
    """The text of the file; `schemas` are kinds, their plurals, and the schemas of their objects."""
    told = {kind: (f"{plural}.{GROUP}", _fields_of(schema)) for kind, plural, schema in schemas}
    return f"{_NEEDED.dump_json(told).decode()}\n"


def _fields_of(schema: Mapping[str, JsonValue]) -> Fields:
    fields: Fields = {}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        fields["properties"] = {name: _fields_of(each) for name, each in properties.items() if isinstance(each, dict)}
    for inside in _INSIDE:
        each = schema.get(inside)
        if isinstance(each, dict) and (inner := _fields_of(each)):
            fields[inside] = inner
    return fields

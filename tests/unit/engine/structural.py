"""What an API server refuses of an object: the part of structural schemas that our CRDs use."""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

_MOMENT = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}


def problems(schema: Mapping[str, JsonValue], value: JsonValue, where: str = "") -> Iterator[str]:
    """Sentences about what the schema refuses; none where the value is good."""
    kind = str(schema["type"])
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        yield f"{where} is no {kind}: {value!r}"
        return
    match value:
        case dict():
            yield from _of_object(schema, value, where)
        case list():
            yield from _of_list(schema, value, where)
        case str():
            yield from _of_text(schema, value, where)
        case int() if not isinstance(value, bool):
            if not _bound(schema, "minimum", -(2**63)) <= value <= _bound(schema, "maximum", 2**63 - 1):
                yield f"{where} is out of bounds: {value}"
        case _:
            pass


def _of_object(schema: Mapping[str, JsonValue], value: Mapping[str, JsonValue], where: str) -> Iterator[str]:
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(required, list):
        yield from (f"{where}.{name} is missing" for name in required if name not in value)
    for name, item in value.items():
        inner = properties.get(name) if isinstance(properties, dict) else None
        if isinstance(inner, dict):
            yield from problems(inner, item, f"{where}.{name}")
        else:
            yield f"{where}.{name} is not known"


def _of_list(schema: Mapping[str, JsonValue], value: list[JsonValue], where: str) -> Iterator[str]:
    items, keys = schema["items"], schema.get("x-kubernetes-list-map-keys")
    assert isinstance(items, dict)
    for index, item in enumerate(value):
        yield from problems(items, item, f"{where}[{index}]")
    if isinstance(keys, list):
        held = [tuple(item.get(str(key)) for key in keys) for item in value if isinstance(item, dict)]
        if len(set(held)) < len(held):
            yield f"{where} has two of one key"
    if len(value) > _bound(schema, "maxItems", len(value)):
        yield f"{where} is too long"


def _of_text(schema: Mapping[str, JsonValue], value: str, where: str) -> Iterator[str]:
    if not _bound(schema, "minLength", 0) <= len(value) <= _bound(schema, "maxLength", len(value)):
        yield f"{where} has {len(value)} characters"
    if schema.get("format") == "date-time" and not _MOMENT.fullmatch(value):
        yield f"{where} is no moment: {value}"
    if "pattern" in schema and not re.search(str(schema["pattern"]), value):
        yield f"{where} does not match: {value}"
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield f"{where} is none of the choices: {value}"


def _bound(schema: Mapping[str, JsonValue], name: str, default: int) -> int:
    bound = schema.get(name)
    return bound if isinstance(bound, int) else default

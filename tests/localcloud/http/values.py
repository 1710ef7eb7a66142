"""Values for the fields of a body, from its schema: one that fits, and those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.localcloud.support.everything import PUBLIC_KEY

Schema = dict[str, Any]

FITTING: dict[str, Any] = {
    "publicKey": PUBLIC_KEY,
    "url": "http://127.0.0.1:9/",
    "endpoint": "http://127.0.0.1:9/v1",
    "email": "somebody@example.com",
    "gpuModelId": "l40s",
    "model": "echo",
    "messages": [{"role": "user", "content": "hello"}],
    "credentials": {"username": "u", "password": "p"},
    "server": "registry.example",
    "completion_window": "24h",
}
"""What fits where the schema does not say enough."""

OF_TYPE: dict[str, Any] = {
    "string": "word",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "array": [["nested"]],
    "object": {"a": {"b": 1}},
}


def resolved(schema: Schema, document: Schema) -> Schema:
    """The schema that a reference leads to."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def branches(schema: Schema, document: Schema) -> Iterator[Schema]:
    """The schemas of which a value must fit one."""
    schema = resolved(schema, document)
    inner = schema.get("anyOf") or schema.get("oneOf")
    if inner is None:
        yield schema
        return
    for each in inner:
        yield from branches(each, document)


def types(schema: Schema, document: Schema) -> set[str]:
    """The JSON types of what fits; empty where anything does."""
    found: set[str] = set()
    for branch in branches(schema, document):
        if "type" in branch:
            found.add(branch["type"])
        elif "const" in branch or "enum" in branch:
            found.add("string")
        else:
            return set()
    return found


def fitting(schema: Schema, document: Schema, name: str = "") -> Any:
    """A value that fits, with required fields only."""
    if name in FITTING:
        return FITTING[name]
    branch = next(each for each in branches(schema, document) if each.get("type") != "null")
    if "const" in branch or "enum" in branch:
        return branch.get("const", branch.get("enum", [""])[0])
    match branch.get("type"):
        case "object":
            required = branch.get("required", ())
            return {field: fitting(branch["properties"][field], document, field) for field in required}
        case "array":
            return [fitting(branch["items"], document) for _ in range(branch.get("minItems", 0))]
        case "integer" | "number":
            return branch.get("minimum", 1)
        case "string":
            return "w" * max(branch.get("minLength", 1), 1)
        case kind:
            return OF_TYPE[kind or "string"]


def unfitting(schema: Schema, document: Schema) -> Iterator[Any]:
    """Values of the wrong type, and out of bounds."""
    allowed = types(schema, document)
    if not allowed:
        return
    for kind, value in OF_TYPE.items():
        if kind not in allowed and not (kind == "integer" and "number" in allowed):
            yield value
    if "null" not in allowed:
        yield None
    if allowed & {"integer", "number"}:
        yield from (2**63, -(10**30))
    for branch in branches(schema, document):
        yield from out_of_bounds(branch)


def out_of_bounds(branch: Schema) -> Iterator[Any]:
    """Values of the right type, just outside."""
    if "minimum" in branch:
        yield branch["minimum"] - 1
    if "maximum" in branch:
        yield branch["maximum"] + 1
    if branch.get("minLength", 0) > 0:
        yield ""
    if "maxLength" in branch:
        yield "x" * (branch["maxLength"] + 1)
    if "enum" in branch:
        yield "no such value"
    if branch.get("minItems", 0) > 0:
        yield []
    if branch.get("type") == "string":
        yield "a\0b"

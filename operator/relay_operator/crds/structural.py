"""Pydantic's JSON schema as a structural schema: no references, nulls or defaults."""

from typing import Final, TypeAlias

from pydantic import JsonValue, TypeAdapter

from relay_operator.api.meta import Model
from relay_operator.api.schema import PRESERVED, VALIDATIONS

Schema: TypeAlias = dict[str, JsonValue]

_OBJECT: TypeAdapter[Schema] = TypeAdapter(Schema)
_KEPT: Final = (
    "description",
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    PRESERVED,
)
"""Keys that are copied as they are, in this order; keys with schemas inside are converted one by one."""


def structural(model: type[Model]) -> Schema:
    """The schema of a model as a CRD has it; a default is told in the description, not set by the API server."""
    schema = _OBJECT.validate_python(model.model_json_schema(by_alias=True))
    return _Resolver(as_object(schema.get("$defs", {}))).structural(schema)


def as_object(value: JsonValue) -> Schema:
    if not isinstance(value, dict):
        raise TypeError(f"a schema is an object, not {value!r}")
    return value


class _Resolver:
    def __init__(self, definitions: Schema) -> None:
        self.definitions = definitions

    def structural(self, node: Schema) -> Schema:
        node = self._flat(node)
        found: Schema = {key: node[key] for key in _KEPT if key in node}
        if node.get("default") not in (None, [], {}) and "description" in found:
            found["description"] = f"{found['description']} Default: {_shown(node['default'])}."
        if found.get("type") == "integer":
            found["format"] = "int64"
        if "items" in node:
            found["items"] = self.structural(as_object(node["items"]))
        if "properties" in node:
            properties = as_object(node["properties"])
            found["properties"] = {name: self.structural(as_object(properties[name])) for name in sorted(properties)}
        if "required" in node:
            found["required"] = sorted(_list(node["required"]), key=str)
        values = _map_values(node)
        if values is not None:
            found["additionalProperties"] = self.structural(values)
        if VALIDATIONS in node:
            found[VALIDATIONS] = node[VALIDATIONS]
        return found

    def _flat(self, node: Schema) -> Schema:
        """The node with its reference, or its only non-null alternative, inlined; the field's own keys win."""
        if "$ref" in node:
            target = as_object(self.definitions[str(node["$ref"]).rpartition("/")[2]])
            return self._flat(_merged(target, {key: value for key, value in node.items() if key != "$ref"}))
        if "anyOf" in node:
            (chosen,) = [one for one in map(as_object, _list(node["anyOf"])) if one.get("type") != "null"]
            return self._flat(_merged(chosen, {key: value for key, value in node.items() if key != "anyOf"}))
        return node


def _merged(inner: Schema, outer: Schema) -> Schema:
    merged = inner | outer
    rules = [*_list(inner.get(VALIDATIONS, [])), *_list(outer.get(VALIDATIONS, []))]
    return merged | {VALIDATIONS: rules} if rules else merged


def _map_values(node: Schema) -> Schema | None:
    """The schema of a map's values; a structural schema cannot bound a map's keys."""
    if "patternProperties" in node:
        (values,) = as_object(node["patternProperties"]).values()
        return as_object(values)
    values = node.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def _shown(default: JsonValue) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)

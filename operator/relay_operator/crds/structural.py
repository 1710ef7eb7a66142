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

_KEY_BOUNDS: Final = {"minLength": ">=", "maxLength": "<="}


def structural(model: type[Model]) -> Schema:
    """The schema of a model as a CRD has it; the description names a default, which the API server does not set."""
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
        if node.get("default") not in (None, "", [], {}) and "description" in found:
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
        if (values := _map_values(node)) is not None:
            found["additionalProperties"] = self.structural(values)
        if rules := [*_list(node.get(VALIDATIONS, [])), *_key_rules(node)]:
            found[VALIDATIONS] = rules
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
    """The schema of a map's values."""
    if "patternProperties" in node:
        (values,) = as_object(node["patternProperties"]).values()
        return as_object(values)
    values = node.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _key_rules(node: Schema) -> list[JsonValue]:
    """The rule for a map's keys, which a structural schema cannot bound; empty if they have no bounds."""
    names = as_object(node.get("propertyNames", {}))
    patterns = as_object(node.get("patternProperties", {}))
    tests = [
        *(f"key.size() {sign} {names[bound]}" for bound, sign in _KEY_BOUNDS.items() if bound in names),
        *(f"key.matches(r'{pattern}')" for pattern in patterns),
    ]
    if not tests:
        return []
    length = f"{names['minLength']} to" if "minLength" in names else "at most"
    matching = "".join(f" and match `{pattern}`" for pattern in patterns)
    message = f"keys have {length} {names['maxLength']} characters{matching}"
    return [{"rule": f"self.all(key, {' && '.join(tests)})", "message": message}]


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def _shown(default: JsonValue) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)

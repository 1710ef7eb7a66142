"""JSON schemas as built-in models read them: the keywords that they follow, and whether a value is one of a schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_localcloud.inference.errors import INVALID_REQUEST, InferenceError

DEEPEST: Final = 64
MOST_NUMBER: Final = 10**15
"""The largest bound that is accepted: as a float, a larger number may equal its neighbours."""
_FIELD: Final = "response_format.json_schema.schema"
_MOST_LOOKS: Final = 20_000
_A_LOOK: Final = 50
"""So many entries of a schema's lists and objects are passed in the time of a look."""
_NOT_FOLLOWED: Final = (
    *("pattern", "not", "if", "contains", "patternProperties", "propertyNames", "minProperties", "maxProperties"),
    *("dependentRequired", "dependentSchemas", "uniqueItems", "$dynamicRef", "unevaluatedItems"),
)
"""Keywords that a value built without them may violate."""
NAMING: Final = ("properties", "required")
_FOLLOWED: Final = (
    *("const", "enum", "$ref", "anyOf", "oneOf", "allOf", "type", *NAMING, "additionalProperties"),
    *("items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "format"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_PYTHON: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "null": NoneType,
}
_LONGEST_REF: Final = 1000

Schema: TypeAlias = dict[str, JsonValue]


@dataclass(slots=True)
class Judge:
    """Tells whether values are those of schemas, which may refer to parts of `root`; it limits all its work."""

    root: JsonValue
    looks: float = 0

    def admits(self, schema: JsonValue, value: JsonValue, at: str, depth: int = 0) -> bool:
        """Whether the value is one of the schema; InferenceError 400 if a keyword that decides it is not followed."""
        if isinstance(schema, bool):
            return schema
        if isinstance(schema, dict) and not _is_of(schema.get("type"), value):
            return False
        known = followed(schema, at)
        self.looks += 1 + sum(len(part) for part in known.values() if isinstance(part, list | dict)) / _A_LOOK
        if self.looks > _MOST_LOOKS or depth > DEEPEST:
            raise refused(at, "it takes too long to tell which values it has")
        inside = partial(self.admits, value=value, at=at, depth=depth + 1)
        return (
            ("const" not in known or _same(known["const"], value))
            and ("enum" not in known or any(_same(each, value) for each in listed(known, "enum", at)))
            and ("$ref" not in known or inside(referred(self.root, known["$ref"], at)))
            and all(map(inside, listed(known, "allOf", at)))
            and ("anyOf" not in known or any(map(inside, listed(known, "anyOf", at))))
            and ("oneOf" not in known or sum(map(inside, listed(known, "oneOf", at))) == 1)
            and self._parts(known, value, at, depth + 1)
        )

    def _parts(self, known: Schema, value: JsonValue, at: str, depth: int) -> bool:
        match value:
            case str():
                return _is_within(known, "minLength", "maxLength", len(value), at)
            case list():
                first, others = listed(known, "prefixItems", at), known.get("items", True)
                schemas = (first[number] if number < len(first) else others for number in range(len(value)))
                return _is_within(known, "minItems", "maxItems", len(value), at) and all(
                    self.admits(schema, item, at, depth) for schema, item in zip(schemas, value, strict=True)
                )
            case dict():
                described, others = mapped(known, "properties", at), known.get("additionalProperties", True)
                return value.keys() >= set(map(str, listed(known, "required", at))) and all(
                    self.admits(described.get(name, others), item, at, depth) for name, item in value.items()
                )
            case bool() | None:
                return True
            case _:
                return number_fits(known, value, at)


def followed(schema: JsonValue, at: str) -> Schema:
    """The keywords of a schema that matter; InferenceError 400 if one is not followed."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise refused(at, "a schema is an object or true")
    for keyword in _NOT_FOLLOWED:
        if keyword in schema:
            raise refused(at, f"built-in models do not follow {keyword}")
    return {keyword: schema[keyword] for keyword in _FOLLOWED if keyword in schema}


def referred(root: JsonValue, ref: JsonValue, at: str) -> JsonValue:
    """The part of the root that a reference names; InferenceError 400 if there is none."""
    if not isinstance(ref, str) or len(ref) > _LONGEST_REF or (ref != "#" and not ref.startswith("#/")):
        raise refused(at, f"$ref is # or begins with #/, and has at most {_LONGEST_REF} characters")
    found = root
    for name in ref.split("/")[1:]:
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    if found is None:
        raise refused(at, "$ref names what is not there")
    return found


def number_fits(schema: Schema, value: float, at: str) -> bool:
    """Whether a number has the bounds of a schema."""
    above, below = bound(schema, "exclusiveMinimum", at), bound(schema, "exclusiveMaximum", at)
    step = bound(schema, "multipleOf", at)
    return (
        _is_within(schema, "minimum", "maximum", value, at)
        and (above is None or value > above)
        and (below is None or value < below)
        and (not step or value % step == 0)
    )


def bound(schema: Schema, keyword: str, at: str) -> float | None:
    """The number of a keyword; InferenceError 400 if it is none, or too large."""
    value = schema.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_NUMBER:
        raise refused(at, f"{keyword} is not a number up to {MOST_NUMBER}")
    return value


def listed(schema: Schema, keyword: str, at: str) -> list[JsonValue]:
    """The list of a keyword, empty if it is absent; InferenceError 400 if it is none."""
    value = schema.get(keyword, [])
    if not isinstance(value, list):
        raise refused(at, f"{keyword} is not a list")
    return value


def mapped(schema: Schema, keyword: str, at: str) -> dict[str, JsonValue]:
    """The object of a keyword, empty if it is absent; InferenceError 400 if it is none."""
    value = schema.get(keyword, {})
    if not isinstance(value, dict):
        raise refused(at, f"{keyword} is not an object")
    return value


def refused(at: str, why: str) -> InferenceError:
    """The refusal of a schema, naming the place in it."""
    return InferenceError(*INVALID_REQUEST, f"{_FIELD}{at[:200]}: {why}")


def _is_of(named: JsonValue, value: JsonValue) -> bool:
    if isinstance(named, list):
        return any(_is_of(each, value) for each in named)
    if named is None or isinstance(value, bool):
        return named in {None, "boolean"}
    if named == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(named, str) and isinstance(value, _PYTHON.get(named, ()))


def _same(one: JsonValue, other: JsonValue) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _is_within(schema: Schema, lowest: str, highest: str, value: float, at: str) -> bool:
    least, most = bound(schema, lowest, at), bound(schema, highest, at)
    return (least is None or value >= least) and (most is None or value <= most)

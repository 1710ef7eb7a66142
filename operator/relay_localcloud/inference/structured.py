"""Structured output of built-in models: the text as a JSON object or as a value of a JSON schema. Pure."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_localcloud.http.json_values import exceeds, parsed
from relay_localcloud.inference.errors import INVALID_REQUEST, InferenceError
from relay_wire.inference import ResponseFormat

MOST_VALUES: Final = 10_000
LONGEST_ANSWER: Final = 1024 * 1024
"""Characters of all strings together."""
DEEPEST: Final = 64
MOST_NUMBER: Final = 10**15
"""The largest bound that is accepted: as a float, a larger number may equal its neighbours."""
_FIELD: Final = "response_format.json_schema.schema"
_FORMATS: Final[Mapping[str, str]] = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.com/",
}
_NOT_FOLLOWED: Final = (
    *("pattern", "not", "if", "contains", "patternProperties", "propertyNames", "minProperties", "maxProperties"),
    *("dependentRequired", "dependentSchemas", "uniqueItems", "$dynamicRef", "unevaluatedItems"),
)
"""Keywords that a value built without them may violate."""
_NAMING: Final = ("properties", "required")
_FOLLOWED: Final = (
    *("const", "enum", "$ref", "anyOf", "oneOf", "allOf", "type", *_NAMING, "additionalProperties"),
    *("items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "format"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_LONGEST_REF: Final = 1000

_Schema: TypeAlias = dict[str, JsonValue]


class _EndlessError(Exception):
    """Every value of this schema contains another value of it."""


def answer_in(form: ResponseFormat, said: str) -> str:
    """The text in the requested form; InferenceError 400 if a built-in model cannot produce it."""
    if form.json_schema is not None and form.type == "json_schema":
        root = form.json_schema.get("schema")
        return json.dumps(_Maker(root, said).value(), ensure_ascii=False)
    if form.type == "json_object":
        return said if _is_object(said) else json.dumps({"content": said}, ensure_ascii=False)
    return said


def _is_object(text: str) -> bool:
    try:
        raw = text.encode()
        return not any(exceeds(raw)) and isinstance(parsed(raw), dict)
    except ValueError:
        return False


@dataclass(slots=True)
class _Maker:
    """Builds one value: strings are the text, optional properties are present, of alternatives the first is taken."""

    root: JsonValue
    said: str
    values: int = 0
    characters: int = 0

    def value(self) -> JsonValue:
        """A value of the whole schema."""
        try:
            return self._made({} if self.root is None else self.root, "", ())
        except _EndlessError:
            raise _refused("", "every value of it contains another one, without end") from None

    def _made(self, schema: JsonValue, at: str, refs: tuple[str, ...], depth: int = 0) -> JsonValue:
        self._spend(1 if depth <= DEEPEST else MOST_VALUES, at)
        known = _followed(schema, at)
        if fixed := [known["const"]] if "const" in known else _list(known, "enum", at):
            self._spell(len(json.dumps(fixed[0])), at)
            return fixed[0]
        if "$ref" in known:
            return self._referred(known, at, refs, depth)
        return self._combined(known, at, refs, depth)

    def _spend(self, values: int, at: str) -> None:
        """Limit all work, which is proportional to this count: a short schema can describe values without end."""
        self.values += values
        if self.values > MOST_VALUES:
            raise _refused(at, f"it describes more than {MOST_VALUES} values, or more than {DEEPEST} levels")

    def _spell(self, characters: int, at: str) -> None:
        self.characters += characters
        if self.characters > LONGEST_ANSWER:
            raise _refused(at, f"a value of it has more than {LONGEST_ANSWER} characters")

    def _combined(self, schema: _Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        for keyword in ("anyOf", "oneOf"):
            if alternatives := _list(schema, keyword, at):
                rest = {name: value for name, value in schema.items() if name != keyword}
                return self._first(rest, alternatives, f"{at}/{keyword}", refs, depth)
        if parts := _list(schema, "allOf", at):
            self._spend(len(parts), at)
            whole = {name: value for name, value in schema.items() if name != "allOf"}
            for part in parts:
                whole = self._both(whole, part, f"{at}/allOf")
            return self._made(whole, at, refs, depth + 1)
        return self._of_type(schema, at, refs, depth)

    def _referred(self, schema: _Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        ref = schema["$ref"]
        if not isinstance(ref, str) or len(ref) > _LONGEST_REF or (ref != "#" and not ref.startswith("#/")):
            raise _refused(at, f"$ref is # or begins with #/, and has at most {_LONGEST_REF} characters")
        if ref in refs:
            raise _EndlessError
        found = self.root
        for name in ref.split("/")[1:]:
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise _refused(at, "$ref names what is not there")
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return self._made(self._both(rest, found, at), at, (*refs, ref), depth + 1)

    def _both(self, schema: _Schema, other: JsonValue, at: str) -> _Schema:
        """The values of both; merging visits every property, which this counts."""
        more = _followed(other, at)
        if not schema:
            return more
        self._spend(_size(schema) + _size(more), at)
        return _joined(schema, more, at)

    def _first(
        self, rest: _Schema, alternatives: list[JsonValue], at: str, refs: tuple[str, ...], depth: int
    ) -> JsonValue:
        for number, alternative in enumerate(alternatives):
            here = f"{at}/{number}"
            whole = self._both(rest, alternative, here)
            try:
                return self._made(whole, here, refs, depth + 1)
            except _EndlessError:
                continue
        raise _EndlessError

    def _of_type(self, schema: _Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        named = schema.get("type")
        first = next((each for each in named if each != "null"), "null") if isinstance(named, list) else named
        implied = "object" if "properties" in schema else "array" if "items" in schema else "string"
        simple: Mapping[str, Callable[[_Schema, str], JsonValue]] = {
            "string": self._text,
            "integer": _integer,
            "number": _number,
            "boolean": lambda _schema, _at: True,
            "null": lambda _schema, _at: None,
        }
        match implied if first is None else first:
            case "object":
                return dict(self._properties(schema, at, refs, depth))
            case "array":
                return list(self._items(schema, at, refs, depth))
            case str(kind) if kind in simple:
                return simple[kind](schema, at)
            case _:
                raise _refused(at, "type is not one of JSON Schema's")

    def _properties(
        self, schema: _Schema, at: str, refs: tuple[str, ...], depth: int
    ) -> Iterator[tuple[str, JsonValue]]:
        self._spend(_size(schema), at)
        described, required = _object(schema, "properties", at), set(map(str, _list(schema, "required", at)))
        others = schema.get("additionalProperties", True)
        for name in [*described, *sorted(required - described.keys())]:
            self._spell(len(name), at)
            try:
                yield name, self._made(described.get(name, others), f"{at}/{name[:40]}", refs, depth + 1)
            except _EndlessError:
                if name in required:
                    raise

    def _items(self, schema: _Schema, at: str, refs: tuple[str, ...], depth: int) -> Iterator[JsonValue]:
        first, least, most = (
            _list(schema, "prefixItems", at),
            _bound(schema, "minItems", at),
            _bound(schema, "maxItems", at),
        )
        usual = len(first) or 1
        wanted = max(least or 0, usual if most is None else min(usual, most))
        for number in range(math.ceil(wanted)):
            item = first[number] if number < len(first) else schema.get("items", True)
            try:
                yield self._made(item, f"{at}/{number}", refs, depth + 1)
            except _EndlessError:
                if number < (least or 0):
                    raise
                return

    def _text(self, schema: _Schema, at: str) -> str:
        least, most = _bound(schema, "minLength", at) or 0, _bound(schema, "maxLength", at)
        text = _FORMATS.get(str(schema.get("format")), self.said)
        self._spell(max(math.ceil(least), len(text)), at)
        return text.ljust(math.ceil(least), ".")[: None if most is None else math.floor(most)]


def _followed(schema: JsonValue, at: str) -> _Schema:
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise _refused(at, "a schema is an object or true")
    for keyword in _NOT_FOLLOWED:
        if keyword in schema:
            raise _refused(at, f"built-in models do not follow {keyword}")
    return {keyword: schema[keyword] for keyword in _FOLLOWED if keyword in schema}


def _size(schema: JsonValue) -> int:
    """The number of items to merge or visit before the first value is built."""
    if not isinstance(schema, dict):
        return 1
    return 1 + sum(len(value) for name in _NAMING if isinstance(value := schema.get(name), dict | list))


def _joined(schema: _Schema, other: _Schema, at: str) -> _Schema:
    """The schema of the values of both: their properties and requirements together, and any other keyword once."""
    for keyword in other:
        is_same_type = keyword == "type" and schema.get(keyword) == other[keyword] in _TYPES
        if keyword in schema and keyword not in _NAMING and not is_same_type:
            raise _refused(at, f"built-in models do not follow {keyword} twice")
    own, more = _object(schema, "properties", at), _object(other, "properties", at)
    for closed, described, added in ((schema, own, more), (other, more, own)):
        if closed.get("additionalProperties", True) is not True and added.keys() - described.keys():
            raise _refused(at, "built-in models do not follow additionalProperties there")
    twice: dict[str, JsonValue] = {name: {"allOf": [own[name], more[name]]} for name in own.keys() & more.keys()}
    required = [*_list(schema, "required", at), *_list(other, "required", at)]
    joined: dict[str, JsonValue] = {"properties": {**own, **more, **twice}, "required": required}
    return schema | other | {name: value for name, value in joined.items() if value}


def _integer(schema: _Schema, at: str) -> int:
    value = _number(schema | {"multipleOf": schema.get("multipleOf", 1)}, at)
    if value != int(value):
        raise _refused(at, "no integer is within its bounds")
    return int(value)


def _number(schema: _Schema, at: str) -> float:
    """Zero if it is allowed, else the number nearest to a bound."""
    step = _bound(schema, "multipleOf", at)
    low, above = _bound(schema, "minimum", at), _bound(schema, "exclusiveMinimum", at)
    high, below = _bound(schema, "maximum", at), _bound(schema, "exclusiveMaximum", at)

    def fits(value: float) -> bool:
        lower = (low is None or value >= low) and (above is None or value > above)
        upper = (high is None or value <= high) and (below is None or value < below)
        return lower and upper and (not step or value % step == 0)

    bounds = [bound for bound in (low, above, high, below) if bound is not None]
    unit = step or 1
    steps = [bound / unit for bound in bounds]
    if not all(map(math.isfinite, steps)):
        raise _refused(at, "multipleOf is too small for its bounds")
    near = [unit * (math.floor(count) + by) for count in steps for by in (0, 1, -1)]
    between = [sum(bounds) / len(bounds)] if bounds else []
    chosen = next((value for value in (0, *bounds, *near, *between) if fits(value)), None)
    if chosen is None:
        raise _refused(at, "no number that built-in models try is within its bounds")
    return chosen


def _bound(schema: _Schema, keyword: str, at: str) -> float | None:
    value = schema.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_NUMBER:
        raise _refused(at, f"{keyword} is not a number up to {MOST_NUMBER}")
    return value


def _list(schema: _Schema, keyword: str, at: str) -> list[JsonValue]:
    value = schema.get(keyword, [])
    if not isinstance(value, list):
        raise _refused(at, f"{keyword} is not a list")
    return value


def _object(schema: _Schema, keyword: str, at: str) -> dict[str, JsonValue]:
    value = schema.get(keyword, {})
    if not isinstance(value, dict):
        raise _refused(at, f"{keyword} is not an object")
    return value


def _refused(at: str, why: str) -> InferenceError:
    return InferenceError(*INVALID_REQUEST, f"{_FIELD}{at[:200]}: {why}")

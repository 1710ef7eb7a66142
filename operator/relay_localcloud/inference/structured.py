"""Structured output of built-in models: the text as a JSON object or as a value of a JSON schema. Pure."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from relay_localcloud.http.json_values import exceeds, parsed
from relay_localcloud.inference.schemas import (
    DEEPEST,
    NAMING,
    TYPES,
    Judge,
    Schema,
    bound,
    followed,
    listed,
    mapped,
    number_fits,
    referred,
    refused,
)
from relay_wire.inference import ResponseFormat

MOST_VALUES: Final = 10_000
LONGEST_ANSWER: Final = 1024 * 1024
"""Characters of all strings together."""
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


class _EndlessError(Exception):
    """Every value of this schema contains another value of it."""


def answer_in(form: ResponseFormat, said: str) -> str:
    """The text in the requested form; InferenceError 400 if a built-in model cannot produce it."""
    if form.json_schema is not None and form.type == "json_schema":
        root = form.json_schema.get("schema") or {}
        return json.dumps(_Maker(root, said, Judge(root)).value(), ensure_ascii=False)
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
    judge: Judge
    values: int = 0
    characters: int = 0

    def value(self) -> JsonValue:
        """A value of the whole schema."""
        try:
            made = self._made(self.root, "", ())
        except _EndlessError:
            raise refused("", "every value of it contains another one, without end") from None
        if not Judge(self.root).admits(self.root, made, ""):
            raise refused("", "built-in models find no value of it")
        return made

    def _made(self, schema: JsonValue, at: str, refs: tuple[str, ...], depth: int = 0) -> JsonValue:
        self._spend(1 if depth <= DEEPEST else MOST_VALUES, at)
        known = followed(schema, at)
        for keyword in ("const", "enum"):
            if keyword in known:
                return self._fixed(known, keyword, at)
        if "$ref" in known:
            return self._referred(known, at, refs, depth)
        return self._combined(known, at, refs, depth)

    def _fixed(self, known: Schema, keyword: str, at: str) -> JsonValue:
        rest = {name: value for name, value in known.items() if name != keyword}
        for value in [known["const"]] if keyword == "const" else listed(known, "enum", at):
            if self.judge.admits(rest, value, at):
                self._spell(len(json.dumps(value)), at)
                return value
        raise refused(at, f"no value of {keyword} has what is beside it")

    def _spend(self, values: int, at: str) -> None:
        """Limit all work, which is proportional to this count: a short schema can describe values without end."""
        self.values += values
        if self.values > MOST_VALUES:
            raise refused(at, f"it describes more than {MOST_VALUES} values, or more than {DEEPEST} levels")

    def _spell(self, characters: int, at: str) -> None:
        self.characters += characters
        if self.characters > LONGEST_ANSWER:
            raise refused(at, f"a value of it has more than {LONGEST_ANSWER} characters")

    def _combined(self, schema: Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        for keyword in ("anyOf", "oneOf"):
            if alternatives := listed(schema, keyword, at):
                rest = {name: value for name, value in schema.items() if name != keyword}
                return self._first(rest, alternatives, f"{at}/{keyword}", refs, depth)
        if parts := listed(schema, "allOf", at):
            self._spend(len(parts), at)
            whole = {name: value for name, value in schema.items() if name != "allOf"}
            for part in parts:
                whole = self._both(whole, part, f"{at}/allOf")
            return self._made(whole, at, refs, depth + 1)
        return self._of_type(schema, at, refs, depth)

    def _referred(self, schema: Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        ref = str(schema["$ref"])
        if ref in refs:
            raise _EndlessError
        found = referred(self.root, schema["$ref"], at)
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return self._made(self._both(rest, found, at), at, (*refs, ref), depth + 1)

    def _both(self, schema: Schema, other: JsonValue, at: str) -> Schema:
        """The values of both; merging visits every property, which this counts."""
        more = followed(other, at)
        if not schema:
            return more
        self._spend(_size(schema) + _size(more), at)
        return _joined(schema, more, at)

    def _first(
        self, rest: Schema, alternatives: list[JsonValue], at: str, refs: tuple[str, ...], depth: int
    ) -> JsonValue:
        ends = False
        for number, alternative in enumerate(alternatives):
            here = f"{at}/{number}"
            whole = self._both(rest, alternative, here)
            try:
                made = self._made(whole, here, refs, depth + 1)
            except _EndlessError:
                continue
            others = [] if at.endswith("/anyOf") else [*alternatives[:number], *alternatives[number + 1 :]]
            if not any(self.judge.admits(other, made, here, depth + 1) for other in others):
                return made
            ends = True
        if ends:
            raise refused(at, "built-in models find no value of one alternative alone")
        raise _EndlessError

    def _of_type(self, schema: Schema, at: str, refs: tuple[str, ...], depth: int) -> JsonValue:
        named = schema.get("type")
        first = next((each for each in named if each != "null"), "null") if isinstance(named, list) else named
        implied = "object" if "properties" in schema else "array" if "items" in schema else "string"
        simple: Mapping[str, Callable[[Schema, str], JsonValue]] = {
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
                raise refused(at, "type is not one of JSON Schema's")

    def _properties(
        self, schema: Schema, at: str, refs: tuple[str, ...], depth: int
    ) -> Iterator[tuple[str, JsonValue]]:
        self._spend(_size(schema), at)
        described, required = mapped(schema, "properties", at), set(map(str, listed(schema, "required", at)))
        others = schema.get("additionalProperties", True)
        for name in [*described, *sorted(required - described.keys())]:
            self._spell(len(name), at)
            try:
                yield name, self._made(described.get(name, others), f"{at}/{name[:40]}", refs, depth + 1)
            except _EndlessError:
                if name in required:
                    raise

    def _items(self, schema: Schema, at: str, refs: tuple[str, ...], depth: int) -> Iterator[JsonValue]:
        first, least, most = (
            listed(schema, "prefixItems", at),
            bound(schema, "minItems", at),
            bound(schema, "maxItems", at),
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

    def _text(self, schema: Schema, at: str) -> str:
        least, most = bound(schema, "minLength", at) or 0, bound(schema, "maxLength", at)
        text = _FORMATS.get(str(schema.get("format")), self.said)
        self._spell(max(math.ceil(least), len(text)), at)
        return text.ljust(math.ceil(least), ".")[: None if most is None else math.floor(most)]


def _size(schema: JsonValue) -> int:
    """The number of items to merge or visit before the first value is built."""
    if not isinstance(schema, dict):
        return 1
    return 1 + sum(len(value) for name in NAMING if isinstance(value := schema.get(name), dict | list))


def _joined(schema: Schema, other: Schema, at: str) -> Schema:
    """The schema of the values of both: their properties and requirements together, and any other keyword once."""
    for keyword in other:
        is_same_type = keyword == "type" and schema.get(keyword) == other[keyword] in TYPES
        if keyword in schema and keyword not in NAMING and not is_same_type:
            raise refused(at, f"built-in models do not follow {keyword} twice")
    own, more = mapped(schema, "properties", at), mapped(other, "properties", at)
    for closed, described, added in ((schema, own, more), (other, more, own)):
        if closed.get("additionalProperties", True) is not True and added.keys() - described.keys():
            raise refused(at, "built-in models do not follow additionalProperties there")
    twice: dict[str, JsonValue] = {name: {"allOf": [own[name], more[name]]} for name in own.keys() & more.keys()}
    required = [*listed(schema, "required", at), *listed(other, "required", at)]
    joined: dict[str, JsonValue] = {"properties": {**own, **more, **twice}, "required": required}
    return schema | other | {name: value for name, value in joined.items() if value}


def _integer(schema: Schema, at: str) -> int:
    value = _number(schema | {"multipleOf": schema.get("multipleOf", 1)}, at)
    if value != int(value):
        raise refused(at, "no integer is within its bounds")
    return int(value)


def _number(schema: Schema, at: str) -> float:
    """Zero if it is allowed, else the number nearest to a bound."""
    step = bound(schema, "multipleOf", at)
    low, above = bound(schema, "minimum", at), bound(schema, "exclusiveMinimum", at)
    high, below = bound(schema, "maximum", at), bound(schema, "exclusiveMaximum", at)
    bounds = [each for each in (low, above, high, below) if each is not None]
    unit = step or 1
    steps = [each / unit for each in bounds]
    if not all(map(math.isfinite, steps)):
        raise refused(at, "multipleOf is too small for its bounds")
    near = [unit * (math.floor(count) + by) for count in steps for by in (0, 1, -1)]
    between = [sum(bounds) / len(bounds)] if bounds else []
    chosen = next((value for value in (0, *bounds, *near, *between) if number_fits(schema, value, at)), None)
    if chosen is None:
        raise refused(at, "no number that built-in models try is within its bounds")
    return chosen

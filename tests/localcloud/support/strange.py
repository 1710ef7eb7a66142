"""Requests that nobody means: of every operation, with values of its schema, beside it, and as large as may be sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.localcloud.support.everything import Operation

LARGEST: Final = {"managementUrl": 256 * 1024, "inferenceUrl": 10 * 1024 * 1024}
"""Bytes of a body, by port: `docs/localcloud/security.md`."""
_DEEPEST: Final = 5
_ODD: Final[tuple[Callable[[random.Random], Any], ...]] = (
    lambda _: None,
    lambda _: True,
    lambda _: -1,
    lambda _: 2**63,
    lambda _: 1e308,
    lambda _: "",
    lambda _: "\x00\ud800",
    lambda _: "x" * 100_000,
    lambda _: {"a": {"b": []}},
    lambda chance: ["é" * chance.randrange(50)] * chance.randrange(3000),
    lambda chance: {f"k{number}": number for number in range(chance.randrange(3000))},
    lambda _: _nested(150),
)
_SEGMENTS: Final = ("none", "%00", "x" * 4000, "%F0%9F%98%80", "..%2F..", "0", "pod_")


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@dataclass
class Strange:
    """Makes them, the same again for the same chance."""

    document: dict[str, Any]
    chance: random.Random

    def body(self, operation: Operation, like: dict[str, Any] | None, largest: int) -> bytes:
        """One for this operation; one in eight is about as long as is allowed."""
        schema = operation.body or {}
        value = dict(like) if like is not None and self.chance.random() < 0.5 else self.value(schema)
        if isinstance(value, dict) and self.chance.random() < 0.3:
            value[self.chance.choice([*value, "more"])] = self._odd()
        raw = json.dumps(value).encode()
        if isinstance(value, dict) and self.chance.random() < 0.125:
            raw = self._filled(value, schema, largest + self.chance.choice((-1, 0, 1)))
        return raw[: LARGEST["inferenceUrl"] + 1]  # nested lists may have hundreds of megabytes, which nobody reads

    def segment(self, known: str) -> str:
        """What stands in a path: mostly what there is."""
        return known if self.chance.random() < 0.9 else self.chance.choice(_SEGMENTS)

    def query(self, operation: Operation) -> dict[str, str]:
        """Of the parameters that are described, some; and at times one that is not."""
        named = [each["name"] for each in operation.description.get("parameters", ()) if each["in"] == "query"]
        chosen = [name for name in named if name != "follow" and self.chance.random() < 0.5]
        odd = ("1", "1000", "-1", "99999999999999999999", "x" * 2000, "%00", "true", "2026-11-21T00:00:00Z")
        return {name: self.chance.choice(odd) for name in chosen}

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """One that the schema describes, or nearly."""
        schema = self._resolved(schema)
        if depth > _DEEPEST or self.chance.random() < 0.05:
            return self._odd()
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        if any(key in schema for key in ("anyOf", "oneOf")):
            return self.value(self.chance.choice(schema.get("anyOf") or schema["oneOf"]), depth)
        make = {"array": self._array, "string": self._string, "boolean": self._boolean, "null": self._nothing}
        kind = schema.get("type")
        if kind in {"integer", "number"}:
            bounds = (schema.get("minimum", 1), schema.get("maximum", 7))
            return self.chance.choice((0, 1, 2, 8, 0.5, -1.0, 1000, 2**31, 1e9, *bounds))
        return make.get(str(kind), self._object)(schema, depth)

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        count = self.chance.choice((0, 1, 2, min(schema.get("maxItems", 5), 200)))
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _string(self, schema: dict[str, Any], _: int) -> str:
        length = self.chance.choice((1, 5, 30, min(schema.get("maxLength", 200), 5000)))
        return "".join(self.chance.choice("abcxyz019-_.\u00e9 ") for _ in range(length))

    def _boolean(self, _: dict[str, Any], __: int) -> bool:
        return self.chance.random() < 0.5

    def _nothing(self, _: dict[str, Any], __: int) -> None:
        return None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = set(schema.get("required", ()))
        found = {
            name: self.value(described, depth + 1)
            for name, described in schema.get("properties", {}).items()
            if name in required or self.chance.random() < 0.4
        }
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            found |= {f"k{number}": self.value(more, depth + 1) for number in range(self.chance.choice((0, 1, 40)))}
        return found

    def _filled(self, value: dict[str, Any], schema: dict[str, Any], size: int) -> bytes:
        """The body, with one field filled until it has that many bytes: by one string, by many items, or by keys."""
        properties = self._resolved(schema).get("properties", {})
        name = self.chance.choice([*properties, "more"])
        item = self.value(self._resolved(properties.get(name, {})).get("items", {}), _DEEPEST - 1)
        around = len(json.dumps({**value, name: None}).encode())
        room = max(size - around, 0)
        match self.chance.randrange(3):
            case 0:
                filled: Any = "x" * max(room - 2, 0)
            case 1:
                filled = [item] * (room // (len(json.dumps(item).encode()) + 2))
            case _:
                filled = {f"key{number:07}": "v" for number in range(room // 19)}
        return json.dumps({**value, name: filled}).encode()

    def _odd(self) -> Any:
        return self.chance.choice(_ODD)(self.chance)

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

"""`response_format`: built-in models answer a JSON object, or a value of the schema that was asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.localcloud.support.inference import CHAT, call, chat, ok

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

MANY_VALUES = json.dumps({"a": [[]] * 50_000})
NODE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "anything": {},
    "an object as OpenAI's clients send it": {
        "type": "object",
        "properties": {
            "sentiment": {"type": "string", "enum": ["good", "bad"]},
            "score": {"type": "number", "minimum": 0.5, "maximum": 0.75},
            "stars": {"type": "integer", "exclusiveMinimum": 1, "maximum": 5, "multipleOf": 2},
            "quote": {"type": "string", "maxLength": 3},
            "author": {"type": ["null", "string"], "minLength": 20},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
            "checked": {"type": "boolean"},
            "kind": {"const": {"of": "review"}},
            "at": {"type": "string", "format": "date-time"},
        },
        "required": ["sentiment", "score", "stars", "quote", "author", "tags", "checked", "kind", "at"],
        "additionalProperties": False,
    },
    "a list": {"type": "array", "items": {"type": "integer", "maximum": -3}, "minItems": 4},
    "an empty list": {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
    "a pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": False},
    "a chain": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "a required chain": {"$ref": "#/$defs/node", "$defs": {"node": {**NODE, "required": ["next"]}}},
    "itself, if there is more": {"type": "object", "properties": {"more": {"$ref": "#"}, "x": {"type": "null"}}},
    "all of two": {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]},
        ]
    },
    "a base, and what one of two adds": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "kind": {"enum": ["x", "y"]}},
        "required": ["a"],
        "oneOf": [
            {"type": "object", "properties": {"b": True, "kind": {"const": "y"}}, "required": ["b", "kind"]},
            {"type": "object", "properties": {"c": True, "kind": {"const": "x"}}, "required": ["c", "kind"]},
        ],
    },
    "a reference, and more beside it": {
        "$ref": "#/$defs/node",
        "$defs": {"node": NODE},
        "properties": {"b": {"type": "null"}},
        "required": ["b", "next"],
    },
    "a base by reference": {
        "allOf": [{"$ref": "#/$defs/node"}, {"properties": {"b": {"type": "null"}}, "required": ["b", "next"]}],
        "$defs": {"node": NODE},
    },
    "an integer, whatever it is": {"type": "integer", "anyOf": [True, {"minimum": 3}]},
    "a pair that may be cut": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "maxItems": 1},
    "one of two": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]},
    "a choice of its type": {"type": "integer", "enum": ["1", True, 1.5, 1, 2]},
    "a choice of either type": {"type": ["integer", "null"], "enum": ["1", None]},
    "a choice within bounds": {"enum": [1, 7, 12, 20], "minimum": 10, "multipleOf": 5},
    "a choice of a length": {"enum": ["a", "abc", [], {}], "minLength": 2, "maxItems": -1, "required": ["a"]},
    "a choice of what is referred to": {"enum": [1, "x"], "$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
    "a constant among choices": {"const": 1.0, "enum": [2, 1], "type": "integer"},
    "a constant object": {
        "const": {"a": [1, "x"], "b": None},
        "properties": {"a": {"prefixItems": [{"type": "number"}], "items": {"type": "string"}, "minItems": 2}},
        "additionalProperties": {"type": "null"},
        "anyOf": [{"required": ["c"]}, {"required": ["b"]}],
    },
    "one alone of two that overlap": {"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "null"}]},
    "one alone of what is constant": {"oneOf": [{"enum": [1, 2]}, {"const": 1}, {"const": 3}]},
    "one alone, the others of other types": {"oneOf": [{"type": "null"}, {"type": "string", "pattern": "^x"}]},
    "a number between": {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
}


def asked(schema: object) -> dict[str, Any]:
    """A `response_format` with this schema."""
    return {"type": "json_schema", "json_schema": {"name": "review", "schema": schema, "strict": True}}


async def content(organization: Organization, form: dict[str, Any], said: str = "hello", **more: Any) -> str:
    answer = await ok(organization, "POST", CHAT, chat(said, response_format=form, **more))
    text: str = answer["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
async def test_the_answer_is_a_value_of_the_schema(organization: Organization, schema: dict[str, Any]) -> None:
    value = json.loads(await content(organization, asked(schema)))
    jsonschema.Draft202012Validator(schema).validate(value)


async def test_its_strings_are_what_was_said(organization: Organization) -> None:
    schema = {"properties": {"answer": {"type": "string"}, "again": {"items": {"type": "string"}}}}
    text = await content(organization, asked(schema), "grüß dich")
    assert json.loads(text) == {"answer": "grüß dich", "again": ["grüß dich"]}


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("hello", {"content": "hello"}),
        ('{"a": [1]}', {"a": [1]}),
        ('{"a": NaN}', {"content": '{"a": NaN}'}),
        (MANY_VALUES, {"content": MANY_VALUES}),
    ],
    ids=["a text", "an object", "what JSON has no word for", "an object of too many values"],
)
async def test_a_json_object_is_answered_where_one_is_asked_for(
    organization: Organization, said: str, value: dict[str, Any]
) -> None:
    assert json.loads(await content(organization, {"type": "json_object"}, said)) == value


async def test_text_is_text(organization: Organization) -> None:
    assert await content(organization, {"type": "text"}) == "hello"


async def test_a_stream_says_the_same(organization: Organization) -> None:
    form = asked({"properties": {"answer": {"type": "string"}}})
    body = chat("one two", response_format=form, stream=True)
    events = (await call(organization, "POST", CHAT, body)).raw.decode().split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events if event and not event.endswith("[DONE]")]
    said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert json.loads(said) == {"answer": "one two"}


def _doubling(levels: int) -> dict[str, Any]:
    """A schema of few words whose values have 2 ** levels leaves."""
    defs: dict[str, Any] = {
        f"d{level}": {"required": ["l", "r"], "properties": {key: {"$ref": f"#/$defs/d{level + 1}"} for key in "lr"}}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "null"}}}


REFUSED: dict[str, tuple[object, str]] = {
    "a constant of another type": ({"type": "integer", "const": "1"}, ": no value of const has what is beside it"),
    "no choice": ({"enum": []}, ": no value of enum has what is beside it"),
    "no choice of its type": ({"type": "boolean", "enum": [1, 0]}, ": no value of enum has what is beside it"),
    "two that say the same": (
        {"items": {"oneOf": [{"type": "integer"}, {"type": "number"}]}},
        "/0/oneOf: built-in models find no value of one alternative alone",
    ),
    "alternatives that cannot be told apart": (
        {"oneOf": [{"type": "string"}, {"type": "string", "pattern": "^x"}]},
        "/oneOf/0: built-in models do not follow pattern",
    ),
    "bounds of a length that cross": ({"minLength": 9, "maxLength": 3}, ": built-in models find no value of it"),
    "bounds of a list that cross": (
        {"type": "object", "properties": {"a": {"items": {}, "minItems": 2, "maxItems": 1}}},
        ": built-in models find no value of it",
    ),
    "choices without end": (
        {"items": {"oneOf": [{"const": -1}, {"enum": [*range(20_000)]}]}, "minItems": 1_000},
        ": it takes too long to tell which values it has",
    ),
    "a pattern": ({"properties": {"a": {"pattern": "^x$"}}}, "/a: built-in models do not follow pattern"),
    "no such type": ({"type": "float"}, ": type is not one of JSON Schema's"),
    "no schema inside": ({"properties": {"a": 1}}, "/a: a schema is an object or true"),
    "nothing fits": ({"items": False, "minItems": 1}, "/0: a schema is an object or true"),
    "bounds that cross": ({"type": "integer", "minimum": 2, "maximum": 1}, ": no number that built-in models try"),
    "a bound of words": ({"type": "integer", "minimum": "2"}, ": minimum is not a number up to"),
    "a step that floats cannot count": (
        {"type": "number", "multipleOf": 1e-300, "minimum": 1e15},
        ": multipleOf is too small for its bounds",
    ),
    "the smallest step": ({"multipleOf": 5e-324, "minimum": 1, "type": "integer"}, ": multipleOf is too small"),
    "a list of words": ({"required": "a", "properties": {}}, ": required is not a list"),
    "a reference to nothing": ({"$ref": "#/$defs/x"}, ": $ref names what is not there"),
    "a reference to elsewhere": ({"$ref": "http://example.com"}, ": $ref is # or begins with #/, and has"),
    "two bounds": (
        {"type": "integer", "minimum": 10, "anyOf": [{"minimum": 1}]},
        "/anyOf/0: built-in models do not follow minimum twice",
    ),
    "two bounds of one property": (
        {"allOf": [{"properties": {"a": {"maximum": 1}}}, {"properties": {"a": {"maximum": 2}}}]},
        "/a/allOf: built-in models do not follow maximum twice",
    ),
    "two types": (
        {"type": "string", "allOf": [{"type": "integer"}]},
        "/allOf: built-in models do not follow type twice",
    ),
    "a property that another schema forbids": (
        {"type": "object", "additionalProperties": False, "allOf": [{"properties": {"a": True}}]},
        "/allOf: built-in models do not follow additionalProperties there",
    ),
    "no end": ({"required": ["a"], "properties": {"a": {"$ref": "#"}}}, ": every value of it contains another one"),
    "too many values": (_doubling(30), ": it describes more than 10000 values"),
    "a long list": ({"minItems": 10**12, "items": {}}, ": it describes more than 10000 values"),
    "a long string": ({"minLength": 10**12}, ": a value of it has more than 1048576 characters"),
    "a long constant, often": (
        {"items": {"$ref": "#/$defs/c"}, "minItems": 100, "$defs": {"c": {"const": "x" * 100_000}}},
        ": a value of it has more than 1048576 characters",
    ),
    "many parts, often": (
        {"items": {"$ref": "#/$defs/a"}, "minItems": 100, "$defs": {"a": {"allOf": [True] * 5_000}}},
        ": it describes more than 10000 values",
    ),
    "many alternatives that do not end": (
        {"required": ["a"], "properties": {"a": {"anyOf": [{"$ref": "#"}] * 11_000}}},
        ": it describes more than 10000 values",
    ),
}


@pytest.mark.parametrize(("schema", "why"), REFUSED.values(), ids=REFUSED)
async def test_what_built_in_models_cannot_follow_is_400_and_says_where(
    organization: Organization, schema: object, why: str
) -> None:
    answer = await call(organization, "POST", CHAT, chat("x", response_format=asked(schema)))
    assert (answer.status, answer.body["error"]["type"]) == (400, "invalid_request_error")
    message: str = answer.body["error"]["message"]
    assert message.startswith("response_format.json_schema.schema")
    assert why in message


async def test_a_deep_schema_is_400(organization: Organization) -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(80):
        schema = {"items": schema}
    answer = await call(organization, "POST", CHAT, chat("x", response_format=asked(schema)))
    assert answer.status == 400

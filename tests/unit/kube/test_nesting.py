"""JSON nested deeper than its readers take loses only what is too deep."""

import json
import random
import re
import sys
from types import FrameType

import orjson
import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from relay_kube.nesting import DEEPEST, MOST, decoded, encoded, shallow


def nested(levels: int) -> bytes:
    """Levels of lists and objects in turn, between strings that contain brackets and quotes."""
    pairs = levels // 2
    return b'{"a":["]}\\\\",' + b'{"x":[' * pairs + b'"\\"[{"' + b"]}" * pairs + b'],"b":"]"}'


def depth(value: object) -> int:
    each = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if each is None else 1 + max(map(depth, each), default=0)


@pytest.mark.parametrize("levels", [2, DEEPEST - 2])
def test_what_is_not_too_deep_stays_as_it_is(levels: int) -> None:
    assert shallow(nested(levels)) == nested(levels)
    assert encoded(decoded(nested(levels))) == nested(levels)


@pytest.mark.parametrize("levels", [900, 1_022, 1_024, 9_000])
def test_what_is_too_deep_becomes_null_and_all_around_it_stays(levels: int) -> None:
    for text in (shallow(nested(levels)), encoded(decoded(nested(levels)))):
        value = json.loads(text)
        assert depth(value) == DEEPEST
        assert (value["a"][0], value["b"]) == ("]}\\", "]")


@pytest.mark.parametrize("number", [2**64, 10**20, -(2**63) - 1])
def test_a_number_of_more_than_64_bits_is_written_as_it_is_read(number: int) -> None:
    text = json.dumps({"a": [number, 2**64 - 1, -(2**63), True]}).encode()
    assert encoded(json.loads(text)) == encoded(decoded(text))
    assert decoded(encoded(json.loads(text))) == {"a": [float(number), 2**64 - 1, -(2**63), True]}


@pytest.mark.parametrize("text", [b"", b"<html>", b'{"a":', b"{" * 2_000, b"]" * 2_000, b'"' * 2_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decoded(text)


def walked(text: bytes) -> bytes:
    """What `shallow` returns, bracket by bracket."""
    kept, level, end = list[bytes](), 0, 0
    for found in re.finditer(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', text):
        part = found.group()
        if part in b"{[":
            level += 1
            if level == DEEPEST + 1:
                kept += [text[end : found.start()], b"null"]
        elif part in b"}]":
            level -= 1
            if level == DEEPEST:
                end = found.end()
    return b"".join([*kept, text[end:]])


def some_text(rng: random.Random) -> str:
    return "".join(rng.choices('[]{}"\\,:/ux\n\u00e9', k=rng.randrange(8)))


def some_value(rng: random.Random, breadth: int) -> JsonValue:
    match rng.randrange(4) if breadth else 0:
        case 0:
            return rng.choice([some_text(rng), 5, None, [], {}])
        case 1:
            return {some_text(rng): some_value(rng, breadth // 2) for _ in range(breadth)}
        case _:
            return [some_value(rng, breadth // 2) for _ in range(breadth)]


def some_json(rng: random.Random) -> bytes:
    """Some JSON, whose nesting goes down to the border and back again and again, and often over it."""
    parts = list[str]()
    for _ in range(rng.randrange(1, 12)):
        levels = rng.choice([1, 100, DEEPEST - 3, DEEPEST - 2, DEEPEST - 1, DEEPEST, DEEPEST + 1, 400, 3_000])
        pairs = [rng.choice([("[", "]"), ('{"]":', "}"), ('["[{\\"",', ',"\\\\"]')]) for _ in range(levels)]
        inside = json.dumps(some_value(rng, rng.randrange(12)), ensure_ascii=rng.random() < 0.5)
        parts.append("".join(a for a, _ in pairs) + inside + "".join(b for _, b in reversed(pairs)))
    return f"[{','.join(parts)}]".encode()


@pytest.mark.parametrize("seed", range(40))
def test_nesting_is_cut_as_it_is_bracket_by_bracket(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        text = some_json(rng)
        assert shallow(text) == walked(text)


@pytest.mark.parametrize("levels", [1, DEEPEST * 2], ids=["before the border", "beyond it"])
@pytest.mark.parametrize("lists", [20_000, MOST * 2], ids=["allowed", "too many"])
def test_dense_brackets_are_not_looked_at_one_by_one(levels: int, lists: int) -> None:
    """Any tenant can write an object full of them, and all wait."""
    text, calls = b'{"spec":{"a":' + b"[" * levels + b"[]," * lists + b"0" + b"]" * levels + b"}}", 0

    def count(_frame: FrameType, event: str, _called: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        shallow(text, 1)
    finally:
        sys.setprofile(before)
    assert calls < lists / 10


OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
INSTEAD = "IN ITS PLACE"
AROUND: dict[int, tuple[str, str]] = {
    1: ("", ""),
    2: ('{"type":"MODIFIED","object":', "}\n"),
    3: (
        '{"items":[{"metadata":{"name":"a"},"spec":{"x":[[5],{}]}},',
        ',{"metadata":{"name":"z","labels":{}}}],"metadata":{}}',
    ),
}
"""What surrounds an object at each level."""


def dense(count: int, element: str = "[]") -> str:
    """A list of so many, between strings that contain brackets and quotes."""
    return f'["\\"[[[[{{{{",{f"{element}," * count}"]]]]"]'


def an_object(field: str) -> str:
    """An object in JSON, one field of whose spec is this."""
    before, after = '{"metadata":{"name":"m","finalizers":["f"]},"spec":{"a":', ',"kept":{"b":[{}]}},'
    return f'{before}{field}{after}"status":{{"conditions":[{{"type":"Ready"}}],"id":"pod-1"}}}}'


@pytest.mark.parametrize("objects", [1, 2, 3])
@pytest.mark.parametrize("element", ["[]", '{"x":"["}', '[["]"],[[0]]]', '{"x":' * 400 + "[]" + "}" * 400])
def test_an_object_with_too_many_lists_loses_the_field_that_has_them_and_is_refused(objects: int, element: str) -> None:
    before, after = AROUND[objects]
    full = an_object(dense(MOST + 1 if len(element) < 100 else MOST // 100, element))
    found = shallow(f"{before}{full}{after}".encode(), objects)
    start, _, end = f"{before}{an_object(INSTEAD)}{after}".encode().partition(INSTEAD.encode())
    assert (found.startswith(start), found.endswith(end), len(found) < 2_000) == (True, True, True)
    assert encoded(json.loads(found)) == encoded(decoded(f"{before}{full}{after}".encode(), objects))
    with pytest.raises(ValidationError, match="recursion limit"):
        OBJECT.validate_json(found[len(before) : len(found) - len(after)])


@pytest.mark.parametrize("objects", [1, 2, 3])
def test_an_object_with_as_many_lists_as_it_may_have_stays_as_it_is(objects: int) -> None:
    before, after = AROUND[objects]
    few = an_object(dense(0))
    others = sum(few.replace(dense(0), "[]").count(bracket) for bracket in "[{")
    text = f"{before}{an_object(dense(MOST - others))}{after}".encode()
    assert shallow(text, objects) == text
    more = f"{before}{an_object(dense(MOST - others + 1))}{after}".encode()
    assert len(shallow(more, objects)) < 2_000


def test_a_page_may_have_more_lists_than_an_object() -> None:
    text = f'{{"items":[{",".join([an_object(dense(MOST // 2))] * 5)}],"metadata":{{}}}}'.encode()
    assert shallow(text, 3) == text


def test_a_document_that_is_no_object_of_the_api_stays_as_it_is() -> None:
    text = an_object(dense(MOST * 2)).encode()
    assert encoded(decoded(text)) == encoded(json.loads(text))


@pytest.mark.parametrize(
    "text", [b"[]" * MOST + b"]]]", b"]" + b"[]" * MOST * 2, b"[" * MOST * 2, b'"' + b"{" * MOST * 2]
)
def test_what_is_full_of_brackets_and_no_json_is_refused(text: bytes) -> None:
    for objects in (1, 2, 3):
        with pytest.raises(orjson.JSONDecodeError):
            decoded(text, objects)

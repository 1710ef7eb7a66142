"""JSON nested deeper than its readers take loses only what is too deep."""

import json
import random
import re
import sys
from types import FrameType

import orjson
import pytest
from pydantic import JsonValue

from relay_kube.nesting import DEEPEST, decoded, encoded, shallow


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
def test_dense_brackets_are_not_looked_at_one_by_one(levels: int) -> None:
    """Any tenant can write an object full of them, and all wait."""
    text, calls = b"[" * levels + b"[]," * 20_000 + b"0" + b"]" * levels, 0

    def count(_frame: FrameType, event: str, _called: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        shallow(text)
    finally:
        sys.setprofile(before)
    assert calls < 20_000 / 10

"""Which JSON has too many values to be decoded while others wait."""

import json
from random import Random

import pytest

from relay_client.crowding import is_crowded

MOST = 100


@pytest.mark.parametrize(
    ("text", "crowded"),
    [
        (b"[" + b"1," * 99 + b"1]", False),
        (b"[" + b"1," * 100 + b"1]", True),
        (b"[" * 101, True),
        (b'{"a":"' + b"{[," * 1000 + b'"}', False),
        (rb'{"a":"' + rb"\\\"," * 1000 + b'"}', False),
        (b'{"a":"\\\\",' + b'"b":[],' * 101 + b'"c":1}', True),
        (b'"",' * 200, True),
        (b'"' + b"1," * 101, False),
    ],
    ids=["at the bound", "above", "lists", "a text", "escapes", "after a backslash", "empty texts", "no end"],
)
def test_values_are_counted_outside_texts(text: bytes, *, crowded: bool) -> None:
    assert is_crowded(text, MOST) is crowded


def _some(random: Random, depth: int = 0) -> object:
    match random.randrange(4 if depth < 4 else 2):
        case 0:
            return "".join(random.choices('a\\",{[]}\n', k=random.randrange(8)))
        case 1:
            return random.randrange(9)
        case 2:
            return [_some(random, depth + 1) for _ in range(random.randrange(9))]
        case _:
            return {f'{number}",': _some(random, depth + 1) for number in range(random.randrange(9))}


def _values(value: object) -> int:
    """What separates values: a bracket that opens, and each comma."""
    match value:
        case dict() | list():
            inner = list(value.values() if isinstance(value, dict) else value)
            return 1 + max(len(inner) - 1, 0) + sum(map(_values, inner))
        case _:
            return 0


@pytest.mark.parametrize("seed", range(200))
def test_it_counts_what_decoding_finds(seed: int) -> None:
    value = _some(Random(seed))
    text, found = json.dumps(value).encode(), _values(value)
    assert [is_crowded(text, found), is_crowded(text, max(found - 1, 0))] == [False, found > 0]

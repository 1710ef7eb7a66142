"""JSON nested deeper than its readers take loses only what is too deep."""

import json

import orjson
import pytest

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

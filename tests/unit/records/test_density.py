"""Which lines are refused, or not decoded, since that would hold up all others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records import density
from relay_operator.records.density import MOST_NESTED, MOST_TEXTS, MOST_VALUES, is_dense
from tests.unit.records.streams import line, record

PARTS = [{"type": "text", "text": "Grüße"}]
ORDINARY: dict[str, dict[str, Any]] = {
    "a chat of ten thousand messages in parts": record(
        body={"messages": [{"role": "user", "content": PARTS}] * 10_000}
    ),
    "token numbers of 2,048 inputs": record(body={"input": [[12345] * 512] * 2048}),
    "2,048 texts": record(body={"input": ["a, b"] * 2048}),
    "vectors of an answer": {"data": [{"index": 1, "embedding": [-0.0123456] * 3072}] * 400},
    "a text of brackets": record(body={"input": '[{":' * MOST_NESTED}),
    "a text of commas": record(body={"input": "1," * 2 * MOST_VALUES}),
    "a text of quotes and backslashes": record(body={"input": '\\"\\\\"' * MOST_TEXTS}),
}


@pytest.mark.parametrize("ordinary", ORDINARY.values(), ids=ORDINARY)
def test_what_people_send_and_get_is_not_dense(ordinary: dict[str, Any]) -> None:
    assert not is_dense(line(ordinary))


DENSE: dict[str, object] = {
    "lists": [[]] * MOST_NESTED,
    "objects": [{}] * MOST_NESTED,
    "members": {f"{number:x}": 1 for number in range(MOST_NESTED)},
    "texts": [""] * (MOST_TEXTS + 1),
    "numbers": [1] * (MOST_VALUES + 2),
    "lists after a text that ends in a backslash": ["\\", [[]] * MOST_NESTED],
}


@pytest.mark.parametrize("dense", DENSE.values(), ids=DENSE)
def test_too_many_of_anything_is_dense(dense: object) -> None:
    assert is_dense(line(dense))


values = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a,:[{"\\')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a,:[{"\\')), inner),
)


def _counts(value: object) -> tuple[int, int, int]:
    """Lists, objects and members; texts; and commas."""
    if not isinstance(value, list | dict):
        return 0, int(isinstance(value, str)), 0
    inner = [_counts(each) for each in ([*value, *value.values()] if isinstance(value, dict) else value)]
    members = len(value) if isinstance(value, dict) else 0
    nested, texts, commas = (sum(each) for each in zip((0, 0, 0), *inner, strict=True))
    return 1 + members + nested, texts, max(len(value) - 1, 0) + commas


@given(values, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_only_what_is_outside_texts_counts(value: object, nested: int, texts: int, commas: int) -> None:
    with pytest.MonkeyPatch.context() as bounds:
        for name, most in (("MOST_NESTED", nested), ("MOST_TEXTS", texts), ("MOST_VALUES", commas)):
            bounds.setattr(density, name, most)
        given_line = json.dumps(value).encode()
        found = _counts(value)
        expected = found[0] > nested or found[1] > texts or found[2] > commas
        assert is_dense(given_line) == (expected and len(given_line) > nested)

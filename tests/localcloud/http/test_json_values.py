"""How many values a JSON text has is found out before it is parsed, in small steps."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.http.json_values import MOST_VALUES, exceeds, parsed
from tests.localcloud.support.inference import CHAT, MESSAGES, call, refusal

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

TEXTS = st.text(st.sampled_from('a,[{:"\\\\\n\u00e9'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


def values(document: Any) -> int:
    """Items and members; an empty list or object counts as one."""
    if not isinstance(document, (list, dict)):
        return 0
    inner = document.values() if isinstance(document, dict) else document
    return max(len(document), 1) + sum(map(values, inner))


@given(JSON, st.booleans())
def test_values_are_counted_as_a_parser_would(document: Any, escaped: bool) -> None:
    raw, count = json.dumps(document, ensure_ascii=escaped).encode(), values(document)
    assert [any(exceeds(raw, most)) for most in (max(count - 1, 0), count, count + 1)] == [count > 0, False, False]


@given(st.binary(max_size=60))
def test_what_is_no_json_ends_as_well(raw: bytes) -> None:
    assert len(list(exceeds(raw, 0))) <= 61


@pytest.mark.parametrize("text", ["x", "\n", "\\", '"', ",", "\u00e9"])
def test_no_step_goes_through_more_than_a_mebibyte(text: str) -> None:
    raw = json.dumps([text * (5 * 2**20), "," * MOST_VALUES]).encode()
    steps = list(exceeds(raw))
    assert (any(steps), len(steps) >= len(raw) // (2**20 + 2**17)) == (False, True)


def test_many_short_texts_are_gone_through_in_steps() -> None:
    raw = json.dumps(["a,"] * MOST_VALUES).encode()
    found = [number for number, _ in enumerate(exceeds(raw))]
    assert (len(found) >= 20, all(after - before == 1 for before, after in pairwise(found))) == (True, True)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_long_body_of_too_many_values_is_400(organization: Organization, path: str) -> None:
    text = {"role": "user", "content": "x" * 2**18}
    around = {"model": "echo", "max_tokens": 1, "messages": [text]}  # 6 values, and one that holds more
    for more, status in ((MOST_VALUES - 7, 200), (MOST_VALUES - 6, 400)):
        answer = await call(organization, "POST", path, {**around, "more": [0] * more})
        assert answer.status == status, answer.raw
    assert refusal(answer, path) == (400, "invalid_request_error", None)


def test_no_string_of_a_text_is_kept_for_the_next() -> None:
    first, second = (parsed(b'{"a key": "a secret"}') for _ in range(2))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first == second
    assert first["a key"] is not second["a key"]
    assert next(iter(first)) is not next(iter(second))

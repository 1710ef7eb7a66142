"""Texts are taken apart word by word in one pass, however much space is in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.inference import engine
from tests.localcloud.support.inference import CHAT, call, chat, events

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

SPACE = " " * 1_000_000
"""A search that begins anew at each of them, and looks at all the others, does not end while anybody waits."""
TEXTS = st.text(alphabet="ab \n\u2003é", max_size=40)


async def test_a_text_that_ends_with_much_space_is_answered(start_server: StartServer) -> None:
    organization = start_server("--ephemeral").seeded()
    for said in (f"a b{SPACE}", f"a{SPACE}b", SPACE):
        answer = await call(organization, "POST", CHAT, chat(said, stream=True))
        deltas = [data["choices"][0]["delta"] for _, data in events(answer.raw) if data != "[DONE]"]
        assert "".join(delta.get("content", "") for delta in deltas) == said
    answer = await call(organization, "POST", CHAT, chat(f"a{SPACE}b{SPACE}", max_tokens=1))
    assert answer.body["choices"][0]["message"]["content"] == "a"


@given(TEXTS, st.integers(1, 10))
def test_words_are_those_of_the_text_with_the_space_before_each(text: str, count: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "_WINDOW", 4)
        words = list(re.finditer(r"\s*\S+", text))
        assert engine.words(text) == len(words)
        shorter = text[: words[count - 1].end()] if len(words) > count else None
        assert engine.first_words(text, count) == shorter
    pieces = list(engine.pieces(text))
    assert "".join(pieces) == text
    assert [piece.rstrip() for piece in pieces if words] == [word.group() for word in words]

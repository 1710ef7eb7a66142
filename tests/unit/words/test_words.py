"""The mechanical part of plain English, held for all that the operator, its commands and the local cloud say."""

import re
from collections.abc import Iterable

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.api.reasons import REASONS
from tests.unit.words import literals
from tests.unit.words.literals import Literal, is_prose

LONGEST = 300
FILLED_IN = 12
"""Characters that are counted for what is filled into a template."""
_CLAUSE_WORDS = 6
"""A piece of a sentence, which may do without a verb, has fewer."""
_TITLES = frozenset(
    {"Field", "Definition", "definition_of", "Option", "Argument", "Rule", "TypeDoc", "Quota", "BuiltInModel", "_Need"}
    | {"get", "post", "put", "patch", "delete", "add_argument", "add_parser", "ArgumentParser"}
    | {"gauge", "counter", "histogram", "strftime", "compile", "rules", "field_rules", "basicConfig"}
)
"""What is given to these says what something is: a description or a title, not a sentence."""
_DOUBLED = re.compile(r"[.,;:!?]{2,}(?!/)|(?<=\w) [,;:.!?](?=\s|$)|\S {2,}\S|\(\s|\s\)|\.\s*\)\.")
_QUOTED = re.compile(r"'[^' ]{1,2}'|\. _ : ~ @ = \+ -|\.\.\.")
"""Signs that are spoken of."""
_VERB = re.compile(
    r"\b(?:am|is|are|was|were|be|been|has|have|had|does|did|can|cannot|could|may|might|must|will|would|[a-z]{2,}(?:ed|ing)"
    r"|(?:add|admit|adopt|allow|answer|apply|ask|begin|belong|break|broke|came|change|check|choose|close|come|commit|correct"
    r"|cost|create|cut|delete|describe|do|end|exclude|find|fit|forget|forgot|give|go|got|hold|install|keep|lack|last"
    r"|lead|leave|lend|let|lie|list|live|look|lose|make|match|name|need|own|pass|pay|print|publish|put|ran|read|recreate|redirect"
    r"|refer|refuse|rest|run|save|say|see|send|sent|set|show|stand|start|stay|stop|take|tell|told|took|try|use|wait|want"
    r"|work|write)(?:s|es)?)\b",
    re.IGNORECASE,
)
"""Verbs in the forms that messages use: one that is missing is added here."""
_AN_ID = re.compile(r"(?:^|[._])id$")
_FOREIGN = re.compile(r"(?:(?:^|\.)message|\['msg'\])$")
"""Words that somebody else may have written."""


def _length(literal: Literal) -> int:
    return sum(FILLED_IN if at % 2 else len(piece) for at, piece in enumerate(literal.pieces))


def _doubled(literal: Literal) -> bool:
    return bool(_DOUBLED.search(_QUOTED.sub("x", "{}".join(literal.pieces[::2]))))


def _without_a_verb(literal: Literal) -> bool:
    words = literal.words
    return literal.called not in _TITLES and len(words) >= _CLAUSE_WORDS and not _VERB.search(" ".join(words))


def _bare_id(literal: Literal) -> bool:
    """An id at the beginning, where no word says what it is of."""
    return any(
        _AN_ID.search(filled) and (not before.strip() or before.rstrip().endswith((":", ";", ".")))
        for before, filled, _ in literal.filled
    )


def _goes_on(literal: Literal) -> bool:
    """Somebody else's words, which may end with a full stop, with more behind them."""
    return any(_FOREIGN.search(filled) and after.strip() for _, filled, after in literal.filled)


_ERRORS = frozenset({"ApiError", "InferenceError", "Refusal"})
"""What answers of the local cloud are made of."""
_SENTENCE = re.compile(r"(?:[A-Z`{]|[a-z][\w.\[\]{}]*: ).*(?:[.)]|\})", re.DOTALL)
"""It begins with a capital letter, or with the field that it is about; at its end is a full stop."""

RULES = {
    f"it has fewer than {LONGEST} characters": lambda literal: is_prose(literal) and _length(literal) >= LONGEST,
    "no sign follows another": lambda literal: is_prose(literal) and _doubled(literal),
    "it has a verb": lambda literal: is_prose(literal) and _without_a_verb(literal),
    "a word says what an id is of": lambda literal: is_prose(literal) and _bare_id(literal),
    "what goes on behind somebody else's words cuts their full stop off (clause)": _goes_on,
}


PLANTED = dict(
    zip(
        RULES,
        (
            f'"it is {"very " * 60}long"',
            '"the key is not valid.: put another"',
            'f"{count} of seven bottles on the green wall"',
            'f"{pod_id} is not in the list"',
            'f"{error.message}: put another key"',
        ),
        strict=True,
    )
)
"""What each rule is there to find."""


def broken(rule: str, found: Iterable[Literal]) -> list[str]:
    return [f"{literal.place}: {literal.text}" for literal in found if RULES[rule](literal)]


@pytest.mark.parametrize("rule", RULES)
def test_every_text_keeps_the_rule(rule: str) -> None:
    assert broken(rule, literals.all_of_them()) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_text_that_breaks_the_rule_is_found(rule: str) -> None:
    for planted, source in PLANTED.items():
        found = literals.of_source("planted.py", f"Report({source})")
        assert bool(broken(rule, found)) == (planted == rule), source


def test_every_reason_is_explained_in_sentences() -> None:
    assert set(REASONS) == set(Reason)
    assert [doc.appears for doc in REASONS.values() if not _SENTENCE.fullmatch(doc.appears)] == []


def test_what_the_local_cloud_refuses_with_is_sentences() -> None:
    told = [literal for literal in literals.all_of_them() if literal.called in _ERRORS and is_prose(literal)]
    assert len(told) > 200
    assert [f"{text.place}: {text.text}" for text in told if not _SENTENCE.fullmatch(text.text)] == []

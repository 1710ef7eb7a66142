"""Whether an id that was paid for may still be written after somebody else wrote."""

from dataclasses import replace

import pytest

from relay_operator.engine.persist import Recorded, Records, after_conflict

INTENT = '{"token":"t0ken"}'
KNOWN = Records(INTENT, "t0ken", frozenset({"batch-1"}))
"""Of an object whose second part is being paid for."""
FIRST = Records(INTENT, "former", frozenset())
"""Of one whose attempt before was refused."""
LOST = Records("", "", frozenset())


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (KNOWN, KNOWN),
        (KNOWN, replace(KNOWN, intent="")),
        (KNOWN, LOST),
        (FIRST, FIRST),
        (FIRST, LOST),
        (FIRST, replace(LOST, intent=INTENT)),
    ],
)
def test_what_was_lost_is_nobodys_decision(known: Records, found: Records) -> None:
    assert after_conflict(known, found, "batch-2") is None


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (KNOWN, replace(KNOWN, intent="another")),
        (KNOWN, replace(KNOWN, token="another")),
        (KNOWN, replace(KNOWN, ids=frozenset())),
        (KNOWN, replace(KNOWN, ids=frozenset({"batch-1", "batch-3"}))),
        (KNOWN, replace(KNOWN, intent="", token="", ids=frozenset({"batch-3"}))),
        (KNOWN, replace(LOST, intent="another")),
        (FIRST, replace(FIRST, token="another")),
        (FIRST, replace(FIRST, ids=frozenset({"pod-3"}))),
    ],
)
def test_what_another_process_decided_stands(known: Records, found: Records) -> None:
    assert after_conflict(known, found, "batch-2") is Recorded.SUPERSEDED


@pytest.mark.parametrize("found", [replace(KNOWN, token=""), replace(LOST, intent=INTENT)])
def test_a_lost_status_is_rebuilt_by_the_search_that_its_open_intent_asks_for(found: Records) -> None:
    """Since this process read it, it may have told of another part."""
    assert after_conflict(KNOWN, found, "batch-2") is Recorded.SOUGHT


def test_an_id_that_stands_there_was_written() -> None:
    assert after_conflict(KNOWN, replace(KNOWN, ids=frozenset({"batch-1", "batch-2"})), "batch-2") is Recorded.WRITTEN

"""What an object itself shows: whose its intent is, whether it rests, and whether an attempt is waited for."""

import json
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_client.redaction import legible
from relay_operator.api.meta import INTENT_TOKEN, CreateIntent, MalformedIntent, ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import cloud_name
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import TAG, PartTag, tag_of
from relay_operator.flows.batch.plan import Phase
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, part, seen, sent, status

KEY = ObjectKey("InferenceBatch", "ns", "nightly")


@pytest.mark.parametrize(
    ("known", "phase"),
    [
        ((KEY._replace(vanished="uid-1-0a1b2c3d"), "uid-1"), Phase.ACTIVE),
        ((KEY._replace(vanished="uid-0"), "uid-0"), Phase.NEW),
        ((KEY._replace(name="original"), "uid-2"), Phase.NEW),
    ],
    ids=["its own, though one batch too much is being ended", "a former object's", "another object's"],
)
def test_without_a_status_an_intent_is(known: tuple[ObjectKey, str], phase: Phase) -> None:
    cache = Cache()
    name = cloud_name("ns", "nightly", "uid-1", "", 1)
    intent = CreateIntent(token=TOKEN, name=name, attempt=1, spec_hash="", started_at=NOON)
    cache.put(KEY, {"metadata": {"uid": "uid-1", "resourceVersion": "1"}})
    cache.put(known[0], {"metadata": {"uid": known[1], "resourceVersion": "1"}, "status": {"createToken": TOKEN}})
    assert _gatherer(cache)._recorded(KEY, batch(), intent, NOON).phase is phase


@pytest.mark.parametrize("token", ["a/b", "a\nb", "a b", "\u00e4", "a\ud83d"])
def test_an_intent_whose_token_no_tag_brings_back_is_not_read(token: str) -> None:
    """Its batches would be created, paid for, never recognized, and created again without end."""
    text = json.dumps({"token": token, "name": "n", "attempt": 1, "specHash": "", "startedAt": "2026-11-21T12:00:00Z"})
    assert isinstance(CreateIntent.parse(text), MalformedIntent)


@given(st.from_regex(INTENT_TOKEN, fullmatch=True))
def test_every_token_of_an_intent_comes_back_in_the_tag_of_a_batch(token: str) -> None:
    tag = str(tag_of(token, status(part()), part()))
    answered = legible(seen(metadata={TAG: tag}), json.dumps({TAG: tag}).encode())
    assert PartTag.of(answered, token) is not None


@pytest.mark.parametrize(("start_time", "rests"), [(None, True), (NOON, False)], ids=["the first time", "once more"])
def test_a_batch_rests_each_time_it_is_suspended(start_time: datetime | None, rests: bool) -> None:
    """Suspended before its batches were all created, it keeps `suspended` after it was resumed."""
    cut_short = status(sent(state="cancelled"), part(2), suspended=True, start_time=start_time)
    view = _gatherer(Cache())._recorded(KEY, batch(suspend=True, status=cut_short), None, NOON)
    assert view.rested is rests


@pytest.mark.parametrize(
    ("agreed", "waits"),
    [
        (None, False),
        (timedelta(), False),
        (timedelta(seconds=1), True),
        (LONGEST_WAIT, True),
        (LONGEST_WAIT + timedelta(seconds=1), False),
    ],
    ids=["nothing is agreed", "it has come", "it comes", "it comes at last", "the clock was ahead"],
)
def test_an_agreed_attempt_is_waited_for_unless_it_was_agreed_while_the_clock_was_ahead(
    agreed: timedelta | None, waits: bool
) -> None:
    generation, due = batch().metadata.generation, None if agreed is None else NOON + agreed
    told = status(observed_generation=generation, next_attempt_time=due)
    assert _gatherer(Cache())._recorded(KEY, batch(status=told), None, NOON).waiting is waits


def _gatherer(cache: Cache) -> Gatherer:
    nothing = cast("Any", None)
    return Gatherer(nothing, cache, nothing, nothing, lambda: 0.0, ConfirmationDelays(), Installation(), LONGEST_WAIT)

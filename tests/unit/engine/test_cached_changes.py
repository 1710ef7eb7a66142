"""The cache: which news of an object asks for work, and which brings nothing back."""

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import needs_work
from relay_operator.engine.tombstones import Tombstones
from tests.unit.engine.apiserver import Json
from tests.unit.engine.cached import INTENT, KEY, OTHER, OWN, annotated, raw

READY: JsonValue = [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "True", "reason": "Running"}]


def test_what_was_read_before_the_end_brings_nothing_back() -> None:
    cache = Cache()
    cache.put(KEY, raw(5))
    cache.drop(KEY, "u1", 9)
    for version, uid in ((5, "u1"), (9, "u1"), (8, "u2")):
        assert needs_work(*cache.put(KEY, raw(version, metadata={"uid": uid}))) is False
    assert cache.get(KEY) is None
    assert needs_work(*cache.put(KEY, raw(10, metadata={"uid": "u2"}))) is True
    before, after = cache.put(KEY, raw(6))
    assert (before is after, after.uid) == (True, "u2")


def test_an_end_that_is_told_of_a_former_object_covers_what_was_read_of_it() -> None:
    cache = Cache()
    cache.put(KEY, raw(12, metadata={"uid": "u2"}))
    assert cache.drop(KEY, "u1", 9) is None
    assert cache.put(KEY, raw(8))[1].uid == "u2"


def test_the_oldest_ends_are_forgotten() -> None:
    ends = Tombstones(limit=2)
    for key, version in ((KEY, 3), (OTHER, 4), (KEY, 2), (OWN, 5)):
        ends.put(key, version)
    assert [ends.covers(key, 3) for key in (KEY, OTHER, OWN)] == [True, False, True]
    assert ends.covers(KEY, 0) is False


SETTLED: dict[str, tuple[Json, bool, bool]] = {
    "ready and about this spec": ({"observedGeneration": 1, "conditions": READY}, True, True),
    "due by the clock": ({"observedGeneration": 1, "conditions": READY, "nextScheduleTime": "soon"}, True, False),
    "ready and about an older spec": ({"observedGeneration": 0, "conditions": READY}, False, False),
    "not ready": ({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "False"}]}, False, False),
    "without conditions": ({"observedGeneration": 1}, False, False),
    "of another shape": ({"observedGeneration": 1, "conditions": ["Ready"]}, False, False),
}


@pytest.mark.parametrize(("status", "ready", "settled"), SETTLED.values(), ids=SETTLED)
def test_an_object_is_ready_or_settled_when(status: Json, ready: bool, settled: bool) -> None:
    entry = Cache().put(KEY, raw(status=status))[1]
    assert (entry.ready, entry.settled) == (ready, settled)


def test_odd_metadata_does_not_end_the_watch() -> None:
    odd: Json = {"metadata": {"name": "x", "generation": "two", "resourceVersion": 7, "finalizers": "none"}, "spec": []}
    entry = Cache().put(KEY, odd)[1]
    assert (entry.uid, entry.version, entry.generation, entry.finalizer) == ("", 0, 0, False)


GUARDED: Json = annotated(create_intent=INTENT % "") | {"finalizers": [meta.FINALIZER]}
EVENTS: dict[str, tuple[Json | None, Json, bool]] = {
    "an object nobody knew": (None, raw(), True),
    "a namesake": (raw(), raw(2, metadata={"uid": "u2"}), True),
    "a new spec": (raw(), raw(2, metadata={"generation": 2}), True),
    "a deletion": (raw(), raw(2, metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}), True),
    "an annotation of ours that people set": (raw(), raw(2, metadata=annotated(paused="true")), True),
    "our finalizer taken from an account": (raw(metadata={"finalizers": [meta.FINALIZER]}), raw(2), True),
    "our finalizer taken away": (raw(metadata=GUARDED), raw(2, metadata=GUARDED | {"finalizers": []}), True),
    "our intent taken away": (raw(metadata=GUARDED), raw(2, metadata=GUARDED | {"annotations": {}}), True),
    "the id taken away": (raw(status={"id": "pod-1"}), raw(2), True),
    "our own intent": (raw(), raw(2, metadata=GUARDED), False),
    "our own status": (raw(), raw(2, status={"id": "pod-1", "state": "running"}), False),
    "a label": (raw(), raw(2, metadata={"labels": {"a": "b"}}), False),
    "another's annotation": (raw(), raw(2, metadata={"annotations": {"a": "b"}}), False),
    "nothing": (raw(), raw(), False),
}


@pytest.mark.parametrize(("before", "after", "asked"), EVENTS.values(), ids=EVENTS)
def test_what_asks_for_work(before: Json | None, after: Json, asked: bool) -> None:
    cache = Cache()
    if before is not None:
        cache.put(KEY, before)
    assert needs_work(*cache.put(KEY, after)) is asked

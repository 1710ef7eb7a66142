"""The cache: what it keeps of an object, who holds which id, and what asks for work."""

import json

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache, needs_work
from tests.unit.engine.apiserver import Json

KEY, OTHER = (ObjectKey("GpuPod", "team-a", name) for name in ("train", "other"))
READY: JsonValue = [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "True", "reason": "Running"}]
INTENT = '{"token":"t1","name":"n","attempt":1,"spec_hash":"","started_at":"2026-03-01T12:00:00Z"%s}'


def raw(version: int = 1, **changes: JsonValue) -> Json:
    """An object; changes by section: metadata, spec, status."""
    metadata: Json = {"name": "train", "uid": "u1", "generation": 1, "resourceVersion": str(version)}
    given = changes.get("metadata")
    return {"spec": {}, "status": {}, **changes, "metadata": metadata | (given if isinstance(given, dict) else {})}


def annotated(**annotations: JsonValue) -> Json:
    return {"annotations": {f"{meta.ANNOTATION_PREFIX}{name.replace('_', '-')}": v for name, v in annotations.items()}}


def test_the_newer_of_what_is_known_and_what_is_told_is_kept() -> None:
    cache = Cache()
    assert cache.put(KEY, raw(5))[0] is None
    before, after = cache.put(KEY, raw(4, status={"id": "stale"}))
    assert (before is after, after.version) == (True, 5)
    assert cache.put(KEY, raw(6, status={"id": "new"}))[1].cloud_id == "new"
    assert cache.put(KEY, raw(1, metadata={"uid": "u2"}))[1].uid == "u2"


def test_what_nobody_reads_is_not_kept() -> None:
    noise: Json = {"managedFields": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    entry = Cache().put(KEY, raw(metadata=noise))[1]
    kept = json.loads(entry.body)["metadata"]
    assert ("managedFields" in kept, kept["annotations"]) == (False, {})


def test_objects_are_listed_by_kind() -> None:
    cache = Cache()
    cache.put(KEY, raw())
    account = ObjectKey("CloudAccount", "team-a", "default")
    cache.put(account, raw())
    assert (list(cache.keys("GpuPod")), set(cache.keys()), len(cache)) == ([KEY], {KEY, account}, 2)
    assert {key for key, _ in cache.items()} == {KEY, account}


def test_only_the_very_object_is_dropped() -> None:
    cache = Cache()
    cache.put(KEY, raw(status={"id": "pod-1"}))
    cache.claim("pod-2", KEY)
    assert cache.drop(KEY, "u2") is None
    assert cache.drop(KEY, "u1") is not None
    assert cache.drop(KEY) is None
    assert cache.with_cloud_id("pod-1") == frozenset()
    assert cache.claim("pod-2", OTHER) == frozenset()


def test_an_id_is_found_by_who_records_it_now() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, status={"id": "pod-1"}))
    cache.put(OTHER, raw(1, status={"id": "pod-1"}))
    assert cache.with_cloud_id("pod-1") == {KEY, OTHER}
    cache.put(KEY, raw(2, status={"id": "pod-2"}))
    assert cache.with_cloud_id("pod-1") == {OTHER}
    assert cache.with_cloud_id("pod-2") == {KEY}
    cache.put(KEY, raw(3))
    cache.put(KEY, raw(4))
    assert cache.with_cloud_id("pod-2") == frozenset()


def test_a_create_is_found_by_its_token() -> None:
    cache = Cache()
    cache.put(KEY, raw(status={"createToken": "t1"}))
    assert cache.with_token("t1") == {KEY}
    assert cache.with_token("t2") == frozenset()


def test_an_id_is_claimed_by_one_until_it_lets_go() -> None:
    cache = Cache()
    assert cache.claim("pod-1", KEY) == frozenset()
    assert cache.claim("pod-1", OTHER) == {KEY}
    assert cache.claim("pod-1", KEY) == frozenset()
    cache.unclaim(KEY)
    assert cache.claim("pod-1", OTHER) == frozenset()
    cache.put(KEY, raw(status={"id": "pod-2"}))
    assert cache.claim("pod-2", OTHER) == {KEY}


def test_who_searches_is_who_has_an_intent_and_no_id() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, metadata=annotated(create_intent=INTENT % "")))
    assert cache.searching() == (KEY,)
    cache.put(KEY, raw(2, metadata=annotated(create_intent=INTENT % ""), status={"id": "pod-1"}))
    assert cache.searching() == ()


SENT_WITH = INTENT % ',"account":"ClusterCloudAccount/sent"'
SPEC: JsonValue = {"accountRef": {"kind": "CloudAccount", "name": "spec"}}
RECORDED: JsonValue = {"account": {"kind": "CloudAccount", "name": "recorded"}}
ACCOUNTS: dict[str, tuple[Json, tuple[str, str]]] = {
    "the default": (raw(), ("", "")),
    "the spec's": (raw(spec=SPEC), ("CloudAccount", "spec")),
    "the recorded one": (raw(spec=SPEC, status=RECORDED), ("CloudAccount", "recorded")),
    "the one a create was sent with": (
        raw(spec=SPEC, metadata=annotated(create_intent=SENT_WITH)),
        ("ClusterCloudAccount", "sent"),
    ),
    "the spec's once that create has ended": (
        raw(spec=SPEC, metadata=annotated(create_intent=SENT_WITH), status={"createToken": "t1"}),
        ("CloudAccount", "spec"),
    ),
    "the spec's where the intent names none": (
        raw(spec=SPEC, metadata=annotated(create_intent=INTENT % "")),
        ("CloudAccount", "spec"),
    ),
    "the spec's where the intent cannot be read": (
        raw(spec=SPEC, metadata=annotated(create_intent="{")),
        ("CloudAccount", "spec"),
    ),
}


@pytest.mark.parametrize(("told", "account"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_the_account_of_an_object_is(told: Json, account: tuple[str, str]) -> None:
    assert Cache().put(KEY, told)[1].account == account


SETTLED: dict[str, tuple[Json, bool]] = {
    "ready and about this spec": ({"observedGeneration": 1, "conditions": READY}, True),
    "due by the clock": ({"observedGeneration": 1, "conditions": READY, "nextScheduleTime": "soon"}, False),
    "ready and about an older spec": ({"observedGeneration": 0, "conditions": READY}, False),
    "not ready": ({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "False"}]}, False),
    "without conditions": ({"observedGeneration": 1}, False),
    "of another shape": ({"observedGeneration": 1, "conditions": ["Ready"]}, False),
}


@pytest.mark.parametrize(("status", "settled"), SETTLED.values(), ids=SETTLED)
def test_an_object_is_settled_when(status: Json, settled: bool) -> None:
    assert Cache().put(KEY, raw(status=status))[1].settled is settled


def test_odd_metadata_does_not_end_the_watch() -> None:
    odd: Json = {"metadata": {"name": "x", "generation": "two", "resourceVersion": 7, "finalizers": "none"}, "spec": []}
    entry = Cache().put(KEY, odd)[1]
    assert (entry.uid, entry.version, entry.generation, entry.protected) == ("", 0, 0, False)


GUARDED: Json = annotated(create_intent=INTENT % "") | {"finalizers": [meta.FINALIZER]}
EVENTS: dict[str, tuple[Json | None, Json, bool]] = {
    "an object nobody knew": (None, raw(), True),
    "a namesake": (raw(), raw(2, metadata={"uid": "u2"}), True),
    "a new spec": (raw(), raw(2, metadata={"generation": 2}), True),
    "a deletion": (raw(), raw(2, metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}), True),
    "an annotation of ours that people set": (raw(), raw(2, metadata=annotated(paused="true")), True),
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

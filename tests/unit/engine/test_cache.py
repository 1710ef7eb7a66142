"""The cache: what it keeps of an object, who holds which id, and what asks for work."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry, needs_work
from relay_operator.engine.index import Index
from relay_operator.engine.tombstones import Tombstones
from tests.unit.engine.apiserver import Json

KEY, OTHER = (ObjectKey("GpuPod", "team-a", name) for name in ("train", "other"))
OWN, SHARED = ObjectKey("CloudAccount", "team-a", "default"), ObjectKey("ClusterCloudAccount", "", "default")
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
    assert cache.put(KEY, raw(7, metadata={"uid": "u2"}))[1].uid == "u2"


def test_an_older_list_does_not_bring_back_what_a_namesake_has_replaced() -> None:
    cache = Cache()
    cache.put(KEY, raw(5))
    cache.put(KEY, raw(9, metadata={"uid": "u2"}))
    before, after = cache.put(KEY, raw(5))
    assert (before is after, after.uid) == (True, "u2")
    assert cache.put(KEY, raw(10, metadata={"uid": "u2"}))[1].version == 10


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


def test_who_records_an_id_is_told_of_others_that_come_and_go() -> None:
    told = Counter[ObjectKey]()
    cache = Cache(on_shared=lambda holder: told.update([holder]))
    cache.put(KEY, raw(1, status={"id": "pod-1", "createToken": "t1"}))
    assert (cache.others(KEY, "pod-1", "t1"), told) == (frozenset(), {})
    cache.put(OTHER, raw(1, status={"id": "pod-1", "createToken": "t1"}))
    assert cache.others(KEY, "pod-1") == cache.others(KEY, None, "t1") == {OTHER}
    assert told == {KEY: 1, OTHER: 1}
    cache.put(OTHER, raw(2, status={"id": "pod-2", "createToken": "t2"}))
    assert (cache.others(KEY, "pod-1", "t1"), told) == (frozenset(), {KEY: 2, OTHER: 1})
    cache.put(OTHER, raw(3, status={"id": "pod-1"}))
    cache.drop(OTHER)
    assert (cache.others(KEY, "pod-1", "t1"), told) == (frozenset(), {KEY: 4, OTHER: 2})


def test_who_records_an_id_no_more_is_told_as_it_was() -> None:
    left: list[tuple[ObjectKey, str]] = []
    cache = Cache(on_left=lambda key, entry: left.append((key, entry.cloud_id)))
    cache.put(KEY, raw(1))
    cache.put(KEY, raw(2, status={"id": "pod-1"}))
    cache.put(KEY, raw(3, status={"id": "pod-1", "state": "running"}))
    assert left == []
    cache.put(KEY, raw(4, status={"id": "pod-2"}))
    assert left == [(KEY, "pod-1")]
    cache.put(KEY, raw(5))
    cache.put(OTHER, raw(1, status={"id": "pod-2"}))
    cache.drop(OTHER)
    cache.drop(KEY)
    assert left == [(KEY, "pod-1"), (KEY, "pod-2"), (OTHER, "pod-2")]


@pytest.mark.parametrize(
    ("status", "records"),
    [
        ({"cloudName": "team-a-train-1234abcd56-c0ffe"}, True),
        ({"cloudName": "team-a-train-ffffabcd56-c0ffe"}, False),
        ({"cloudName": "by-hand"}, True),
        ({"cloudName": "by-hand", "identity": {"uid": "another"}}, False),
        ({}, True),
    ],
    ids=["its own name", "a copy of the first release", "adopted", "a copy", "neither name nor identity"],
)
def test_what_came_along_with_a_copy_is_not_recorded_by_it(status: Json, records: bool) -> None:
    cache = Cache()
    uid = "1234abcd-5678-4ef0-9abc-def012345678"
    cache.put(KEY, raw(1, metadata={"uid": uid}, status={"id": "pod-1", **status}))
    assert cache.with_cloud_id("pod-1") == ({KEY} if records else frozenset())
    cache.put(KEY, raw(2, metadata={"uid": uid, **annotated(adopt_id="pod-1")}, status={"id": "pod-1", **status}))
    assert cache.with_cloud_id("pod-1") == ({KEY} if records or "identity" not in status else frozenset())


def test_a_name_tells_which_object_gave_it() -> None:
    cache, uid = Cache(), "1234abcd-5678-4ef0-9abc-def012345678"
    cache.put(KEY, raw(1, metadata={"uid": uid}))
    for name in ("team-a-train-1234abcd56-c0ffe", "team-a-train-1234abcd56-c0ffe-7", "team-a-train-1234abcd56"):
        assert cache.with_name(name, "c0ffe", but="") == {KEY}
        assert cache.with_name(name, "c0ffe", but=uid) == frozenset()
    for name in ("team-a-train-1234abcd56-beef0", "team-a-other-1234abcd56-c0ffe", "1234abcd56", ""):
        assert cache.with_name(name, "c0ffe", but="") == frozenset()
    cache.drop(KEY)
    assert cache.with_name("team-a-train-1234abcd56-c0ffe", "c0ffe", but="") == frozenset()


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


def test_what_an_object_had_too_much_is_no_other_object_though_its_create_was_the_same() -> None:
    cache = Cache()
    status: JsonValue = {"createToken": "t1"}
    surplus, more, gone = (KEY._replace(vanished=f"u1{number}") for number in ("-1", "-2", ""))
    for key in (KEY, surplus, more):
        cache.put(key, raw(status=status))
    assert cache.others(KEY, None, "t1") == cache.creators("t1", KEY) == frozenset()
    assert cache.others(surplus, None, "t1") == {KEY}  # whose files are not to be deleted
    cache.put(gone, raw(status=status))
    assert cache.others(surplus, None, "t1") == {KEY, gone}
    assert cache.creators("t1", OTHER) == {KEY, surplus, more, gone}


def test_an_id_is_claimed_by_one_until_it_lets_go() -> None:
    cache = Cache()
    assert cache.claim("pod-1", KEY) == frozenset()
    assert cache.claim("pod-1", OTHER) == {KEY}
    assert cache.claim("pod-1", KEY) == frozenset()
    cache.unclaim(KEY)
    assert cache.claim("pod-1", OTHER) == frozenset()
    cache.put(KEY, raw(status={"id": "pod-2"}))
    assert cache.claim("pod-2", OTHER) == {KEY}
    cache.put(KEY, raw(2, status={}))
    cache.claim("pod-3", KEY)
    cache.claim("pod-4", KEY)
    assert cache.claim("pod-3", OTHER) == frozenset()


COPIED = ',"identity":{"namespace":"team-b","name":"train","uid":"u"}'
OPEN, BROKEN = annotated(create_intent=INTENT % ""), annotated(create_intent="{")
INTENTS: dict[str, tuple[Json, bool]] = {
    "an intent and nothing else": (raw(metadata=OPEN), True),
    "an intent after an older create": (raw(metadata=OPEN, status={"createToken": "t0"}), True),
    "an intent that cannot be read": (raw(metadata=BROKEN), True),
    "no intent": (raw(), False),
    "an intent whose create was refused": (raw(metadata=OPEN, status={"createToken": "t1"}), False),
    "an intent that cannot be read, and the end of an earlier create": (
        raw(metadata=BROKEN, status={"createToken": "t1"}),
        True,
    ),
    "an intent that cannot be read, and a person's answer": (raw(metadata=BROKEN, status={"createToken": "-"}), False),
    "an id": (raw(metadata=OPEN, status={"id": "pod-1"}), False),
    "an intent that came along with a copy": (raw(metadata=annotated(create_intent=INTENT % COPIED)), False),
}


@pytest.mark.parametrize(("told", "searches"), INTENTS.values(), ids=INTENTS)
def test_who_searches_is_who_has_an_open_intent_and_no_id(told: Json, searches: bool) -> None:
    cache = Cache()
    cache.put(OWN, raw())
    cache.put(KEY, told)
    assert cache.searching(OWN) == ((KEY,) if searches else ())
    cache.put(KEY, raw(2))
    assert cache.searching(OWN) == ()


def test_who_searches_does_so_in_one_account() -> None:
    cache = Cache()
    cache.put(KEY, raw(metadata=annotated(create_intent=INTENT % ',"account":"ClusterCloudAccount/sent"')))
    cache.put(OTHER, raw(metadata=OPEN, spec={"accountRef": {"kind": "CloudAccount", "name": "spec"}}))
    accounts = (ObjectKey("ClusterCloudAccount", "", "sent"), ObjectKey("CloudAccount", "team-a", "spec"))
    assert [cache.searching(account) for account in accounts] == [(KEY,), (OTHER,)]


def users(cache: Cache, account: ObjectKey) -> set[str]:
    return {key.name for key, _ in cache.users(account)}


def test_the_default_account_is_the_namespaces_own_before_the_clusters() -> None:
    cache, elsewhere = Cache(), ObjectKey("GpuPod", "team-b", "elsewhere")
    for key in (KEY, elsewhere):
        cache.put(key, raw())
    assert [users(cache, OWN), users(cache, SHARED), cache.account_of(KEY)] == [set(), set(), None]
    cache.put(SHARED, raw())
    assert [users(cache, OWN), users(cache, SHARED), cache.account_of(KEY)] == [set(), {"train", "elsewhere"}, SHARED]
    cache.put(OWN, raw())
    assert [users(cache, OWN), users(cache, SHARED), cache.account_of(KEY)] == [{"train"}, {"elsewhere"}, OWN]
    cache.drop(OWN)
    assert [users(cache, SHARED), cache.default_account("team-a")] == [{"train", "elsewhere"}, SHARED]


def test_an_account_is_used_by_who_names_it_and_by_nobody_whose_work_is_over() -> None:
    cache, named = Cache(), ObjectKey("CloudAccount", "team-a", "spec")
    cache.put(KEY, raw(1, spec=SPEC))
    assert (users(cache, named), cache.account_of(KEY)) == ({"train"}, named)
    cache.put(KEY, raw(2, spec=SPEC, status={"cleared": True}))
    assert users(cache, named) == set()
    cache.put(KEY, raw(3, spec={}))
    cache.put(OWN, raw())
    assert (users(cache, named), users(cache, OWN)) == (set(), {"train"})
    cache.drop(KEY)
    assert (users(cache, OWN), cache.account_of(KEY)) == (set(), None)


def test_accounts_and_schedules_use_no_account() -> None:
    cache = Cache(without_account=frozenset({"InferenceBatchSchedule"}))
    schedule = ObjectKey("InferenceBatchSchedule", "team-a", "nightly")
    for key in (OWN, SHARED, schedule):
        cache.put(key, raw())
    assert [users(cache, OWN), users(cache, SHARED)] == [set(), set()]
    assert [cache.account_of(key) for key in (OWN, SHARED, schedule)] == [OWN, SHARED, None]


class Unwalkable(dict[ObjectKey, Entry]):
    """Entries of which nobody looks at each."""

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("every object is looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


def test_nothing_is_found_by_looking_at_every_object() -> None:
    cache = Cache(_entries=Unwalkable())
    reference: JsonValue = {"apiVersion": meta.API_VERSION, "kind": "X", "name": "x", "uid": "o1", "controller": True}
    cache.put(OWN, raw())
    cache.put(KEY, raw(metadata=OPEN | {"ownerReferences": [reference]}, status={"createToken": "t0"}))
    cache.put(OTHER, raw(status={"id": "pod-1"}))
    assert cache.with_token("t0") == set(cache.owned_by("o1")) == {KEY}
    assert (users(cache, OWN), cache.searching(OWN)) == ({"train", "other"}, (KEY,))
    assert cache.claim("pod-1", KEY) == {OTHER}
    cache.drop(KEY)


def test_an_index_keeps_who_has_a_name_and_no_name_that_nobody_has() -> None:
    index, third = Index[str](), ObjectKey("GpuPod", "team-a", "third")
    for key in (KEY, OTHER, third):
        index.move(key, None, "a")
    assert index.of("a") == {KEY, OTHER, third}
    index.move(KEY, "a", "b")
    index.move(KEY, "b", "b")
    assert [set(index.of("a")), set(index.of("b")), set(index.names())] == [{OTHER, third}, {KEY}, {"a", "b"}]
    for key, name in ((OTHER, "a"), (third, "a"), (KEY, "b")):
        index.move(key, name, None)
    assert (index.of("a"), index.names()) == (frozenset(), ())


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
    "the spec's where the intent came along with a copy": (
        raw(spec=SPEC, metadata=annotated(create_intent=INTENT % f',"account":"ClusterCloudAccount/sent"{COPIED}')),
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

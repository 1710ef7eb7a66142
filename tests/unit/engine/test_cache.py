"""The cache: what it keeps of an object, and who holds which id, name and token."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine import cache as cache_module
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.identity import uids_in
from relay_operator.engine.index import Index
from relay_operator.engine.intent import MAX_NAME
from tests.unit.engine.apiserver import Json
from tests.unit.engine.cached import KEY, OPEN, OTHER, OWN, annotated, raw, users


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


def test_only_the_object_that_gives_a_name_or_its_successor_has_it() -> None:
    cache, uid, name = Cache(), "1234abcd-5678-4ef0-9abc-def012345678", "team-a-train-1234abcd56-c0ffe"
    cache.put(KEY, raw(1, metadata={"uid": uid}))
    successor, alike = KEY, ObjectKey("GpuPod", "team", "a-train")
    assert cache.only_giver(KEY, uid, name, "c0ffe")
    assert not any(cache.only_giver(other, "another", name, "c0ffe") for other in (successor, OTHER, alike))
    cache.drop(KEY)
    assert cache.only_giver(successor, "another", name, "c0ffe")
    assert not cache.only_giver(OTHER, "another", name, "c0ffe")
    assert not any(cache.only_giver(KEY, uid, odd, "c0ffe") for odd in ("", "training", f"{name}-x"))


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


def test_a_name_longer_than_any_object_gives_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()

    def noted(name: str) -> tuple[str, ...]:
        looked.append(name)
        return uids_in(name)

    monkeypatch.setattr(cache_module, "uids_in", noted)
    names = ["-" * (MAX_NAME - 11) + "-1234abcd56", "-" * (MAX_NAME - 10) + "-1234abcd56"]
    assert [Cache().with_name(name, "c0ffe", but="") for name in names] == [frozenset(), frozenset()]
    assert looked == names[:1]


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
    cache.put(gone, raw(status=status))
    for key in (KEY, surplus, gone):
        assert cache.others(key, None, "t1") == cache.creators("t1", key) == frozenset()
    assert [cache.has_living(key, "u1") for key in (KEY, surplus, gone)] == [False, True, True]
    assert not cache.has_living(surplus, "u2")
    former = KEY._replace(vanished="u0")
    cache.put(former, raw(status=status, metadata={"uid": "u0"}))
    assert cache.creators("t1", former) == {KEY, surplus, more, gone}
    assert cache.creators("t1", KEY) == {former}
    cache.drop(former)
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
    assert cache.with_token("t0") == set(cache.owned_by(ObjectKey("X", "", "x"), "o1")) == {KEY}
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

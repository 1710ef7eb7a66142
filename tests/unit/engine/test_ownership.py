"""Which object controls which: found by the owner's uid, and the owner told of what matters to it."""

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import API_VERSION, ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.ownership import Owned
from tests.unit.engine.apiserver import Json

KEY, OTHER = (ObjectKey("InferenceBatch", "team-a", name) for name in ("nightly-1", "nightly-2"))
OWNER, STEPFATHER = (ObjectKey("InferenceBatchSchedule", "team-a", name) for name in ("nightly", "weekly"))


def reference(owner: ObjectKey = OWNER, uid: str = "s1", **changes: JsonValue) -> Json:
    known: Json = {"apiVersion": API_VERSION, "kind": owner.kind, "name": owner.name, "uid": uid, "controller": True}
    return known | changes


def raw(version: int = 1, *references: Json, status: JsonValue = None, **metadata: JsonValue) -> Json:
    """A batch of team-a, created at noon."""
    known: Json = {
        "namespace": "team-a",
        "uid": "u1",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "ownerReferences": list(references),
    }
    return {"metadata": known | metadata, "status": status}


def ended(kind: str, status: str = "True") -> Json:
    ending: Json = {"type": kind, "status": status, "lastTransitionTime": "2026-11-21T13:00:00Z"}
    return {"conditions": ["odd", {"type": "Ready", "status": "True"}, ending]}


def told_by(cache: Cache) -> list[ObjectKey]:
    """Collects the owners that are told."""
    told: list[ObjectKey] = []
    cache.on_owned = told.append
    return told


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (None, ("", "")),
        ({"conditions": "odd"}, ("", "")),
        (ended("Complete", "False"), ("", "")),
        (ended("Complete"), ("Complete", "2026-11-21T13:00:00Z")),
        (ended("Failed"), ("Failed", "2026-11-21T13:00:00Z")),
    ],
)
def test_what_an_owner_asks_is_known_without_parsing(status: JsonValue, ending: tuple[str, str]) -> None:
    entry = Cache().put(KEY, raw(1, reference(), status=status))[1]
    assert (entry.owned, entry.created) == (Owned(OWNER, "s1", *ending), "2026-11-21T12:00:00Z")


@pytest.mark.parametrize(
    "references",
    [None, [], ["odd"], [reference(controller=False)], [reference(apiVersion="batch/v1")]],
    ids=["none", "empty", "odd", "not in control", "another group"],
)
def test_only_an_object_of_the_group_that_controls_is_an_owner(references: JsonValue) -> None:
    assert Cache().put(KEY, raw(ownerReferences=references))[1].owned is None


def test_what_an_object_controls_is_found_by_its_uid() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, reference()))
    cache.put(OTHER, raw(1, reference(), uid="u2"))
    assert set(cache.owned_by(OWNER, "s1")) == {KEY, OTHER}
    cache.put(KEY, raw(2, reference(STEPFATHER, "s2")))
    assert (set(cache.owned_by(OWNER, "s1")), set(cache.owned_by(STEPFATHER, "s2"))) == ({OTHER}, {KEY})
    cache.drop(OTHER)
    cache.put(KEY, raw(3))
    assert (cache.owned_by(OWNER, "s1"), cache.owned_by(STEPFATHER, "s2")) == ({}, {})


@pytest.mark.parametrize(
    "elsewhere", [OWNER._replace(namespace="another"), STEPFATHER], ids=["in another namespace", "of another name"]
)
def test_who_writes_the_uid_of_anothers_is_not_its_own(elsewhere: ObjectKey) -> None:
    """Kubernetes deletes an object with an owner elsewhere, unless it has a finalizer."""
    cache = Cache()
    key = KEY._replace(namespace=elsewhere.namespace)
    cache.put(key, raw(1, reference(elsewhere), namespace=elsewhere.namespace))
    assert cache.owned_by(OWNER, "s1") == {}


def test_an_owner_is_told_of_what_comes_finishes_begins_to_go_and_goes() -> None:
    cache = Cache()
    told = told_by(cache)
    courses: list[tuple[str, Json]] = [
        ("comes", raw(1, reference())),
        ("finishes", raw(3, reference(), status=ended("Complete"))),
        ("begins to go", raw(4, reference(), status=ended("Complete"), deletionTimestamp="2026-11-21T14:00:00Z")),
    ]
    for what, seen in courses:
        cache.put(KEY, seen)
        assert told == [OWNER], what
        told.clear()
    cache.drop(KEY)
    assert told == [OWNER]


def test_an_owner_is_not_told_of_progress_nor_of_what_nobody_owns() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, reference()))
    told = told_by(cache)
    cache.put(KEY, raw(2, reference(), status={"progressPercent": 40}))
    cache.put(KEY, raw(2, reference(), status={"progressPercent": 40}))
    cache.put(OTHER, raw(1))
    cache.put(OTHER, raw(2, deletionTimestamp="2026-11-21T14:00:00Z"))
    cache.drop(OTHER)
    assert told == []


def test_both_owners_are_told_where_one_takes_over_from_the_other() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, reference()))
    told = told_by(cache)
    cache.put(KEY, raw(2, reference(STEPFATHER, "s2")))
    assert set(told) == {OWNER, STEPFATHER}


def test_nobody_needs_to_listen() -> None:
    cache = Cache()
    cache.put(KEY, raw(1, reference()))
    assert len(cache) == 1

"""What an object is counted with in a budget, from its intent and its status."""

import sys

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.commitment import NOTHING, Commitment
from tests.unit.engine.apiserver import Json

OWN, SHARED = ObjectKey("CloudAccount", "team-a", "default"), ObjectKey("ClusterCloudAccount", "", "default")
RESERVED = '"reserved":{"token":"r1","cents":300,"gpus":3}'
TOKEN = '"token":"t1","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z"'
REF: JsonValue = {"kind": "CloudAccount", "name": "default"}


def pod(intent: str = "", spec: Json | None = None, version: int = 1, **status: JsonValue) -> Json:
    annotations: Json = {CREATE_INTENT: intent} if intent else {}
    metadata: Json = {"uid": "u", "resourceVersion": str(version), "annotations": annotations}
    return {"metadata": metadata, "spec": {"accountRef": REF, **(spec or {})}, "status": status}


def cache() -> Cache:
    return Cache(priced=frozenset({"GpuPod", "GpuCluster"}))


def mine(known: Cache) -> Commitment:
    return known.committed(OWN).get("team-a", NOTHING)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (pod(), NOTHING),
        (pod(former=[{"id": "old", "name": "x", "gpus": 2, "pricePerHourCents": 400}]), Commitment(400, 2, 400)),
        (pod(former=[{"id": "old", "name": "x", "gpus": 2}]), Commitment(0, 2, unpriced=1)),
        (pod(former=[{"id": "stopped", "name": "x"}, "garbage"]), NOTHING),
        (
            pod(
                f"{{{TOKEN},{RESERVED}}}",
                former=[{"id": "old", "name": "x", "gpus": 2, "pricePerHourCents": 400}],
            ),
            Commitment(700, 5, 400),
        ),
        (pod(f"{{{TOKEN}}}"), Commitment(unpriced=1)),
        (pod("garbage"), Commitment(unpriced=1)),
        (pod("garbage", createToken="t0"), Commitment(unpriced=1)),
        (pod("garbage", createToken="-"), NOTHING),
        (pod(f"{{{TOKEN},{RESERVED}}}"), Commitment(300, 3)),
        (pod(f"{{{TOKEN},{RESERVED}}}", createToken="t1"), NOTHING),
        (pod(id="p", state="running", pricePerHourCents=200, gpuCount=2), Commitment(200, 2, 200)),
        (pod(id="p", state="pending", pricePerHourCents=200, gpuCount=2), Commitment(200, 2)),
        (pod(id="p", state="interrupted", pricePerHourCents=200), Commitment(200)),
        (pod(id="p", state="running", gpuCount=2), Commitment(0, 2, unpriced=1)),
        (pod(id="p", state="stopped", pricePerHourCents=200), NOTHING),
        (pod(id="p", state="terminated"), NOTHING),
        (pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="stopped"), Commitment(300, 3)),
        (pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="stopped", reservationToken="r1"), NOTHING),
        (
            pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="running", pricePerHourCents=100, gpuCount=1),
            Commitment(300, 3, 100),
        ),
        (pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="pending"), Commitment(300, 3)),
        (
            pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="running", pricePerHourCents=9, reservationToken="r1"),
            Commitment(9, 0, 9),
        ),
        (pod("garbage", id="p", state="running", pricePerHourCents=9), Commitment(9, 0, 9)),
        (pod('{"reserved":1}', id="p", state="running", pricePerHourCents=9), Commitment(9, 0, 9)),
        (
            pod(spec={"gpu": {"count": 4}}, id="c", state="running", replicas=3, pricePerHourCents=12),
            Commitment(12, 12, 12),
        ),
        (
            pod(spec={"gpu": {"modelId": "h100"}}, id="c", state="running", replicas=3, pricePerHourCents=12),
            Commitment(12, 3, 12),
        ),
        (pod(id="c", state="degraded", replicas=4, readyReplicas=1, pricePerHourCents=800), Commitment(800, 0, 200)),
        (
            pod(id="d", state="degraded", replicas=1, desiredReplicas=4, readyReplicas=1, pricePerHourCents=800),
            Commitment(800, 0, 200),
        ),
        (pod(id="c", state="degraded", replicas=2, readyReplicas=3, pricePerHourCents=800), Commitment(800, 0, 800)),
        (
            pod(id="c", state="provisioning", replicas=4, readyReplicas=3, pricePerHourCents=800),
            Commitment(800, 0, 600),
        ),
        (
            pod(id="c", state="provisioning", replicas=2, readyReplicas=2, pricePerHourCents=800),
            Commitment(800, 0, 800),
        ),
        (pod(id="v", state="provisioning", pricePerHourCents=800), Commitment(800)),
    ],
)
def test_one_object(raw: Json, expected: Commitment) -> None:
    known = cache()
    known.put(ObjectKey("GpuPod", "team-a", "p"), raw)
    assert known.committed(OWN) == ({} if expected == NOTHING else {"team-a": expected})


@pytest.mark.parametrize(
    ("raw", "reserved"),
    [
        (pod(f"{{{TOKEN},{RESERVED}}}"), Commitment(300, 3)),
        (pod(f"{{{TOKEN}}}"), Commitment(unpriced=1)),
        (pod("garbage", id="p", state="running", pricePerHourCents=9), NOTHING),
        (pod(id="p", state="running", pricePerHourCents=200), NOTHING),
        (
            pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="running", pricePerHourCents=100, gpuCount=1),
            Commitment(200, 2),
        ),
        (
            pod(f"{{{TOKEN},{RESERVED}}}", id="p", state="running", pricePerHourCents=9, reservationToken="r1"),
            NOTHING,
        ),
        (
            pod(f"{{{TOKEN},{RESERVED}}}", former=[{"id": "old", "name": "x", "gpus": 2, "pricePerHourCents": 400}]),
            Commitment(300, 3),
        ),
    ],
)
def test_what_only_the_intent_of_an_object_tells(raw: Json, reserved: Commitment) -> None:
    known, key = cache(), ObjectKey("GpuPod", "team-a", "p")
    known.put(key, raw)
    assert known.reserved(OWN) == ({} if reserved == NOTHING else {"team-a": reserved})
    known.drop(key)
    assert (known.reserved(OWN), known.committed(OWN)) == ({}, {})


def test_sums_follow_every_change_and_end_with_the_objects() -> None:
    known, freed = cache(), list[tuple[ObjectKey, str]]()
    known.on_freed = lambda *whose: freed.append(whose)
    first, second = (ObjectKey("GpuPod", "team-a", name) for name in ("a", "b"))
    known.put(first, pod(id="p", state="running", pricePerHourCents=200))
    known.put(second, pod(f"{{{TOKEN},{RESERVED}}}"))
    assert (mine(known), freed) == (Commitment(500, 3, 200), [])
    known.put(first, pod(version=2, id="p", state="stopped", pricePerHourCents=200))
    assert (mine(known), freed) == (Commitment(300, 3), [(OWN, "team-a")])
    known.drop(second)
    assert (mine(known), freed) == (NOTHING, [(OWN, "team-a")] * 2)
    known.drop(first)
    assert len(freed) == 2


def test_what_costs_nothing_by_the_hour_and_what_has_no_account_count_nowhere() -> None:
    known, freed = cache(), list[tuple[ObjectKey, str]]()
    known.on_freed = lambda *whose: freed.append(whose)
    key = ObjectKey("ApiKey", "team-a", "k")
    known.put(key, pod(f"{{{TOKEN}}}"))
    assert known.committed(OWN) == {}
    lonely = ObjectKey("GpuPod", "team-a", "p")
    known.put(lonely, pod(spec={"accountRef": None}, id="p", state="running", pricePerHourCents=200))
    known.drop(lonely)
    assert (mine(known), freed) == (NOTHING, [])


def test_who_names_no_account_counts_for_the_default_that_there_is() -> None:
    known = cache()
    known.put(SHARED, pod())
    known.put(
        ObjectKey("GpuPod", "team-a", "p"),
        pod(spec={"accountRef": None}, id="p", state="running", pricePerHourCents=200),
    )
    assert (known.committed(SHARED)["team-a"].cents, known.committed(OWN)) == (200, {})
    known.put(OWN, pod())
    assert (known.committed(SHARED), known.committed(OWN)["team-a"].cents) == ({}, 200)


def calls_of(known: Cache, account: ObjectKey) -> int:
    """How many functions a sum calls."""
    called = 0

    def count(*_: object) -> None:
        nonlocal called
        called += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        known.committed(account)
    finally:
        sys.setprofile(before)
    return called


@pytest.mark.parametrize("account", [OWN, SHARED])
def test_a_sum_does_not_look_at_what_others_name(account: ObjectKey) -> None:
    """Anybody can name thousands of accounts that do not exist, and everybody waits for a sum."""
    known = Cache(priced=frozenset({"GpuPod"}))
    before = calls_of(known, account)
    for number in range(100):
        spec: Json = {"accountRef": {"kind": account.kind, "name": f"none-{number}"}}
        metadata: Json = {"uid": f"u-{number}", "resourceVersion": "1"}
        status: Json = {"id": "p", "state": "running", "pricePerHourCents": 100}
        raw: Json = {"metadata": metadata, "spec": spec, "status": status}
        known.put(ObjectKey("GpuPod", "team-a", f"n-{number}"), raw)
    other = account._replace(name="none-1")
    assert known.committed(other) == {"team-a": Commitment(100, 0, 100)}
    assert calls_of(known, account) == before

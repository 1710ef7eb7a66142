"""An id is one of a cloud: objects of other clouds that record it have something else."""

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import endpoint_of
from tests.unit.engine.cached import KEY, OTHER, OWN, raw

DEFAULT, REAL, INFERENCE = "https://default.example", "https://real.example", "https://inference.example"
OWNS = ObjectKey("CloudAccount", "team-b", "default")
THEIRS = ObjectKey("GpuPod", "team-b", "theirs")
BATCH = ObjectKey("InferenceBatch", "team-b", "theirs")


def known(**urls: str) -> Cache:
    """A cache with two accounts, of which that of team-b names these URLs."""
    cache = Cache(endpoints=(endpoint_of(DEFAULT), endpoint_of(INFERENCE)))
    told: dict[str, JsonValue] = {"apiKeySecretRef": {}, **urls}
    cache.put(OWN, raw(spec={"apiKeySecretRef": {}}, metadata={"name": "default"}))
    cache.put(OWNS, raw(spec=told, metadata={"name": "default"}))
    cache.put(KEY, raw(status={"id": "pod-1"}))
    return cache


def made(url: str, cloud_id: str = "pod-1") -> JsonValue:
    return {"id": cloud_id, "identity": {"uid": "u1", "endpoint": endpoint_of(url)}}


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("https://cloud.example", "https://cloud.example/"),
        ("https://cloud.example/v1", "HTTPS://Cloud.Example:443/v1/"),
        ("http://cloud.example:80", "http://cloud.example"),
    ],
)
def test_one_url_has_several_spellings(one: str, another: str) -> None:
    assert endpoint_of(one) == endpoint_of(another) != ""


@pytest.mark.parametrize("another", ["http://cloud.example", "https://cloud.example:8443", "https://cloud.example/v2"])
def test_other_urls_are_other_clouds(another: str) -> None:
    assert endpoint_of("https://cloud.example") != endpoint_of(another)


@pytest.mark.parametrize("url", ["", "cloud", "https://", "https://cloud.example:port", "https://[::1"])
def test_what_is_not_a_url_is_no_cloud(url: str) -> None:
    assert endpoint_of(url) == ""


@pytest.mark.parametrize(
    ("urls", "counts"), [({}, True), ({"baseUrl": DEFAULT + "/"}, True), ({"baseUrl": REAL}, False)]
)
def test_who_uses_another_cloud_has_something_else(urls: dict[str, str], *, counts: bool) -> None:
    woken = list[ObjectKey]()
    cache = known(**urls)
    cache.on_shared = woken.append
    cache.put(THEIRS, raw(status={"id": "pod-1"}))
    assert cache.others(KEY, "pod-1") == ({THEIRS} if counts else frozenset())
    assert cache.others(THEIRS, "pod-1") == ({KEY} if counts else frozenset())
    assert set(woken) == ({KEY, THEIRS} if counts else set())
    woken.clear()
    cache.drop(THEIRS)
    assert woken == ([KEY] if counts else [])


def test_the_claim_of_an_object_of_another_cloud_holds_up_nobody() -> None:
    cache = known(baseUrl=REAL)
    cache.put(THEIRS, raw(status={}))
    assert (cache.claim("pod-2", THEIRS), cache.claim("pod-2", KEY)) == (frozenset(), frozenset())
    cache.put(OTHER, raw(status={}))
    assert cache.claim("pod-2", OTHER) == {KEY}


def test_what_was_made_in_one_cloud_stays_in_it_whatever_its_account_calls_now() -> None:
    cache = known(baseUrl=DEFAULT)
    cache.put(THEIRS, raw(status=made(REAL)))
    assert (cache.others(KEY, "pod-1"), cache.endpoint_of(THEIRS)) == (frozenset(), endpoint_of(REAL))
    cache.put(THEIRS, raw(2, status=made(DEFAULT)))
    assert cache.others(KEY, "pod-1") == {THEIRS}


@pytest.mark.parametrize("namespace", ["team-a", "team-b"])
def test_an_object_of_the_same_namespace_or_account_counts_whatever_its_cloud(namespace: str) -> None:
    cache, shared = known(), ObjectKey("ClusterCloudAccount", "", "shared")
    ref: JsonValue = {"kind": "ClusterCloudAccount", "name": "shared"}
    cache.put(shared, raw(spec={"apiKeySecretRef": {}}))
    cache.put(KEY, raw(2, spec={"accountRef": ref}, status=made(REAL)))
    other = ObjectKey("GpuPod", namespace, "other")
    cache.put(other, raw(spec={} if namespace == "team-a" else {"accountRef": ref}, status=made(DEFAULT)))
    assert cache.others(KEY, "pod-1") == {other}
    assert cache.others(shared, "pod-1") == {KEY, other}


def test_an_account_finds_what_its_own_cloud_gave_an_id() -> None:
    cache = known(baseUrl=REAL)
    assert cache.others(OWN, "pod-1") == {KEY}
    assert cache.others(OWNS, "pod-1") == frozenset()


def test_an_object_without_an_account_is_in_no_cloud_that_anybody_uses() -> None:
    cache = known()
    lost: JsonValue = {"accountRef": {"kind": "CloudAccount", "name": "gone"}}
    cache.put(THEIRS, raw(spec=lost, status={"id": "pod-1"}))
    assert cache.others(KEY, "pod-1") == frozenset()
    assert cache.endpoint_of(THEIRS) == cache.endpoint_of(THEIRS._replace(name="unknown")) == ""


def test_the_ids_of_batches_are_those_of_the_inference_api() -> None:
    cache = known(baseUrl=REAL)
    mine = BATCH._replace(namespace="team-a")
    for key in (mine, BATCH):
        cache.put(key, raw(status={"id": "batch-1"}))
    assert cache.others(mine, "batch-1") == {BATCH}
    assert cache.endpoint_of(BATCH) == endpoint_of(INFERENCE)

"""An id is one of a cloud: objects of other clouds that record it have something else."""

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.endpoints import Endpoints, called
from tests.unit.engine.cached import KEY, OTHER, OWN, raw

DEFAULT, REAL, INFERENCE = "https://default.example", "https://real.example", "https://inference.example"
OWNS = ObjectKey("CloudAccount", "team-b", "default")
THEIRS = ObjectKey("GpuPod", "team-b", "theirs")
BATCH = ObjectKey("InferenceBatch", "team-b", "theirs")


def known(**urls: str) -> Cache:
    """A cache with two accounts, of which that of team-b names these URLs."""
    cache = Cache(urls=(DEFAULT, INFERENCE))
    told: dict[str, JsonValue] = {"apiKeySecretRef": {}, **urls}
    cache.put(OWN, raw(spec={"apiKeySecretRef": {}}, metadata={"name": "default"}))
    cache.put(OWNS, raw(spec=told, metadata={"name": "default"}))
    cache.put(KEY, raw(status={"id": "pod-1"}))
    return cache


def made(url: str, cloud_id: str = "pod-1") -> JsonValue:
    return {"id": cloud_id, "identity": {"uid": "u1", "endpoint": called(url, "").management}}


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("https://cloud.example", "https://cloud.example/"),
        ("https://cloud.example/v1", "HTTPS://Cloud.Example:443/v1/"),
        ("http://cloud.example:80", "http://cloud.example"),
    ],
)
def test_one_url_has_several_spellings(one: str, another: str) -> None:
    assert called(one, "").management == called(another, "").management != ""


@pytest.mark.parametrize("another", ["http://cloud.example", "https://cloud.example:8443", "https://cloud.example/v2"])
def test_other_urls_are_other_clouds(another: str) -> None:
    assert called("https://cloud.example", "").management != called(another, "").management


@pytest.mark.parametrize("url", ["cloud", "https://", "https://cloud.example:port", "https://[::1"])
def test_what_cannot_be_called_is_a_cloud_of_its_own(url: str) -> None:
    assert called(url, "").management not in {"", called("https://cloud.example", "").management}


def test_without_a_url_nothing_is_known() -> None:
    assert called("", "") == Endpoints("", "")
    assert called("", INFERENCE) == Endpoints("", "")


def test_without_an_inference_api_batches_are_in_no_others_cloud() -> None:
    assert called(REAL, "").inference not in {"", called(DEFAULT, "").inference, called(REAL, INFERENCE).inference}


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
    assert (cache.others(KEY, "pod-1"), cache.endpoint(THEIRS)) == (frozenset(), called(REAL, "").management)
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


def test_an_object_without_an_account_may_be_in_any_cloud_unless_it_records_one() -> None:
    cache = known()
    lost: JsonValue = {"accountRef": {"kind": "CloudAccount", "name": "gone"}}
    cache.put(THEIRS, raw(spec=lost, status={"id": "pod-1"}))
    assert cache.others(KEY, "pod-1") == {THEIRS}
    assert cache.endpoint(THEIRS) == cache.endpoint(THEIRS._replace(name="unknown")) == ""
    cache.put(THEIRS, raw(2, spec=lost, status=made(REAL)))
    assert cache.others(KEY, "pod-1") == frozenset()


def test_the_ids_of_batches_are_those_of_the_inference_api_and_of_an_organization_of_the_other() -> None:
    mine = BATCH._replace(namespace="team-a")
    for urls, holders in (({}, {BATCH}), ({"inferenceUrl": REAL}, set[ObjectKey]()), ({"baseUrl": REAL}, set())):
        cache = known(**urls)
        for key in (mine, BATCH):
            cache.put(key, raw(status={"id": "batch-1"}))
        assert cache.others(mine, "batch-1") == frozenset(holders)
        assert cache.others(OWN, "batch-1") == {mine} | holders
    assert cache.endpoint(mine) == called(DEFAULT, INFERENCE).inference != cache.endpoint(BATCH)


def test_a_token_is_one_of_a_kind_and_of_a_cloud() -> None:
    cache = known(baseUrl=REAL)
    first, other = (BATCH._replace(namespace="team-a", name=name) for name in ("first", "other"))
    for key in (first, other, BATCH, KEY._replace(name="pod")):
        cache.put(key, raw(status={"createToken": "t1"}))
    assert cache.others(first, None, "t1") == cache.creators("t1", first) == {other}


def test_a_pod_and_a_batch_are_compared_by_what_each_api_belongs_to() -> None:
    cache = known()
    cache.put(KEY, raw(2, status=made(REAL)))
    cache.put(BATCH, raw(status={"id": "pod-1"}))
    assert cache.others(KEY, "pod-1") == {BATCH}


def test_a_claim_is_about_the_cloud_that_showed_the_id() -> None:
    """The object is paused, and its account has another URL by now."""
    cache = known(baseUrl=REAL)
    cache.put(THEIRS, raw(status={}))
    cache.claim("pod-2", THEIRS)
    cache.put(OWNS, raw(2, spec={"apiKeySecretRef": {}}, metadata={"name": "default"}))
    assert cache.claim("pod-2", KEY) == frozenset()
    cache.unclaim(THEIRS)
    assert cache.claim("pod-2", THEIRS) == {KEY}


def test_a_claim_is_about_the_cloud_that_was_called_though_the_account_has_another_url_by_then() -> None:
    cache = known()
    cache.put(THEIRS, raw(status={}))
    assert cache.claim("pod-1", THEIRS, called(REAL, "").management) == frozenset()
    assert cache.claim("pod-1", KEY) == frozenset()
    assert cache.claim("pod-1", THEIRS) == {KEY}

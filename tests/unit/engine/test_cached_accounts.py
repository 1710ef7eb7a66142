"""The cache: which account an object uses, and who uses an account or searches in it."""

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import Installation
from tests.unit.engine.apiserver import Json
from tests.unit.engine.cached import BROKEN, INTENT, KEY, OPEN, OTHER, OWN, SHARED, annotated, raw, users

COPIED = ',"identity":{"namespace":"team-b","name":"train","uid":"u"}'

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


@pytest.mark.parametrize(
    ("installation", "uid", "believed"),
    [
        ("c0ffe", "u1", True),
        ("c0ffe", "restored", True),
        ("other", "u1", True),  # the setting changed: the pass stops, and uses no account
        ("other", "restored", False),
    ],
)
def test_an_intent_counts_if_the_pass_believes_it(installation: str, uid: str, believed: bool) -> None:
    who = f',"identity":{{"installation":"{installation}","namespace":"team-a","name":"train","uid":"{uid}"}}'
    metadata = annotated(create_intent=INTENT % f',"account":"ClusterCloudAccount/sent"{who}')
    cache = Cache(installation=Installation("c0ffe"))
    entry = cache.put(KEY, raw(spec=SPEC, metadata={**metadata, "namespace": "team-a"}))[1]
    assert entry.account == (("ClusterCloudAccount", "sent") if believed else ("CloudAccount", "spec"))
    assert (entry.searching, entry.committed.unpriced) == (believed, int(believed))

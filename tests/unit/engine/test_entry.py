"""What is asked of an object without parsing it."""

from datetime import UTC, datetime

import orjson
import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, ObjectKey
from relay_operator.engine import entry as entry_module
from relay_operator.engine.entry import Entry, entry_of
from tests.unit.engine.apiserver import Json

ADOPTED = CreateIntent(
    token="t", name="pod-1", attempt=1, spec_hash="", started_at=datetime(2026, 3, 1, tzinfo=UTC)
).to_annotation()


def entry(**said: Json) -> Entry:
    metadata: Json = {"name": "train", "namespace": "team-a", "uid": "1", **said.get("metadata", {})}
    return entry_of({**said, "metadata": metadata}, "")


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"metadata": {"annotations": {"gpurelay.dev/adopt-id": "pod-1"}}}, True),
        ({"status": {"id": "pod-1"}}, True),
        ({"status": {"id": "pod-2", "conditions": [{"type": "LateCreate", "message": "pod-1 is being ended"}]}}, False),
        ({"status": {"attempt": 1, "parts": [{"batchId": "pod-1"}]}}, True),
        ({"metadata": {"annotations": {CREATE_INTENT: ADOPTED}}}, True),
        ({"metadata": {"annotations": {"gpurelay.dev/adopt-id": "pod-12"}}, "status": {"id": "my-pod-1"}}, False),
        ({"metadata": {"annotations": {"note": "pod-1"}}, "spec": {"image": "pod-1"}}, False),
        ({}, False),
    ],
    ids=[
        "an annotation",
        "status",
        "a condition alone",
        "a part",
        "an intent",
        "longer ids",
        "anywhere else",
        "nothing",
    ],
)
def test_an_object_says_the_ids_that_it_records_or_asks_for(said: dict[str, Json], *, says: bool) -> None:
    assert entry(**said).says("pod-1") is says


def test_what_people_may_make_large_is_not_parsed_for_what_is_known_of_it() -> None:
    labels: Json = {"e": "e", "gpurelay.dev/cost-center": "ml"}
    metadata: Json = {"labels": labels, "creationTimestamp": "2026-03-01T12:00:00Z"}
    one = entry(metadata=metadata, status={"id": "pod-1", "state": "running"})
    blank = one._replace(body=b"e" * one.status_at + one.body[one.status_at :])
    assert (blank.says("pod-1"), blank.says("e"), blank.cost_center, blank.created, blank.status()) == (
        True,
        False,
        "ml",
        "2026-03-01T12:00:00Z",
        {"id": "pod-1", "state": "running"},
    )
    assert orjson.loads(one.body)["status"] == one.status()
    assert entry().status() == {}


def test_it_is_paused_if_people_say_so() -> None:
    held: Json = {"annotations": {"gpurelay.dev/paused": "true"}}
    assert [entry(metadata=held).paused, entry().paused] == [True, False]


def test_nothing_of_it_is_ended_while_it_is_paused_or_only_plans() -> None:
    held: list[Json] = [{"annotations": {f"gpurelay.dev/{name}": "true"}} for name in ("paused", "plan-only")]
    assert [entry(metadata=one).spared for one in [*held, {}]] == [True, True, False]


def test_what_was_given_to_what_is_put_aside_is_held_too() -> None:
    given: Json = {"kind": "RegistryCredential", "name": "ghcr", "id": "rc-1"}
    rows: Json = {"former": [{"id": "old", "name": "x", "references": [given]}, {"id": "older", "name": "y"}]}
    assert entry(status=rows).held == (ObjectKey("RegistryCredential", "team-a", "ghcr"),)


def test_what_is_nested_too_deeply_is_kept_so_far_that_it_is_still_refused() -> None:
    deep: Json = {}
    for _ in range(900):
        deep = {"a": deep}
    with pytest.raises(ValidationError, match="recursion limit"):
        TypeAdapter(dict[str, JsonValue]).validate_json(entry(spec={"inline": [{"body": deep}]}).body)


def test_only_the_status_is_looked_through_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """People can make the rest as large as etcd takes."""
    monkeypatch.setattr(entry_module, "_texts", None)
    labels: Json = {"labels": {"of": "pod-1"}}
    assert not entry(metadata=labels, status={"state": "running"}).says("pod-1")
    assert not entry(metadata=labels).says("pod-1")


@pytest.mark.parametrize("failed", ["True", "False"])
def test_what_has_failed_for_good_waits_for_nobody(failed: str) -> None:
    told: JsonValue = [{"type": "Stalled", "status": "True"}, {"type": "Failed", "status": failed}]
    assert entry(status={"conditions": told}).troubles == (("Failed",) if failed == "True" else ("Stalled",))

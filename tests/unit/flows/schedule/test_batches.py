"""The batches of a schedule: how they are read from the cache, and the manifest of a new one."""

import pytest
from pydantic import JsonValue
from pydantic_core import to_json

from relay_kube.kube import JsonObject
from relay_operator.api.inferencebatchschedule import InferenceBatchSchedule
from relay_operator.api.meta import API_VERSION, FINALIZER, ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.flows.schedule.batches import KIND, children, controlled_by, filled, manifest, one_output
from relay_operator.flows.schedule.decide import Child, Outcome, StartBatch
from tests.unit.flows.schedule.views import NOON, at

SCHEDULE = ObjectKey("InferenceBatchSchedule", "team-a", "nightly")
OWNER: JsonObject = {
    "apiVersion": API_VERSION,
    "kind": SCHEDULE.kind,
    "name": SCHEDULE.name,
    "uid": "s1",
    "controller": True,
}


def batch(**metadata: JsonValue) -> JsonObject:
    known: JsonObject = {
        "uid": "u1",
        "namespace": "team-a",
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "ownerReferences": [OWNER],
    }
    return {"metadata": known | metadata}


def nightly(template: JsonValue, **spec: JsonValue) -> InferenceBatchSchedule:
    metadata = {"namespace": SCHEDULE.namespace, "name": SCHEDULE.name, "uid": "s1"}
    asked: JsonObject = {"schedule": "@hourly", "batchTemplate": template, **spec}
    return InferenceBatchSchedule.model_validate_json(to_json({"metadata": metadata, "spec": asked}))


def test_the_batches_are_read_from_what_the_cache_keeps() -> None:
    cache = Cache()
    complete: JsonValue = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T13:00:00Z"}
    cache.put(ObjectKey(KIND, "team-a", "b1"), batch() | {"status": {"conditions": [complete]}})
    ended: JsonValue = "2026-11-21T13:00:00Z"
    cache.put(ObjectKey(KIND, "team-a", "b2"), batch(uid="u2", deletionTimestamp=ended, finalizers=[FINALIZER]))
    cache.put(ObjectKey(KIND, "team-a", "b4"), batch(uid="u4", deletionTimestamp=ended, finalizers=["another.io/f"]))
    cache.put(ObjectKey("GpuPod", "team-a", "not-a-batch"), batch(uid="u3"))
    assert sorted(children(cache.owned_by(SCHEDULE, "s1")), key=lambda one: one.name) == [
        Child("b1", "u1", NOON, Outcome.COMPLETE, ended=at(13)),
        Child("b2", "u2", NOON, Outcome.ACTIVE, deleting=True),
    ]


@pytest.mark.parametrize("time", ["2026-11-21T13:00:00+99:99", "0000-01-01T00:00:00Z", "2026-11-21T13:00:00-5Z"])
def test_a_time_that_only_the_api_server_accepts_counts_as_absent(time: str) -> None:
    """It must not keep the schedule from starting its next batch."""
    cache = Cache()
    complete: JsonValue = {"type": "Complete", "status": "True", "lastTransitionTime": time}
    cache.put(ObjectKey(KIND, "team-a", "b1"), batch() | {"status": {"conditions": [complete]}})
    assert children(cache.owned_by(SCHEDULE, "s1")) == (Child("b1", "u1", NOON, Outcome.COMPLETE),)


def test_a_batch_is_the_template_with_a_name_an_owner_and_its_time() -> None:
    template: JsonValue = {
        "metadata": {"labels": {"team": "search"}, "annotations": {"note": "x", "gpurelay.dev/scheduled-at": "mine"}},
        "spec": {"model": "m", "fieldOfALaterRelease": {"kept": True}},
    }
    assert manifest(nightly(template), StartBatch("nightly-7", NOON)) == {
        "apiVersion": API_VERSION,
        "kind": "InferenceBatch",
        "metadata": {
            "name": "nightly-7",
            "namespace": "team-a",
            "labels": {"team": "search", "gpurelay.dev/schedule": "nightly"},
            "annotations": {"note": "x", "gpurelay.dev/scheduled-at": "2026-11-21T12:00:00Z"},
            "ownerReferences": [OWNER],
        },
        "spec": {"model": "m", "fieldOfALaterRelease": {"kept": True}},
    }


def test_placeholders_stand_for_the_name_and_for_the_time_in_the_schedules_zone() -> None:
    template: JsonValue = {
        "spec": {
            "input": {"url": "s3://in/{year}/{month}/{day}/{hour}{minute}.jsonl"},
            "output": {"configMapRef": {"name": "answers-{date}"}, "url": "s3://out/{date}/{name}"},
            "metadata": {"note": "{name}"},
        }
    }
    made = manifest(nightly(template, timeZone="Pacific/Auckland"), StartBatch("nightly-7", NOON))
    assert made["spec"] == {
        "input": {"url": "s3://in/2026/11/22/0100.jsonl"},
        "output": {"configMapRef": {"name": "answers-2026-11-22"}, "url": "s3://out/2026-11-22/nightly-7"},
        "metadata": {"note": "{name}"},
    }


@pytest.mark.parametrize(
    "spec", [{}, {"input": "odd", "output": None}, {"input": {"url": 1}, "output": {"configMapRef": ["{name}"]}}]
)
def test_a_template_that_is_none_is_left_for_the_api_server_to_refuse(spec: JsonObject) -> None:
    assert filled(spec, "nightly-7", NOON) == spec


def test_braces_that_are_no_placeholder_stay() -> None:
    spec: JsonObject = {"input": {"url": "s3://in/{week}/{name"}}
    assert filled(spec, "nightly-7", NOON) == spec


@pytest.mark.parametrize(
    ("found", "ours"),
    [
        (batch(), True),
        (batch(ownerReferences=["odd", OWNER | {"uid": "s2"}]), False),
        (batch(ownerReferences=[OWNER | {"controller": False}]), False),
        (batch(ownerReferences=None), False),
        ({}, False),
    ],
)
def test_only_what_the_very_schedule_controls_is_its_own(found: JsonObject, ours: bool) -> None:
    assert controlled_by(found, "s1") is ours


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"configMapRef": {"name": "answers"}}, "answers"),
        ({"url": "s3://bucket/answers/", "onExisting": "Fail"}, "s3://bucket/answers/"),
        ({"configMapRef": {"name": "answers-{date}"}}, ""),
        ({"url": "s3://bucket/{name}/"}, ""),
        ({"url": "s3://bucket/answers/", "onExisting": "Replace"}, ""),
    ],
)
def test_only_an_output_without_a_placeholder_is_that_of_all_batches(output: JsonValue, expected: str) -> None:
    assert one_output({"spec": {"output": output}}) == expected

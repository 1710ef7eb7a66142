"""What was decided stands only as long as the object is as people left it."""

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey, ObjectMeta
from relay_operator.engine.cache import Cache
from relay_operator.engine.fence import fence
from tests.unit.engine.apiserver import Json

KEY = ObjectKey("GpuPod", "team-a", "train")


def put(cache: Cache, version: int, **changed: JsonValue) -> None:
    metadata: Json = {"name": "train", "namespace": "team-a", "uid": "u1", "generation": 1}
    cache.put(KEY, {"metadata": {**metadata, "resourceVersion": str(version), **changed}})


@pytest.mark.parametrize(
    ("changed", "stands"),
    [
        ({"labels": {"a": "b"}}, True),
        ({"generation": 2}, False),
        ({"uid": "u2"}, False),
        ({"deletionTimestamp": "2026-03-01T12:00:00Z"}, False),
        ({"annotations": {"gpurelay.dev/plan-only": "true"}}, False),
        ({"annotations": {"gpurelay.dev/paused": "true"}}, False),
        ({"annotations": {"gpurelay.dev/paused": "false"}}, True),
        ({"annotations": {"gpurelay.dev/abandon": "true"}}, False),
        ({"annotations": {"gpurelay.dev/adopt-id": "pod-9"}}, False),
        ({"annotations": {"gpurelay.dev/retry-create": "yes"}}, False),
        ({"annotations": {"gpurelay.dev/restarted-at": "now"}}, True),
    ],
)
def test_what_people_do_meanwhile_counts(changed: dict[str, JsonValue], stands: bool) -> None:
    cache = Cache()
    put(cache, 1)
    holds = fence(cache, KEY, ObjectMeta(name="train", namespace="team-a", uid="u1", generation=1), None)
    assert holds()
    put(cache, 2, **changed)
    assert holds() is stands


@pytest.mark.parametrize("answer", ["abandon", "adopt-id", "retry-create"])
def test_an_answer_that_was_known_does_not_count(answer: str) -> None:
    cache, annotations = Cache(), {f"gpurelay.dev/{answer}": "true"}
    put(cache, 1, annotations={**annotations})
    known = ObjectMeta(name="train", namespace="team-a", uid="u1", generation=1, annotations=annotations)
    assert fence(cache, KEY, known, None)()


def test_nothing_stands_of_what_is_gone() -> None:
    assert not fence(Cache(), KEY, ObjectMeta(name="train", uid="u1"), None)()

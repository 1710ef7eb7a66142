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
    ],
)
def test_what_people_do_meanwhile_counts(changed: dict[str, JsonValue], stands: bool) -> None:
    cache = Cache()
    put(cache, 1)
    holds = fence(cache, KEY, ObjectMeta(name="train", namespace="team-a", uid="u1", generation=1), None)
    assert holds()
    put(cache, 2, **changed)
    assert holds() is stands


def test_nothing_stands_of_what_is_gone() -> None:
    assert not fence(Cache(), KEY, ObjectMeta(name="train", uid="u1"), None)()

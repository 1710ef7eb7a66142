"""An object whose finalizer somebody removed: every batch that still runs is told as an orphan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Queue
from relay_operator.engine.vanished import Vanished
from tests.unit.flows.batch.acting import KEY
from tests.unit.flows.batch.examples import NOON, TOKEN, batch

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.unit.engine.apiserver import Json

ACCOUNT = ObjectKey("CloudAccount", KEY.namespace, "default")


def test_all_its_parts_that_run_are_told() -> None:
    states = {1: "completed", 2: "in_progress", 3: "cancelling", 4: None}
    parts: list[JsonValue] = [
        {"round": 1, "part": number, "records": 1, "batchId": f"batch_{number}", "state": state}
        for number, state in states.items()
    ]
    parts.append({"round": 1, "part": 5, "records": 1, "inputFileId": "file_5"})
    parts.append({"round": 1, "part": 6, "records": 1, "batchId": "batch_6", "state": ["odd"]})
    raw: Json = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": "uid-1", "resourceVersion": "1"},
        "spec": batch().spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": {"createToken": TOKEN, "id": "batch_2", "parts": parts},
    }
    cache, queue = Cache(), Queue[ObjectKey](lambda: 0.0)
    cache.put(ACCOUNT, {"metadata": {"name": "default", "namespace": KEY.namespace, "uid": "a"}})
    vanished = Vanished(cast("Any", None), "relay", cache, queue, lambda: NOON, frozenset({KEY.kind}))
    vanished.orphan(KEY, raw)
    told = [record.id for record in vanished.leftovers.of(ACCOUNT)]
    assert sorted(told) == ["batch_2", "batch_3", "batch_4", "batch_6"]

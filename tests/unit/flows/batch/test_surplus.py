"""A batch that the object could not record, or has too many, is cancelled although its object lives on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from relay_operator.api.inferencebatch import InferenceBatch
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.identity import Installation
from relay_operator.flows.batch.files import clear_results
from relay_operator.flows.batch.gather import Gatherer
from tests.unit.client.scripted import Reply
from tests.unit.flows.batch.acting import KEY, acting_in
from tests.unit.flows.batch.examples import LONGEST_WAIT, TOKEN, batch, sent, status

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.apiserver import Json

TWIN = KEY._replace(vanished="uid-1-0a1b2c3d")


def _raw(cloud_id: str, uid: str = "uid-1") -> Json:
    return {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": uid, "resourceVersion": "1"},
        "spec": batch().spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": {"createToken": TOKEN, "id": cloud_id},
    }


def test_the_object_and_its_surplus_batch_do_not_hold_each_other_up_and_others_do() -> None:
    cache, nothing = Cache(), cast("Any", None)
    delays = ConfirmationDelays()
    gatherer = Gatherer(nothing, cache, nothing, nothing, lambda: 0.0, delays, Installation(), LONGEST_WAIT)
    cache.put(KEY, _raw("batch_1"))
    cache.put(TWIN, _raw("batch_2"))
    for key in (KEY, TWIN):
        entry = cache.get(key)
        assert entry is not None
        assert gatherer._shared(key, InferenceBatch.model_validate_json(entry.body)) is None
    cache.put(KEY._replace(name="copy"), _raw("batch_3", uid="uid-2"))
    assert gatherer._shared(TWIN, InferenceBatch.model_validate(_raw("batch_2"))) is not None
    assert gatherer._shared(TWIN, InferenceBatch.model_validate(_raw("batch_1"))) is not None


async def test_only_the_results_of_a_surplus_batch_are_deleted(tmp_path: Path) -> None:
    told = status(sent(1, state="cancelled", outputFileId="out_1", errorFileId="err_1"))
    deleted = [Reply(200, json.dumps({"id": each, "deleted": True}).encode()) for each in ("out_1", "err_1")]
    async with acting_in(tmp_path, *deleted) as (_, cloud, server):
        await clear_results(batch(status=told), cloud)
        assert server.targets == ["DELETE /v1/files/out_1", "DELETE /v1/files/err_1"]

"""An output that another process may not have claimed is claimed before anything is published there."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_operator.engine.actions import Nothing
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.actions import BeginPublication
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.plan import View
from relay_operator.flows.batch.result import Hindered
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, sent, status

if TYPE_CHECKING:
    from pathlib import Path


async def _begin(folder: Path, memory: BatchMemory) -> object:
    obj = batch(
        output={"url": f"file://{folder}/out", "onExisting": "Fail"},
        status=status(sent(state="completed", outputFileId="file_9")),
    )
    nothing = cast("Any", None)
    facts = Facts(KEY, obj, NOON, ready(nothing), View(), obj.status, INTENT)
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores:
        return await acting(stores, Cache()).act(facts, BeginPublication(), memory, nothing)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_process_that_did_not_claim_the_output_claims_it(tmp_path: Path, *, clean: bool) -> None:
    (tmp_path / "out").mkdir()
    assert await _begin(tmp_path, BatchMemory("uid-1", clean=clean)) == Nothing()
    claims = sorted(one.name for one in (tmp_path / "out").iterdir() if not one.name.startswith("."))
    assert claims == ([] if clean else ["errors.jsonl.claim", "output.jsonl.claim"])


async def test_what_another_batch_has_claimed_since_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "output.jsonl.claim").write_text(f"not {TOKEN}")
    came = await _begin(tmp_path, BatchMemory("uid-1"))
    assert isinstance(came, Hindered)
    assert "claim" in came.came.message

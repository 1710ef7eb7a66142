"""A batch that ends before it is complete does not overwrite the answers of the batch that came after it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

import pytest

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, InputStatus, OutputStatus, RequestCounts
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.destinations import MARK, Destinations
from relay_operator.flows.batch.marks import mark_of, published_by
from relay_operator.flows.batch.result import Published, WorkRefused
from relay_operator.flows.batch.sources import Sources
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT, acting
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, sent, status
from tests.unit.records.streams import file, record, success

if TYPE_CHECKING:
    from tests.unit.flows.managed.world import World

SO_FAR = status(sent(outputFileId="file_out", records=1), input=InputStatus(digest="d", records=1))
BEFORE, LATER, END = NOON - timedelta(hours=1), NOON + timedelta(hours=1), NOON + timedelta(hours=2)
OTHERS = Published(OutputStatus(lines=2), RequestCounts(total=2, completed=2), 0, 0, END)
"""What another batch published, at a time that says nothing of when it began."""


def _ending(*, deleted: bool = True, on_existing: str = "Replace", **output: object) -> InferenceBatch:
    obj = batch(output={**output, "onExisting": on_existing}, status=SO_FAR)
    metadata = obj.metadata.model_copy(update={"deletion_timestamp": LATER if deleted else None})
    return obj.model_copy(update={"metadata": metadata})


async def _published(obj: InferenceBatch, folder: Path) -> Published | WorkRefused:
    known = [Reply(200, json.dumps({"id": each}).encode()) for each in ("file_out", "file_1_1")]
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores, scripted_server() as server:
        server.will(*known, Reply(200, file([record("a")])), Reply(200, file([success("a")])))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            return await acting(stores, Cache()).publishing.publish(obj, cloud, INTENT)


async def test_the_answers_of_a_later_batch_stay(tmp_path: Path) -> None:
    (tmp_path / "output.jsonl").write_text("all of them")
    (tmp_path / "result.json").write_text(mark_of("another", replace(OTHERS, begun=LATER)))
    came = await _published(_ending(url=f"file://{tmp_path}"), tmp_path)
    assert isinstance(came, WorkRefused)
    assert came.reason is Reason.OUTPUT_EXISTS
    assert "a newer batch's answers are at the output" in came.message
    assert came.message.endswith("file_out")
    assert (tmp_path / "output.jsonl").read_text() == "all of them"


@pytest.mark.parametrize(
    ("mark", "deleted"),
    [
        (mark_of("another", replace(OTHERS, begun=LATER)), False),
        (mark_of("another", replace(OTHERS, begun=BEFORE)), True),
        (mark_of("another", replace(OTHERS, at=BEFORE)), True),
        (mark_of(TOKEN, OTHERS), True),
        ("no mark", True),
    ],
    ids=[
        "complete itself",
        "of an earlier batch that ended later",
        "of an earlier release",
        "its own",
        "anything else",
    ],
)
async def test_everything_else_is_replaced(tmp_path: Path, mark: str, *, deleted: bool) -> None:
    (tmp_path / "result.json").write_text(mark)
    came = await _published(_ending(deleted=deleted, url=f"file://{tmp_path}"), tmp_path)
    assert isinstance(came, Published)
    assert published_by(TOKEN, (tmp_path / "result.json").read_text()) == came
    assert came.begun == NOON


async def test_a_mark_of_an_earlier_release_counts_by_when_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(mark_of("another", OTHERS))
    assert isinstance(await _published(_ending(url=f"file://{tmp_path}"), tmp_path), WorkRefused)


@pytest.mark.parametrize(("begun", "later"), [(LATER, True), (BEFORE, False)])
async def test_a_config_map_tells_by_its_annotation(world: World, begun: datetime, *, later: bool) -> None:
    mark = mark_of("another", replace(OTHERS, begun=begun))
    world.server.put("namespaces", {"metadata": {"name": "ns"}})
    world.server.put("configmaps", {"metadata": {"name": "answers", "namespace": "ns", "annotations": {MARK: mark}}})
    stores = cast("ObjectStores", None)  # a ConfigMap is in none
    destinations = Destinations(world.kube, stores, Sources(world.kube, stores), lambda: True)
    assert await destinations.has_later(_ending(configMapRef={"name": "answers"}), INTENT) is later
    assert not await destinations.has_later(_ending(configMapRef={"name": "others"}), INTENT)

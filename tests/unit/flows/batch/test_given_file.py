"""An input that is a file in the cloud: only its own absence counts as a missing input."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, NotFound
from relay_operator.api.conditions import Reason
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.result import StoppedError, WorkRefused
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.client.scripted import Reply, ScriptedServer, Step, scripted_server
from tests.unit.flows.batch.acting import INTENT, acting
from tests.unit.flows.batch.examples import batch
from tests.unit.records.streams import file, record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_operator.flows.batch.sending import Sending

GIVEN = Reply(200, b"\n" + file([record("a")]))
"""Not as it is sent, so that the operator uploads a file of its own."""
LIST = Reply(200, b'{"object":"list","data":[],"has_more":false}')
NOT_FOUND = Reply(404, b'{"error":{"message":"no","type":"not_found_error","code":null}}')


@asynccontextmanager
async def _sending(folder: Path, *script: Step) -> AsyncIterator[tuple[Sending, Cloud, ScriptedServer]]:
    policy = StorePolicy(file_roots=(PurePosixPath(folder),))
    async with (
        ObjectStores(policy) as stores,
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*script)
        yield acting(stores, Cache()).sending, cloud, server


async def test_an_upload_that_is_not_found_does_not_mean_that_the_input_is_missing(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"fileId": "file_1"})
    async with _sending(tmp_path, GIVEN, GIVEN, NOT_FOUND, LIST) as (sending, cloud, server):
        with pytest.raises(NotFound) as caught:
            await sending.first(obj, cloud, INTENT, search=False)
    assert caught.value.operation == "upload_file"
    assert server.targets[-1] == "POST /v1/files"


async def test_an_input_that_is_not_found_is_missing(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"fileId": "file_1"})
    async with _sending(tmp_path, NOT_FOUND, LIST) as (sending, cloud, _):
        with pytest.raises(StoppedError) as stopped:
            await sending.first(obj, cloud, INTENT, search=False)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.INPUT_MISSING

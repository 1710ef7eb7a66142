"""An input that is a file in the cloud: only its own absence counts as a missing input."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_client import NotFound
from relay_operator.api.conditions import Reason
from relay_operator.flows.batch.result import StoppedError, WorkRefused
from tests.unit.client.scripted import Reply
from tests.unit.flows.batch.acting import INTENT, LIST, NOT_FOUND, acting_in
from tests.unit.flows.batch.examples import batch
from tests.unit.records.streams import file, record

GIVEN = Reply(200, b"\n" + file([record("a")]))
"""Not as it is sent, so that the operator uploads a file of its own."""


async def test_an_upload_that_is_not_found_does_not_mean_that_the_input_is_missing(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"fileId": "file_1"})
    async with acting_in(tmp_path, GIVEN, GIVEN, NOT_FOUND, LIST) as (actor, cloud, server):
        with pytest.raises(NotFound) as caught:
            await actor.sending.first(obj, cloud, INTENT, search=False)
    assert caught.value.operation == "upload_file"
    assert server.targets[-1] == "POST /v1/files"


async def test_an_input_that_is_not_found_is_missing(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"fileId": "file_1"})
    async with acting_in(tmp_path, NOT_FOUND, LIST) as (actor, cloud, _):
        with pytest.raises(StoppedError) as stopped:
            await actor.sending.first(obj, cloud, INTENT, search=False)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.INPUT_MISSING

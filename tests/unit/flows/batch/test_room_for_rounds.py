"""What has no room in status for one more round is not sent, and what is answered is published."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import MAX_PARTS, InputStatus
from relay_operator.flows.batch.result import StoppedError, Uploaded, WorkRefused
from tests.unit.client.scripted import Reply, ScriptedServer, Step
from tests.unit.flows.batch.acting import INTENT, acting_in
from tests.unit.flows.batch.examples import batch, sent, status
from tests.unit.records.streams import failure, file, record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_operator.flows.batch.sending import Sending

ERRORS = Reply(200, file(failure(name) for name in "abc"))
SENT = Reply(200, file(record(name) for name in "abc"))
NEW, NEW_2 = Reply(200, b'{"id":"new"}'), Reply(200, b'{"id":"new_2"}')
"""What the cloud says of a file, whether it is uploaded or deleted."""
PART_BYTES = 200
"""Room for one of these records."""


@asynccontextmanager
async def _sending(folder: Path, *script: Step) -> AsyncIterator[tuple[Sending, Cloud, ScriptedServer]]:
    async with acting_in(folder, *script) as (actor, cloud, server):
        yield replace(actor.sending, part_bytes=PART_BYTES), cloud, server


async def test_a_round_without_room_leaves_nothing_in_the_cloud_and_sends_nothing(tmp_path: Path) -> None:
    """Two of its three parts have room: both are uploaded before the third shows that it has none."""
    answered = [sent(number, state="completed", completed=1, records=1) for number in range(2, MAX_PARTS - 1)]
    failed = sent(1, state="completed", records=3, failed=3, errorFileId="errors")
    told = status(failed, *answered, round=2, attempt=2, input=InputStatus(digest="d", records=len(answered) + 3))
    script = [ERRORS, SENT, NEW, NEW_2, NEW, NEW_2]
    async with _sending(tmp_path, *script) as (sending, cloud, server):
        came = await sending.again(batch(status=told), cloud, INTENT, search=False)
        wrote = [target for target in server.targets if not target.startswith("GET")]
    assert isinstance(came, Uploaded)
    assert (came.parts, came.records) == ((), 0)
    assert wrote == ["POST /v1/files"] * 2 + ["DELETE /v1/files/new", "DELETE /v1/files/new_2"]


def _inline(count: int) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    return {"inline": [{"customId": f"r{number}", "body": body} for number in range(count)]}


async def test_an_input_without_room_is_invalid(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input=_inline(MAX_PARTS + 1))
    async with _sending(tmp_path, NEW) as (sending, cloud, _):
        with pytest.raises(StoppedError) as stopped:
            await sending.first(obj, cloud, INTENT, search=False)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.INPUT_INVALID


async def test_a_part_whose_file_vanished_takes_no_second_place(tmp_path: Path) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input=_inline(MAX_PARTS))
    async with _sending(tmp_path, NEW) as (sending, cloud, server):
        first = await sending.first(obj, cloud, INTENT, search=False)
        assert isinstance(first, Uploaded)
        known = [part.model_copy(update={"input_file_id": None}) if part.part == 3 else part for part in first.parts]
        server.seen.clear()
        again = await sending.first(obj.model_copy(update={"status": status(*known)}), cloud, INTENT, search=False)
        assert server.targets == ["POST /v1/files"]
    assert again == first

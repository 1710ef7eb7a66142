"""An input that is read again must be the one of which parts are paid: no record is sent twice, and none never."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
import pytest_asyncio

from relay_client import Cloud, NotFound
from relay_kube.kube import Kube
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.files import LostFiles
from relay_operator.flows.batch.names import file_name
from relay_operator.flows.batch.result import StoppedError, Uploaded, WorkTroubled
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.sources import Sources
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.pace import Pace
from tests.unit.client.scripted import Reply, ScriptedServer, scripted_server
from tests.unit.flows.batch.acting import INTENT, LIST, NOT_FOUND
from tests.unit.flows.batch.examples import NOON, batch, status

FILE = Reply(200, b'{"id":"file_new","object":"file"}')
UPLOAD, DOWNLOAD = "POST /v1/files", "GET /v1/files/file_1/content"
PART_BYTES = 450
"""Room for three of these records."""


class Sender:
    """Sends rounds to a scripted cloud."""

    def __init__(self, folder: Path, stores: ObjectStores, server: ScriptedServer, cloud: Cloud) -> None:
        self.folder, self.stores, self.server, self.cloud = folder, stores, server, cloud

    async def sent(
        self, names: str, *known: PartStatus, part_bytes: int = PART_BYTES, search: bool = False
    ) -> Uploaded:
        """The upload of these records, of which some parts are known."""
        kube = cast("Kube", None)  # neither input nor output needs an API server
        sources = Sources(kube, self.stores)
        destinations = Destinations(kube, self.stores, sources, lambda: True)
        sending = Sending(sources, destinations, LostFiles(0.0, asyncio.sleep), Pace(), part_bytes)
        self.server.seen.clear()
        came = await sending.first(self._batch(names, known), self.cloud, INTENT, search=search)
        assert isinstance(came, Uploaded)
        return came

    def _batch(self, names: str, known: tuple[PartStatus, ...]) -> InferenceBatch:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
        lines = [{"customId": name, "body": body} for name in names]
        return batch(output={"url": f"file://{self.folder}"}, input={"inline": lines}, status=status(*known, round=1))


@pytest_asyncio.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    policy = StorePolicy(file_roots=(PurePosixPath(tmp_path),))
    async with (
        ObjectStores(policy) as stores,
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(FILE)
        yield Sender(tmp_path, stores, server, cloud)


async def _two_parts(sender: Sender) -> tuple[PartStatus, PartStatus]:
    """The first is paid; the second has lost its file."""
    first, second = (await sender.sent("abcde")).parts
    assert (first.records, second.records) == (3, 2)
    told = {"input_file_id": "file_1", "batch_id": "batch_1", "sent_at": NOON, "state": "in_progress"}
    return first.model_copy(update=told), second.model_copy(update={"input_file_id": None})


async def _refuses(sender: Sender, names: str, *known: PartStatus, part_bytes: int = PART_BYTES) -> list[str]:
    with pytest.raises(StoppedError) as stopped:
        await sender.sent(names, *known, part_bytes=part_bytes)
    came = stopped.value.came
    assert isinstance(came, WorkTroubled)
    assert (came.reason, came.stalled) == (Reason.INPUT_CHANGED, True)
    return sender.server.targets


async def test_of_the_same_input_only_what_is_lost_is_uploaded_again(sender: Sender) -> None:
    first, second = await _two_parts(sender)
    again = await sender.sent("abcde", first, second)
    assert sender.server.targets == [UPLOAD]
    assert again.parts == (first, second.model_copy(update={"input_file_id": "file_new"}))


async def test_what_was_never_paid_may_have_changed(sender: Sender) -> None:
    first, second = await _two_parts(sender)
    again = await sender.sent("abcxy", first, second)
    assert again.parts[0] == first
    assert again.parts[1].digest != second.digest


@pytest.mark.parametrize("names", ["xabcde", "abxde", "bcde"])
async def test_of_an_input_that_changed_in_front_nothing_is_uploaded(sender: Sender, names: str) -> None:
    assert await _refuses(sender, names, *await _two_parts(sender)) == []


@pytest.mark.parametrize("part_bytes", [300, 4500])
async def test_nor_if_its_parts_are_cut_otherwise_now(sender: Sender, part_bytes: int) -> None:
    assert await _refuses(sender, "abcde", *await _two_parts(sender), part_bytes=part_bytes) == []


async def test_files_of_an_input_that_was_replaced_cost_one_more_reading_not_one_each(sender: Sender) -> None:
    names = [file_name(INTENT, 1, number) for number in (1, 2, 3)]
    rows = [{"id": f"file_old_{name}", "filename": name, "bytes": 1} for name in names]
    listed = json.dumps({"object": "list", "data": rows, "has_more": False}).encode()
    sender.server.will(Reply(200, listed), FILE)
    again = await sender.sent("abcdefghi", search=True)
    assert [part.input_file_id for part in again.parts] == ["file_new"] * 3
    assert sender.server.targets == ["GET /v1/files?limit=200", UPLOAD, UPLOAD, UPLOAD]


async def test_a_paid_part_is_not_forgotten_though_the_input_is_shorter_now(sender: Sender) -> None:
    first, second = await _two_parts(sender)
    lost = first.model_copy(update={"input_file_id": None, "batch_id": None, "sent_at": None, "state": None})
    paid = second.model_copy(update={"input_file_id": "file_2", "batch_id": "batch_2", "sent_at": NOON})
    assert await _refuses(sender, "abc", lost, paid) == [UPLOAD]


async def test_a_rebuilt_part_is_compared_by_its_file(sender: Sender) -> None:
    """Its status was lost, and the cloud's batches do not tell the digest."""
    first, second = await _two_parts(sender)
    rebuilt, missing = (part.model_copy(update={"digest": None, "size": None}) for part in (first, second))
    (upload,) = [seen.body for seen in sender.server.seen[:1]]
    content = Reply(200, upload[upload.index(b'{"custom_id"') : upload.rindex(b"}\n") + 2])
    sender.server.will(content, FILE)
    again = await sender.sent("abcde", rebuilt, missing)
    assert again.parts[0] == rebuilt
    assert sender.server.targets == [DOWNLOAD, UPLOAD]
    sender.server.will(content)
    assert await _refuses(sender, "xabcde", rebuilt, missing) == [DOWNLOAD]
    sender.server.will(NOT_FOUND, LIST)
    assert (await _refuses(sender, "abcde", rebuilt, missing))[0] == DOWNLOAD
    sender.server.will(NOT_FOUND)
    with pytest.raises(NotFound):
        await sender.sent("abcde", rebuilt, missing)

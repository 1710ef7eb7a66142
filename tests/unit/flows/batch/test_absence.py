"""A 404 for one batch or file means that the cloud does not have it only if the organization may see batches at all."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from relay_client import Cloud, NotFound, Unreadable, paging
from relay_client.answers import MAX_VALUES
from relay_operator.engine.cache import Cache
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch.files import LostFiles, clear
from relay_operator.flows.batch.polls import BatchPolls, Looked
from relay_operator.flows.batch.traces import BatchTraces
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT, NOT_FOUND
from tests.unit.flows.batch.examples import batch, sent, status

LIST = Reply(200, b'{"object":"list","data":[],"has_more":false,"long":[%s0]}' % (b"0," * MAX_VALUES))


async def _polled(cloud: Cloud) -> object:
    polls = BatchPolls(SharedLists(1.0, lambda: 0.0), 1.0, lambda: 0.0)
    return await polls.look(cloud, ["batch_1"], exact=True) == Looked({"batch_1": None})


async def _named(cloud: Cloud) -> object:
    return await BatchTraces(Cache()).name_of(cloud, "batch_1") is None


async def _ended(cloud: Cloud) -> object:
    await BatchTraces(Cache()).end(cloud, "batch_1")
    return True


async def _lost(cloud: Cloud) -> object:
    return await LostFiles(0.0, asyncio.sleep).missing(cloud, ["file_1"]) == {"file_1"}


async def _cleared(cloud: Cloud) -> object:
    return await clear(batch(status=status(sent())), cloud, INTENT, search=False)


LOOKS: list[Callable[[Cloud], Awaitable[object]]] = [_polled, _named, _ended, _lost, _cleared]


@pytest.mark.parametrize("look", LOOKS)
async def test_without_access_to_batches_nothing_counts_as_absent(look: Callable[[Cloud], Awaitable[object]]) -> None:
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(NOT_FOUND)
        with pytest.raises(NotFound) as refused:
            await look(cloud)
        assert refused.value.operation == "list_batches"
        server.will(NOT_FOUND, LIST, NOT_FOUND, LIST)
        assert await look(cloud)


async def test_what_is_kept_of_a_list_of_batches_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        scripted_server() as server,
        Cloud("http://management.invalid", "or_key_0123456789", inference_url=server.url) as cloud,
    ):
        wanted = [f"batch_{number}" for number in range(9)]
        rows = [{"id": each, "status": "in_progress"} for each in ("another", *wanted)]
        server.will(Reply(200, json.dumps({"data": rows, "has_more": False}).encode()))
        polls = BatchPolls(SharedLists(1.0, lambda: 0.0), 1.0, lambda: 0.0)
        assert [*(await polls.look(cloud, wanted, exact=False)).found] == wanted
        assert server.targets == ["GET /v1/batches?limit=100"]
        monkeypatch.setattr(paging, "MAX_KEPT_ITEMS", 8)
        polls = BatchPolls(SharedLists(1.0, lambda: 0.0), 1.0, lambda: 0.0)
        with pytest.raises(Unreadable, match="the list has more than 8 items"):
            await polls.look(cloud, wanted, exact=False)

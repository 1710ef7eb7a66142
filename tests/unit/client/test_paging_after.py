"""Files and batches in pages by `after`: walked to the end, as far as the caller goes, and never without one."""

import json
from collections.abc import AsyncIterator

import pytest

from relay_client import Cloud, CloudError, CloudUnavailable, Unreadable, batches, files, gathered, paging
from relay_client.list_room import ListTurn
from relay_client.operations import LIST_BATCHES
from relay_client.paging import MAX_PAGES
from relay_wire.batches import Batch
from tests.unit.client.conftest import KEY, Timeline
from tests.unit.client.scripted import Reply, ScriptedServer


def page(*ids: str, more: bool = False, **fields: object) -> Reply:
    data = [{"id": id_, "status": "completed"} for id_ in ids]
    last = ids[-1] if ids else None
    return Reply(
        200, json.dumps({"object": "list", "data": data, "has_more": more, "last_id": last, **fields}).encode()
    )


@pytest.fixture
def inference(server: ScriptedServer) -> Cloud:
    runtime = Timeline().runtime()
    return Cloud("http://management.invalid", KEY, inference_url=server.url, runtime=runtime)


async def ids(cloud: Cloud, limit: int | None = None) -> list[str]:
    async with cloud:
        return [batch.id async for batch in batches(cloud, limit=limit)]


async def test_pages_are_walked_until_there_are_no_more(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("d", "c", more=True), page("b", more=True), page("a"))
    assert await ids(inference, limit=2) == ["d", "c", "b", "a"]
    path = "GET /v1/batches?limit=2"
    assert server.targets == [path, f"{path}&after=c", f"{path}&after=b"]


async def test_the_last_id_goes_back_exactly_as_it_came(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("b", more=True, last_id="b\u2028\n2"), page("a"))
    assert await ids(inference) == ["b", "a"]
    assert server.targets[1] == "GET /v1/batches?after=b%E2%80%A8%0A2"


async def test_files_are_walked_as_batches_are(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("b", more=True), page("a"))
    async with inference:
        assert [file.id async for file in files(inference)] == ["b", "a"]
    assert server.targets == ["GET /v1/files", "GET /v1/files?after=b"]


async def test_what_is_kept_of_them_has_a_bound(
    inference: Cloud, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_KEPT_ITEMS", 1)
    server.will(page("d", "c", more=True), page("b", more=True), page("a"))

    def wanted(turn: ListTurn) -> AsyncIterator[Batch]:
        return (each async for each in batches(inference, turn) if each.id == "b")

    async with inference:
        kept = await gathered(inference, LIST_BATCHES, wanted)
        assert [batch.id for batch in kept] == ["b"]
        server.will(page("d", "c", more=True))
        with pytest.raises(Unreadable, match="list_batches: 200: the list has more than 1 items"):
            await gathered(inference, LIST_BATCHES, lambda turn: batches(inference, turn))


@pytest.mark.parametrize("empty", [page(), Reply(200, b'{"data":null,"has_more":false}')])
async def test_an_empty_list_has_no_items(empty: Reply, inference: Cloud, server: ScriptedServer) -> None:
    server.will(empty)
    assert await ids(inference) == []


async def test_pages_are_asked_for_as_far_as_the_caller_goes(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("b", more=True))
    async with inference:
        async for batch in batches(inference):
            assert batch.id == "b"
            break
    assert len(server.seen) == 1


async def test_where_the_last_id_is_left_out_it_is_the_last_items(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("b", more=True, last_id=None), page("a"))
    assert await ids(inference) == ["b", "a"]


async def test_an_empty_page_in_between_is_no_end(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page("b", more=True), page(more=True, last_id="x"), page("a"))
    assert await ids(inference) == ["b", "a"]
    assert server.targets[-1] == "GET /v1/batches?after=x"


async def test_more_without_a_place_to_go_on_is_an_error(inference: Cloud, server: ScriptedServer) -> None:
    server.will(page(more=True))
    with pytest.raises(Unreadable, match="does not say where the next one is"):
        await ids(inference)


@pytest.mark.parametrize("lasts", [["1", "1"], ["1", "2", "1"]])
async def test_a_page_that_comes_again_is_an_error(lasts: list[str], inference: Cloud, server: ScriptedServer) -> None:
    server.will(*(page("a", more=True, last_id=last) for last in lasts))
    with pytest.raises(Unreadable, match="repeats a page"):
        await ids(inference)
    assert len(server.seen) == len(lasts)


async def test_a_list_without_an_end_is_an_error(inference: Cloud, server: ScriptedServer) -> None:
    server.will(*(page(str(n), more=True) for n in range(MAX_PAGES + 5)))
    with pytest.raises(Unreadable, match=f"does not end within {MAX_PAGES} pages"):
        await ids(inference)
    assert len(server.seen) == MAX_PAGES


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Reply(500), CloudUnavailable),
        (Reply(200, b"<html>", content_type="text/html"), Unreadable),
        (Reply(200, b'{"data":[{"object":"batch"}],"has_more":false}'), Unreadable),
        (Reply(200, b"{}"), Unreadable),
        (Reply(200, b'{"data":[]}'), Unreadable),
        (Reply(200, b'{"has_more":false}'), Unreadable),
    ],
)
async def test_a_page_that_cannot_be_read_fails_the_list(
    step: Reply, error: type[CloudError], inference: Cloud, server: ScriptedServer
) -> None:
    server.will(page("a", more=True), step)
    with pytest.raises(error):
        await ids(inference)

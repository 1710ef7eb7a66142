"""Lists in pages: walked to the end, and never taken for complete when they are not."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import pytest
from pydantic import BaseModel, JsonValue

from relay_client import (
    Cloud,
    CloudError,
    CloudUnavailable,
    Unreadable,
    answers,
    items_of,
    listing,
    paging,
)
from relay_client.memory import memory_of
from relay_client.operations import LIST_CLUSTERS, LIST_PROVIDER_NODES
from relay_client.paging import gathered
from relay_wire.clusters import ClusterSummary
from relay_wire.provider import ProviderNode
from relay_wire.reservations import Reservation
from relay_wire.vms import VmRecord
from tests.support.eventually import eventually
from tests.unit.client.scripted import Reply, ScriptedServer


def page(*ids: str, cursor: str | None = None, **fields: object) -> Reply:
    items = [{"id": id_, "organizationId": "org_1", "name": id_, "status": "running"} for id_ in ids]
    return Reply(200, json.dumps({"items": items, "nextCursor": cursor, **fields}).encode())


@pytest.mark.parametrize(
    "last", [page("c"), page("c", cursor=""), Reply(200, page("c").body.replace(b"nextCursor", b"x"))]
)
async def test_pages_are_walked_until_there_is_no_cursor(last: Reply, cloud: Cloud, server: ScriptedServer) -> None:
    server.will(page("a", cursor="1+/="), page("b", cursor="2"), last)
    found = await listing(cloud, LIST_CLUSTERS, limit=1)
    assert [cluster.id for cluster in found.items] == ["a", "b", "c"]
    assert found.complete
    path = "GET /v1/orgs/org_1/clusters?limit=1"
    assert server.targets == [path, f"{path}&cursor=1%2B%2F%3D", f"{path}&cursor=2"]


@pytest.mark.parametrize("cursor", ["a\nb", "a\u2028\x1b b", "é" * 10, "x" * 4096], ids=["line", "odd", "é", "long"])
async def test_a_cursor_goes_back_exactly_as_it_came(cursor: str, cloud: Cloud, server: ScriptedServer) -> None:
    server.will(page("a", cursor=cursor), page("b"))
    assert [cluster.id for cluster in (await listing(cloud, LIST_CLUSTERS)).items] == ["a", "b"]
    assert parse_qs(server.targets[1].partition("?")[2])["cursor"] == [cursor]


async def test_a_cursor_that_fits_no_request_is_an_error(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(page("a", cursor="x" * 4097))
    with pytest.raises(Unreadable, match="nextCursor: String should have at most 4096 characters"):
        await listing(cloud, LIST_CLUSTERS)


async def test_an_empty_list_is_complete(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"items":null}'))
    found = await listing(cloud, LIST_CLUSTERS)
    assert (found.items, found.complete) == ((), True)


async def test_an_answer_without_items_is_not_an_empty_list(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b"{}"))
    with pytest.raises(Unreadable, match="items: Field required"):
        await listing(cloud, LIST_CLUSTERS)


@pytest.mark.parametrize("cursors", [["1", "1"], ["1", "2", "1"]])
async def test_a_cursor_that_comes_again_is_an_error(cursors: list[str], cloud: Cloud, server: ScriptedServer) -> None:
    server.will(*(page("a", cursor=cursor) for cursor in cursors))
    with pytest.raises(Unreadable, match="repeats a cursor"):
        await listing(cloud, LIST_CLUSTERS)
    assert len(server.seen) == len(cursors)


@pytest.mark.parametrize(("bound", "most"), [("MAX_KEPT_ITEMS", 3), ("MAX_KEPT_BYTES", 4500)])
async def test_a_list_that_is_too_much_to_keep_is_an_error(
    bound: str, most: int, cloud: Cloud, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, bound, most)
    server.will(page("a", "b", cursor="1"), page("c", "d", cursor="2"))
    with pytest.raises(Unreadable, match="the list has more than"):
        await listing(cloud, LIST_CLUSTERS)
    assert len(server.seen) == 2


async def test_one_wide_character_makes_a_list_four_times_as_much_to_keep(
    cloud: Cloud, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MAX_KEPT_BYTES", 10_000)
    long = page("a", "b").body.replace(b'"name": "b"', b'"name": "%b"' % (b"x" * 4000))
    server.will(Reply(200, long))
    assert len((await listing(cloud, LIST_CLUSTERS)).items) == 2
    server.will(Reply(200, long.replace(b"xx", "\U0001d4b3".encode(), 1)))
    with pytest.raises(Unreadable, match="the list has more than"):
        await listing(cloud, LIST_CLUSTERS)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ClusterSummary, {"organizationId": "o", "name": "x" * 4080 + "\U0001d4b3", "status": "running"}),
        (ProviderNode, {"gpus": [{"id": "ab"}] * 500}),
        (Reservation, {"unitIds": [f"{n:03}" for n in range(500)]}),
        (ProviderNode, {}),
        (VmRecord, {}),
        (ClusterSummary, {"organizationId": "o", "name": "\u00e9" * 4096, "status": "running"}),
        (ClusterSummary, {"organizationId": "o", "name": "x" * 4080 + "\u00e9", "status": "running"}),
    ],
)
def test_an_item_counts_as_at_least_the_memory_that_it_takes(
    model: type[BaseModel], fields: dict[str, JsonValue]
) -> None:
    written = [json.dumps({"id": f"id-{n}", **fields}) for n in range(200)]
    model.model_validate_json(written[0])  # builds the model
    gc.collect()
    tracemalloc.start()
    items = [model.model_validate_json(each) for each in written]
    counted, at_once = sum(map(memory_of, items)), memory_of(items)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken <= min(counted, at_once) <= max(counted, at_once) <= 4 * taken


@pytest.mark.parametrize(("large", "waits"), [(1, True), (paging.LARGE, False)], ids=["large", "small"])
async def test_large_lists_of_one_room_are_read_one_after_another(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, large: int, *, waits: bool
) -> None:
    monkeypatch.setattr(paging, "LARGE", large)
    goes_on = asyncio.Event()

    async def rows(*ids: str) -> AsyncIterator[ClusterSummary]:
        for each in ids:
            yield ClusterSummary(id=each, organization_id="org_1", name=each, status="running")
            if each == "a":
                await goes_on.wait()

    first = asyncio.create_task(gathered(cloud, LIST_CLUSTERS, lambda _: rows("a", "b")))
    await asyncio.sleep(0)
    second = asyncio.create_task(gathered(cloud.guarded(lambda: True), LIST_CLUSTERS, lambda _: rows("c", "d")))
    third = asyncio.create_task(gathered(cloud, LIST_CLUSTERS, lambda _: rows("e")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (second.done(), third.done()) == (not waits, not waits)
    third.cancel()
    goes_on.set()
    assert [[cluster.id for cluster in each] for each in await asyncio.gather(first, second)] == [
        ["a", "b"],
        ["c", "d"],
    ]
    assert not cloud.lists.lock.locked()


async def test_a_large_page_is_read_in_the_turn_of_its_list(
    cloud: Cloud, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_VALUES", 12)
    path, large, large_last = "GET /v1/orgs/org_1/clusters", page("a", "b", "c", cursor="1"), page("e", "f", "g")
    server.will(large, page("d"), large, large_last)

    async def asked() -> bool:
        return bool(server.seen)

    async with cloud.lists.lock:
        waiting = asyncio.create_task(listing(cloud, LIST_CLUSTERS))
        await eventually(asked, every=0.01)
        assert [cluster.id for cluster in (await listing(cloud, LIST_CLUSTERS)).items] == ["d"]
        assert len(server.seen) == 2
    assert [cluster.id for cluster in (await waiting).items] == ["a", "b", "c", "e", "f", "g"]
    assert server.targets == [path, path, path, f"{path}?cursor=1"]
    assert not cloud.lists.lock.locked()


async def test_a_list_with_too_many_pages_is_not_complete(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(*(page(str(n), cursor=str(n)) for n in range(5)))
    found = await listing(cloud, LIST_CLUSTERS, max_pages=3)
    assert len(found.items) == 3
    assert not found.complete
    server.will(*(page(str(n), cursor=str(n)) for n in range(5)))
    with pytest.raises(Unreadable, match="the list has more than 3 pages"):
        await items_of(cloud, LIST_CLUSTERS, max_pages=3)


async def test_any_list_may_have_pages_and_the_query_goes_with_each(cloud: Cloud, server: ScriptedServer) -> None:
    first, last = {"items": [{"id": "a"}], "nextCursor": "1"}, [{"id": "b"}]
    server.will(*(Reply(body=json.dumps(body).encode()) for body in (first, last)))
    nodes = await items_of(cloud, LIST_PROVIDER_NODES, query={"includeRemoved": "true"})
    assert [node.id for node in nodes] == ["a", "b"]
    path = "GET /v1/orgs/org_1/provider/nodes?includeRemoved=true"
    assert server.targets == [path, f"{path}&cursor=1"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Reply(500), CloudUnavailable),
        (Reply(200, b"<html>", content_type="text/html"), Unreadable),
        (Reply(200, b'{"items":[{"id":"b"}]}'), Unreadable),
    ],
)
async def test_a_page_that_cannot_be_read_fails_the_list(
    step: Reply, error: type[CloudError], cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(page("a", cursor="1"), step)
    with pytest.raises(error):
        await listing(cloud, LIST_CLUSTERS)

"""Whose create a batch in the cloud may be."""

import json

from pydantic import JsonValue

from relay_client import Cloud
from relay_client.answers import MAX_VALUES
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import entry_of
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch.names import TAG
from relay_operator.flows.batch.polls import PAGE
from relay_operator.flows.batch.traces import BatchTraces
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.engine.apiserver import Json
from tests.unit.flows.batch.acting import KEY
from tests.unit.flows.batch.examples import TOKEN, batch


def test_a_batch_of_an_object_that_cannot_be_read_is_left_to_it() -> None:
    raw: Json = {
        "metadata": {"name": "nightly", "namespace": "ns", "uid": "u1", "resourceVersion": "1"},
        "spec": {"model": 7},
        "status": {"createToken": TOKEN},
    }
    cache = Cache()
    cache.put(KEY, raw)
    traces, name = BatchTraces(cache), f"{TOKEN}/1/1/1/1"
    assert (traces.ours(name), traces.giver(name)) == (True, KEY)
    assert traces.is_searched(name, entry_of(raw, ""))


def test_an_object_looks_for_every_part_that_it_records_no_batch_for() -> None:
    rows: JsonValue = [
        {"round": 1, "part": 1, "records": 1, "batchId": "batch_1"},
        {"round": 1, "part": 2, "records": 1, "inputFileId": "f"},
    ]
    spec = batch().spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    raw: Json = {
        "metadata": {"name": "nightly", "namespace": "ns", "uid": "u1"},
        "spec": spec,
        "status": {"createToken": TOKEN, "parts": rows},
    }
    traces, entry = BatchTraces(Cache()), entry_of(raw, "")
    names = {number: f"{TOKEN}/1/{number}/3/1" for number in (1, 2, 3)}
    assert {number: traces.is_searched(name, entry) for number, name in names.items()} == {1: False, 2: True, 3: True}


async def test_of_a_longer_page_than_was_asked_for_the_rest_is_left() -> None:
    row: Json = {"status": "in_progress", "metadata": {TAG: "t"}}
    rows = [{"id": f"batch_{number}", **row} for number in range(MAX_VALUES // 4)]
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(Reply(200, json.dumps({"object": "list", "data": rows, "has_more": False}).encode()))
        assert len(await BatchTraces(Cache()).living(cloud, UnclaimedIds())) == PAGE

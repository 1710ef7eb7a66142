"""What is published if the cloud no longer has all files, and what shows that it was published before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from relay_client import Cloud
from relay_operator.api.inferencebatch import InputStatus, OutputStatus, PartStatus, Problem, RequestCounts
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.actions import Adopt, Close, Start, Work
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.files import FILE_LOST, LIST_LIMIT, LostFiles, clear
from relay_operator.flows.batch.marks import mark_of
from relay_operator.flows.batch.plan import Phase, View
from relay_operator.flows.batch.predicates import unread
from relay_operator.flows.batch.result import Published, Uploaded, WorkResult
from relay_operator.flows.batch.throughput import MOVED, LeastSpeed, Moved
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.problems import ProblemCode
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.scripted import Reply, Step, scripted_server
from tests.unit.flows.batch.acting import INTENT, KEY, LIST, acting, ready
from tests.unit.flows.batch.examples import NOON, TOKEN, as_seen, batch, sent, status
from tests.unit.records.streams import file, record, success

OUT, IN_1, OUT_2, IN_2 = (
    Reply(200, json.dumps({"id": each}).encode()) for each in ("file_out", "file_1_1", "file_out_2", "file_2_1")
)
UPLOADED = Reply(200, b'{"id":"file_1","object":"file"}')
GONE = Reply(404, b'{"error":{"message":"no","type":"not_found_error","code":null}}')
FIRST = Reply(200, file(success(f"r{number}") for number in range(6)))
SENT_AGAIN = Reply(200, file(record(f"r{number}") for number in range(6, 10)))
SECOND = Reply(200, file(success(f"r{number}") for number in range(6, 10)))
TOLD_GONE: list[Step] = [GONE, LIST]
"""A 404 for one file, and an answer that shows access to batches."""


@pytest.mark.parametrize(
    ("rounds", "answers", "counts"),
    [
        (
            [sent(outputFileId="file_out")],
            [OUT, *TOLD_GONE, *TOLD_GONE, FIRST, FIRST],
            RequestCounts(total=10, completed=6),
        ),
        (
            [sent(outputFileId="file_out"), sent(1, 2, outputFileId="file_out_2")],
            [OUT, *TOLD_GONE, OUT_2, IN_2, *TOLD_GONE, FIRST, SENT_AGAIN, FIRST, SECOND],
            RequestCounts(total=10, completed=10),
        ),
    ],
    ids=["never answered", "answered in the next round"],
)
async def test_no_record_is_forgotten_though_its_owner_deleted_the_input(
    tmp_path: Path, rounds: list[PartStatus], answers: list[Step], counts: RequestCounts
) -> None:
    told = status(*rounds, input=InputStatus(digest="d", records=10))
    obj = batch(output={"url": f"file://{tmp_path}"}, status=told)
    policy = StorePolicy(file_roots=(PurePosixPath(tmp_path),))
    async with ObjectStores(policy) as stores, scripted_server() as server:
        server.will(*answers)
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            came = await acting(stores, Cache()).publishing.publish(obj, cloud, INTENT)
    assert isinstance(came, Published)
    assert (came.counts, came.unanswered) == (counts, counts.total - counts.completed)
    assert len((tmp_path / "output.jsonl").read_bytes().splitlines()) == counts.completed


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        (ProblemCode.LINE_TOO_LONG, True),
        (ProblemCode.UNKNOWN_CUSTOM_ID, True),
        (FILE_LOST, True),
        (ProblemCode.DUPLICATE_CUSTOM_ID, False),
    ],
)
async def test_results_that_could_not_be_published_as_a_whole_stay_in_the_cloud(code: str, kept: bool) -> None:
    problem = Problem(line=3, code=code, message="in the output file of part 1, round 1")
    told = status(sent(outputFileId="file_out"), output=OutputStatus(lines=9), problems=[problem])
    deleted = ["file_1_1"] if kept else ["file_out", "file_1_1"]
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*(Reply(200, json.dumps({"id": each}).encode()) for each in deleted))
        await clear(batch(status=told), cloud, INTENT, search=False)
    assert server.targets == [f"DELETE /v1/files/{each}" for each in deleted]


async def test_a_line_that_nobody_can_read_is_not_hidden_behind_harmless_ones(tmp_path: Path) -> None:
    """By it alone it is known that the file with it must stay."""
    records, answers = [record("a")], [*([success("a")] * 200), {"answer": "paid for"}]
    told = status(sent(outputFileId="file_out", records=1), input=InputStatus(digest="d", records=1))
    obj = batch(output={"url": f"file://{tmp_path}"}, status=told)
    policy = StorePolicy(file_roots=(PurePosixPath(tmp_path),))
    async with ObjectStores(policy) as stores, scripted_server() as server:
        server.will(OUT, IN_1, *(Reply(200, file(each)) for each in (records, answers, records)))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            came = await acting(stores, Cache()).publishing.publish(obj, cloud, INTENT)
    assert isinstance(came, Published)
    assert (len(came.problems), came.problems[0].code, came.problems[0].line) == (20, "missing_custom_id", 201)
    assert unread(came.problems)


@pytest.mark.parametrize("looks", [True, False], ids=["looked for", "deleted"])
async def test_work_on_many_files_is_not_slow_though_it_moves_no_bytes(looks: bool) -> None:
    ids = [f"file_{number}" for number in range(16)]
    obj = batch(status=status(*(sent(number, inputFileId=each) for number, each in enumerate(ids, 1))))
    moved = Moved()
    MOVED.set(moved)
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*(Reply(200, json.dumps({"id": each}).encode()) for each in ids))
        if looks:
            assert await LostFiles(0.0, asyncio.sleep).missing(cloud, ids) == frozenset()
        else:
            await clear(obj, cloud, INTENT, search=False)
    assert moved.size >= LeastSpeed().size


@pytest.mark.parametrize("work", ["first", "again"])
async def test_no_round_is_sent_for_a_finished_batch_that_lost_its_status(tmp_path: Path, work: str) -> None:
    came = Published(OutputStatus(lines=10), RequestCounts(total=10, completed=10), 0, 0, NOON)
    (tmp_path / "result.json").write_text(mark_of(TOKEN, came))
    obj = batch(output={"url": f"file://{tmp_path}"}, status=status(sent(state="completed", failed=1), round=2))
    policy = StorePolicy(file_roots=(PurePosixPath(tmp_path),))
    async with ObjectStores(policy) as stores, scripted_server() as server:
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            assert await getattr(acting(stores, Cache()).sending, work)(obj, cloud, INTENT, search=True) == came
        assert server.targets == []


async def sent_after(action: Adopt | Close, folder: Path) -> tuple[WorkResult, list[str]]:
    """What the upload in the pass after this one comes to, and what the cloud is asked, if all was known before."""
    lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
    obj, cache = batch(output={"url": f"file://{folder}"}, input={"inline": lines}), Cache()
    cache.put(KEY, as_seen(obj))
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores, scripted_server() as server:
        server.will(LIST, UPLOADED)
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            actor, memory = acting(stores, cache), BatchMemory("uid-1", clean=True)
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            for each in (action, Start(Work.SEND)):
                await actor.act(facts, each, memory, cast("Any", None))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await actor.transfers.queue.take()  # the end of the upload wakes its batch
            return actor.transfers.result(KEY), server.targets


@pytest.mark.parametrize("action", [Adopt(), Close()])
async def test_whoever_may_have_lost_a_status_looks_for_its_files(tmp_path: Path, action: Adopt | Close) -> None:
    came, asked = await sent_after(action, tmp_path)
    assert asked == [f"GET /v1/files?limit={LIST_LIMIT}", "POST /v1/files"]
    assert isinstance(came, Uploaded)


@pytest.mark.parametrize("action", [Adopt(), Close()])
async def test_whoever_may_have_lost_a_status_looks_for_its_output(tmp_path: Path, action: Adopt | Close) -> None:
    before = Published(OutputStatus(lines=1), RequestCounts(total=1, completed=1), 0, 0, NOON)
    (tmp_path / "result.json").write_text(mark_of(TOKEN, before))
    assert await sent_after(action, tmp_path) == (before, [])

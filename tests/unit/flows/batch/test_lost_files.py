"""Files that the cloud shows but cannot deliver count as lost; and no file of results is deleted because of a 404."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from relay_client import NotFound
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import Ending, InputStatus, OutputStatus, RequestCounts
from relay_operator.engine.actions import Nothing
from relay_operator.flows.batch.actions import Record
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.files import FILE_LOST, clear
from relay_operator.flows.batch.names import file_name
from relay_operator.flows.batch.plan import Phase, View
from relay_operator.flows.batch.result import Published, StoppedError, Uploaded, WorkRefused
from relay_operator.flows.batch.transitions import after
from tests.unit.client.scripted import Reply, Step
from tests.unit.flows.batch.acting import INTENT, KEY, LIST, acting_in, ready
from tests.unit.flows.batch.examples import NOON, batch, sent, status
from tests.unit.records.streams import failure, file, record, success

GONE = Reply(404, b'{"error":{"message":"no","type":"not_found_error","code":null}}')
TOLD_GONE: list[Step] = [GONE, LIST]
"""A 404 for one file, and an answer that shows access to batches."""
TWO = status(
    sent(1, records=1, outputFileId="out_1"),
    sent(2, records=1, outputFileId="out_2"),
    input=InputStatus(digest="d", records=2),
)
FILES = ["out_1", "file_1_1", "out_2", "file_1_2"]


def _shown(*names: str) -> list[Step]:
    return [Reply(200, json.dumps({"id": name}).encode()) for name in names]


def _content(*lines: object) -> Reply:
    return Reply(200, file(lines))


FIRST, SECOND, ANSWER = _content(record("a")), _content(record("b")), _content(success("b"))


async def test_a_file_that_is_shown_without_its_content_counts_as_lost(tmp_path: Path) -> None:
    looks = [*TOLD_GONE, FIRST, ANSWER, SECOND, *TOLD_GONE]
    script = [*_shown(*FILES), FIRST, GONE, *looks, FIRST, SECOND, ANSWER]
    async with acting_in(tmp_path, *script) as (actor, cloud, _):
        came = await actor.publishing.publish(batch(output={"url": f"file://{tmp_path}"}, status=TWO), cloud, INTENT)
    assert isinstance(came, Published)
    assert (came.counts, came.lost) == (RequestCounts(total=2, completed=1), 1)
    assert [(problem.code, "out_1" in problem.message) for problem in came.problems] == [(FILE_LOST, True)]


TORN = Reply(200, b"{}")
"""A wrong answer that says of itself that it is right."""
COUNTED = status(sent(records=2, completed=2, outputFileId="out"), input=InputStatus(digest="d", records=2))
BOTH, ANSWERS = _content(record("a"), record("b")), _content(success("a"), success("b"))


async def test_fewer_answers_than_the_cloud_counts_are_read_again_before_that_is_believed(tmp_path: Path) -> None:
    script = [*_shown("out", "file_1_1"), BOTH, TORN, BOTH, ANSWERS]
    obj = batch(output={"url": f"file://{tmp_path}"}, status=COUNTED)
    async with acting_in(tmp_path, *script) as (actor, cloud, _):
        came = await actor.publishing.publish(obj, cloud, INTENT)
    assert isinstance(came, Published)
    assert (came.counts, came.unanswered) == (RequestCounts(total=2, completed=2), 0)
    assert came.problems == ()
    assert len((tmp_path / "output.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("ending", [None, Ending(reason=Reason.DEADLINE_EXCEEDED, message="late")])
async def test_answers_that_are_missing_twice_are_told_and_their_files_stay(
    tmp_path: Path, ending: Ending | None
) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, status=COUNTED.model_copy(update={"ending": ending}))
    script = [*_shown("out", "file_1_1"), BOTH, TORN, BOTH, TORN]
    async with acting_in(tmp_path, *script) as (actor, cloud, _):
        came = await actor.publishing.publish(obj, cloud, INTENT)
        assert isinstance(came, Published)
        facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.PUBLISHING), obj.status, INTENT, came=came)
    told = [each.message for each in came.problems if each.code == FILE_LOST]
    assert told == ["the cloud counts 2 results, and its files have 0"]
    assert (came.unanswered, came.lost) == (2, 0)
    published = after(facts, Record(), Nothing())
    assert published.ending is not None
    assert published.ending.reason == (Reason.RESULTS_LOST if ending is None else ending.reason)
    async with acting_in(tmp_path, *_shown("file_1_1")) as (_, cloud, server):
        await clear(obj.model_copy(update={"status": published}), cloud, INTENT, search=False)
        assert [each for each in server.targets if each.startswith("DELETE")] == ["DELETE /v1/files/file_1_1"]


async def test_errors_that_are_lost_do_not_hide_the_answers_that_were_written_before(tmp_path: Path) -> None:
    told = status(sent(records=2, outputFileId="out", errorFileId="errors"), input=InputStatus(digest="d", records=2))
    both = _content(record("a"), record("b"))
    looks = [ANSWER, *TOLD_GONE, both, *TOLD_GONE]
    script = [*_shown("out", "errors", "file_1_1"), both, ANSWER, GONE, *looks, both, ANSWER]
    async with acting_in(tmp_path, *script) as (actor, cloud, _):
        came = await actor.publishing.publish(batch(output={"url": f"file://{tmp_path}"}, status=told), cloud, INTENT)
    assert isinstance(came, Published)
    assert (came.counts, came.lost) == (RequestCounts(total=2, completed=1), 1)


async def test_what_was_there_before_is_not_replaced_by_a_part(tmp_path: Path) -> None:
    (tmp_path / "output.jsonl").write_text("whole")
    looks = [*TOLD_GONE, FIRST, ANSWER, SECOND, *TOLD_GONE]
    async with acting_in(tmp_path, *_shown(*FILES), FIRST, GONE, *looks) as (actor, cloud, _):
        came = await actor.publishing.publish(batch(output={"url": f"file://{tmp_path}"}, status=TWO), cloud, INTENT)
    assert isinstance(came, WorkRefused)
    assert came.reason is Reason.RESULTS_LOST
    assert (tmp_path / "output.jsonl").read_text() == "whole"


async def test_what_was_there_before_is_not_replaced_if_counted_answers_have_no_file(tmp_path: Path) -> None:
    """The cloud may write the file later than anybody waits for it."""
    (tmp_path / "output.jsonl").write_text("whole")
    told = status(sent(1, state="completed", records=2, completed=2), input=InputStatus(digest="d", records=2))
    obj = batch(output={"url": f"file://{tmp_path}", "onExisting": "Replace"}, status=told)
    async with acting_in(tmp_path, *_shown("file_1_1")) as (actor, cloud, _):
        came = await actor.publishing.publish(obj, cloud, INTENT)
    assert isinstance(came, WorkRefused)
    assert came.reason is Reason.RESULTS_LOST
    assert "the cloud counts 2 answers of the batch batch_1_1, and has no file with them" in came.message
    assert (tmp_path / "output.jsonl").read_text() == "whole"


async def test_results_that_do_not_fit_their_counts_are_published_and_not_deleted(tmp_path: Path) -> None:
    told = status(
        sent(1, state="completed", records=2, completed=2, outputFileId="out_1"),
        input=InputStatus(digest="d", records=2),
        output=OutputStatus(begun_at=NOON),
    )
    obj = batch(output={"url": f"file://{tmp_path}"}, status=told)
    both, one = _content(record("a"), record("b")), _content(success("a"))
    script = [*_shown("out_1", "file_1_1"), both, one, both, one, *_shown("file_1_1")]
    async with acting_in(tmp_path, *script) as (actor, cloud, server):
        came = await actor.publishing.publish(obj, cloud, INTENT)
        facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.PUBLISHING), told, INTENT, came=came)
        ended = after(facts, Record(), Nothing())
        assert ended.ending is not None
        assert ended.ending.message == (
            "1 of 2 records have no answer in the cloud's files: the files with results stay there (status.parts)"
        )
        await clear(obj.model_copy(update={"status": ended}), cloud, INTENT, search=False)
        assert [each for each in server.targets if each.startswith("DELETE")] == ["DELETE /v1/files/file_1_1"]


async def test_content_that_comes_after_all_is_waited_for(tmp_path: Path) -> None:
    script = [*_shown(*FILES), FIRST, GONE, *TOLD_GONE, FIRST, ANSWER, SECOND, _content(success("a"))]
    async with acting_in(tmp_path, *script) as (actor, cloud, _):
        with pytest.raises(NotFound):
            await actor.publishing.publish(batch(output={"url": f"file://{tmp_path}"}, status=TWO), cloud, INTENT)
    assert not await asyncio.to_thread(os.listdir, tmp_path)


async def test_without_access_to_batches_no_content_counts_as_lost(tmp_path: Path) -> None:
    async with acting_in(tmp_path, *_shown(*FILES), FIRST, GONE) as (actor, cloud, _):
        with pytest.raises(NotFound) as refused:
            await actor.publishing.publish(batch(output={"url": f"file://{tmp_path}"}, status=TWO), cloud, INTENT)
    assert refused.value.operation == "list_batches"


async def test_a_round_ends_if_what_it_is_made_of_is_shown_without_its_content(tmp_path: Path) -> None:
    ended = sent(state="completed", records=1, failed=1, errorFileId="errors")
    obj = batch(status=status(ended, round=2, attempt=2, input=InputStatus(digest="d", records=1)))
    errors = _content(failure("a"))
    script = [errors, GONE, errors, *TOLD_GONE, *TOLD_GONE]
    async with acting_in(tmp_path, *script) as (actor, cloud, server):
        with pytest.raises(StoppedError) as stopped:
            await actor.sending.again(obj, cloud, INTENT, search=False)
        assert not [target for target in server.targets if not target.startswith("GET")]
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.RESULTS_LOST


FAILED = batch(
    status=status(
        sent(state="completed", records=2, failed=2, errorFileId="errors"),
        round=2,
        attempt=2,
        input=InputStatus(digest="d", records=2),
    )
)
FAILURES = _content(failure("a"), failure("b"))


async def test_fewer_failures_than_the_cloud_counts_are_read_again_before_records_are_sent_again(
    tmp_path: Path,
) -> None:
    async with acting_in(tmp_path, TORN, LIST, FAILURES, BOTH, *_shown("new")) as (actor, cloud, _):
        again = await actor.sending.again(FAILED, cloud, INTENT, search=False)
    assert isinstance(again, Uploaded)
    assert (again.records, again.retried) == (2, 2)


async def test_failures_that_are_missing_twice_stay_failures(tmp_path: Path) -> None:
    async with acting_in(tmp_path, TORN, LIST, _content(failure("a")), BOTH, *_shown("new")) as (actor, cloud, _):
        again = await actor.sending.again(FAILED, cloud, INTENT, search=False)
    assert isinstance(again, Uploaded)
    assert (again.records, again.retried) == (1, 1)


async def test_no_results_are_deleted_though_some_count_as_lost(tmp_path: Path) -> None:
    """The cloud may have them again: an outage of a minute must cost no paid answer."""
    script = [*TOLD_GONE, *_shown(*FILES[1:]), *TOLD_GONE, FIRST, SECOND, ANSWER, *_shown("file_1_1", "file_1_2")]
    obj = batch(output={"url": f"file://{tmp_path}"}, status=TWO)
    async with acting_in(tmp_path, *script) as (actor, cloud, server):
        came = await actor.publishing.publish(obj, cloud, INTENT)
        assert isinstance(came, Published)
        told = TWO.model_copy(update={"output": OutputStatus(lines=1), "problems": list(came.problems)})
        await clear(obj.model_copy(update={"status": told}), cloud, INTENT, search=False)
        deleted = [target for target in server.targets if target.startswith("DELETE")]
    assert deleted == ["DELETE /v1/files/file_1_1", "DELETE /v1/files/file_1_2"]


async def test_a_file_uploaded_before_is_sent_again_if_it_has_no_content(tmp_path: Path) -> None:
    listed = {"data": [{"id": "old", "filename": file_name(INTENT, 1, 1)}], "has_more": False}
    lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"inline": lines})
    async with acting_in(tmp_path, Reply(200, json.dumps(listed).encode()), GONE, LIST, *_shown("new")) as (
        actor,
        cloud,
        server,
    ):
        await actor.sending.first(obj, cloud, INTENT, search=True)
        assert server.targets[-3:] == ["GET /v1/files/old/content", "GET /v1/batches?limit=1", "POST /v1/files"]

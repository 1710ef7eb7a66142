"""Records that are sent again are those that failed, and only those."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_client import Cloud
from relay_operator.api.inferencebatch import InferenceBatch, InputStatus
from relay_operator.flows.batch.files import TooFewError
from relay_operator.flows.batch.selection import picked, select
from relay_operator.records.ids import Ids
from relay_operator.records.pace import Pace
from relay_operator.records.split import Splitter
from tests.unit.client.scripted import Reply, Step, scripted_server
from tests.unit.flows.batch.examples import batch, sent, status
from tests.unit.records.streams import chunks, failure, file, opens, read, record, refusal, success


@given(st.sets(st.integers(0, 29)), st.integers(1, 30))
async def test_records_of_all_parts_are_picked_unchanged_and_in_order(failed: set[int], in_first: int) -> None:
    records = [record(f"r{n}") for n in range(30)]
    with Ids() as again:
        again.put(f"r{n}" for n in failed)
        groups = picked([opens(records[:in_first]), opens(records[in_first:])], again, Pace())
        parts = [await read(part.pieces()) async for part in Splitter(groups).parts()]
    assert b"".join(parts) == file(records[n] for n in sorted(failed))


async def test_lines_that_are_no_records_are_passed_by() -> None:
    data = b'\n<html>\n{"custom_id":"a","odd": 1 }\n[]\n'
    with Ids() as again:
        again.put(["a"])
        assert [group async for group in picked([lambda: chunks(data)], again, Pace())] == [
            [b'{"custom_id":"a","odd": 1 }']
        ]


async def test_records_that_expired_do_not_hide_failures_that_are_final() -> None:
    """The cloud does not count expired records as failures, so sending them again takes no failure off the count."""
    refused = [refusal(f"r{n}", 422, {"code": "unprocessable"}) for n in (3, 4)]
    errors = Reply(200, file([*refused, *(failure(f"r{n}", "batch_expired") for n in range(5, 10))]))
    answers = Reply(200, file(success(f"r{n}") for n in range(3)))
    ended = sent(state="expired", completed=3, failed=2, outputFileId="file_out", errorFileId="file_errors")
    obj = batch(status=status(ended, round=2, attempt=2, input=InputStatus(digest="d", records=10)))
    async with scripted_server() as server:
        server.will(errors, answers, errors, Reply(200, file(record(f"r{n}") for n in range(10))))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            with Ids() as ids:
                chosen = await select(obj, cloud, ids, Pace())
                again = [await read(part.pieces()) async for part in Splitter(chosen.records).parts()]
    assert again == [file(record(f"r{n}") for n in range(5, 10))]
    assert chosen.retried == 0


def _round(**told: Any) -> InferenceBatch:
    ended = sent(state="completed", outputFileId="file_out", errorFileId="file_errors", **told)
    return batch(status=status(ended, round=2, attempt=2, input=InputStatus(digest="d", records=10)))


async def _again(obj: InferenceBatch, *script: Step) -> tuple[bytes, int, list[str]]:
    """The records to send again, how many of them had failed, and which files were read."""
    async with scripted_server() as server:
        server.will(*script)
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            with Ids() as ids:
                chosen = await select(obj, cloud, ids, Pace())
                again = [await read(part.pieces()) async for part in Splitter(chosen.records).parts()]
    asked = [target.removeprefix("GET /v1/files/").removesuffix("/content") for target in server.targets]
    return b"".join(again), chosen.retried, asked


SENT = Reply(200, file(record(f"r{n}") for n in range(10)))


def _answers(*numbers: int) -> Reply:
    return Reply(200, file(success(f"r{n}") for n in numbers))


def _errors(*numbers: int) -> Reply:
    return Reply(200, file(failure(f"r{n}") for n in numbers))


async def test_if_all_is_as_counted_only_errors_and_records_are_read() -> None:
    again, retried, asked = await _again(_round(completed=8, failed=2), _errors(8, 9), SENT)
    assert (again, retried) == (file([record("r8"), record("r9")]), 2)
    assert asked == ["file_errors", "file_1_1"]


@pytest.mark.parametrize(
    ("counts", "answers", "errors", "expected"),
    [
        ({"completed": 8, "failed": 2}, range(8), (7, 8, 9), [8, 9]),
        ({"completed": 10, "failed": 1}, range(10), (9,), []),
    ],
    ids=["more lines than failures", "more results than records"],
)
async def test_a_record_with_an_answer_is_not_sent_again_though_it_also_has_an_error(
    counts: dict[str, int], answers: range, errors: tuple[int, ...], expected: list[int]
) -> None:
    found = _errors(*errors)
    first = [] if counts["completed"] == 10 else [found]
    again, _, _ = await _again(_round(**counts), *first, found, _answers(*answers), found, SENT)
    assert again == file(record(f"r{n}") for n in expected)


async def test_answers_to_nobody_do_not_stand_for_paid_ones() -> None:
    """Two of the six answers that the cloud counts are missing, and two lines are about no record."""
    answers = Reply(200, file(success(name) for name in ("r0", "r1", "r2", "r3", "x", "y")))
    errors = Reply(200, file(refusal(f"r{n}", 422, {"code": "unprocessable"}) for n in (6, 7)))
    with pytest.raises(TooFewError, match="the cloud counts 6 answers, and its files have 4"):
        await _again(_round(completed=6, failed=2), errors, answers, errors, SENT)

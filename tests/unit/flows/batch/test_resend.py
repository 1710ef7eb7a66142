"""Records that are sent again are those that failed, and only those."""

from hypothesis import given
from hypothesis import strategies as st

from relay_client import Cloud
from relay_operator.api.inferencebatch import InputStatus
from relay_operator.flows.batch.selection import picked, select
from relay_operator.records.ids import Ids
from relay_operator.records.pace import Pace
from relay_operator.records.split import Splitter
from tests.unit.client.scripted import Reply, scripted_server
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

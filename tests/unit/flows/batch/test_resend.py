"""Records that are sent again are those that failed, and only those."""

from hypothesis import given
from hypothesis import strategies as st

from relay_operator.flows.batch.selection import picked
from relay_operator.records.ids import Ids
from relay_operator.records.pace import Pace
from relay_operator.records.split import Splitter
from tests.unit.records.streams import chunks, file, opens, read, record


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

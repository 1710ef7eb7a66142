"""Records become parts within their limits, the same each time."""

import contextlib
import hashlib
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.ids import Ids
from relay_operator.records.intake import Intake, RecordsRefused
from relay_operator.records.pace import Pace
from relay_operator.records.pieces import SENT_BYTES
from relay_operator.records.split import Part, PartMade, Splitter, input_digest
from tests.unit.records.streams import EXPECTED, chunks, file, read, record

Groups = list[list[bytes]]


async def _source(groups: Groups) -> AsyncIterator[list[bytes]]:
    for group in groups:
        yield list(group)


async def _split(groups: Groups, limits: int) -> tuple[list[bytes], list[PartMade]]:
    splitter = Splitter(_source(groups), limits)
    contents = [await read(part.pieces()) async for part in splitter.parts()]
    return contents, splitter.made


records = st.binary(min_size=1, max_size=9).map(lambda data: data.replace(b"\n", b"-"))
groups = st.lists(st.lists(records, max_size=6), max_size=8)


@given(groups, st.integers(10, 60))
async def test_parts_in_a_row_are_all_records_in_order(given_groups: Groups, size: int) -> None:
    contents, made = await _split(given_groups, size)
    assert b"".join(contents) == b"".join(each + b"\n" for group in given_groups for each in group)
    for content, part in zip(contents, made, strict=True):
        assert part.bytes == len(content) <= size
        assert part.records == content.count(b"\n")
        assert part.records > 0
        assert part.sha256 == hashlib.sha256(content).hexdigest()
    assert [part.number for part in made] == list(range(1, len(made) + 1))


@given(groups, st.integers(10, 60))
async def test_parts_are_the_same_however_records_come(given_groups: Groups, size: int) -> None:
    one_by_one = [[each] for group in given_groups for each in group]
    limits = size
    assert await _split(given_groups, limits) == await _split(one_by_one, limits)


@given(groups, st.integers(10, 60))
async def test_parts_are_as_full_as_they_can_be(given_groups: Groups, size: int) -> None:
    contents, _ = await _split(given_groups, size)
    for content, following in itertools.pairwise(contents):
        assert len(content) + following.index(b"\n") + 1 > size


async def test_a_part_may_be_exactly_as_long_as_the_limit() -> None:
    contents, _ = await _split([[b"abcd", b"efgh"], [b"i"]], 10)
    assert contents == [b"abcd\nefgh\n", b"i\n"]


async def test_no_records_make_no_parts() -> None:
    assert await _split([[], []], 10) == ([], [])


async def test_a_part_that_nobody_reads_is_known_all_the_same() -> None:
    read_parts = await _split([[b"a", b"b"], [b"c", b"d"]], 4)
    splitter = Splitter(_source([[b"a", b"b"], [b"c", b"d"]]), 4)
    assert len([part async for part in splitter.parts()]) == 2
    assert splitter.made == read_parts[1]


async def test_a_part_read_in_half_is_read_to_its_end_before_the_next() -> None:
    long = [[letter * SENT_BYTES] for letter in (b"a", b"b", b"c")]
    whole = await _split(long, 3 * SENT_BYTES)
    splitter = Splitter(_source(long), 3 * SENT_BYTES)
    first = [await anext(part.pieces()) async for part in splitter.parts()]
    assert first == [b"a" * SENT_BYTES + b"\n", b"c" * SENT_BYTES + b"\n"]
    assert splitter.made == whole[1]


async def test_small_records_are_sent_together() -> None:
    splitter = Splitter(_source([[b"abcdefghi"]] * 20_000))
    sizes = [len(piece) async for part in splitter.parts() async for piece in part.pieces()]
    assert sum(sizes) == 200_000
    assert all(SENT_BYTES <= size <= SENT_BYTES + 10 for size in sizes[:-1])


async def test_a_part_cannot_be_sent_twice() -> None:
    splitter = Splitter(_source([[b"a"]]), 4)
    async for part in splitter.parts():
        await read(part.pieces())
        with pytest.raises(RuntimeError, match="split the input again"):
            await read(part.pieces())


async def test_a_record_over_the_limit_is_a_part_of_its_own() -> None:
    """It was sent before RELAY_BATCH_PART_BYTES was lowered, and is sent again."""
    contents, _ = await _split([[b"a"], [b"abcd", b"efgh", b"i"]], 4)
    assert contents == [b"a\n", b"abcd\n", b"efgh\n", b"i\n"]


async def _upload(splitter: Splitter, sent: list[Part], swallowed: type[Exception]) -> None:
    async for part in splitter.parts():
        sent.append(part)
        with contextlib.suppress(swallowed):
            await read(part.pieces())


@pytest.mark.parametrize("swallowed", [RecordsRefused, KeyError], ids=["the uploader swallows it", "it comes through"])
async def test_a_problem_ends_the_part_under_way_for_good(swallowed: type[Exception]) -> None:
    data = file([*(record(f"r{n}") for n in range(300)), {}])
    sent: list[Part] = []
    with Ids() as ids:
        intake = Intake(chunks(data), EXPECTED, ids, Pace())
        splitter = Splitter(intake.records(), 10_000)
        with pytest.raises(RecordsRefused):
            await _upload(splitter, sent, swallowed)
        assert (await intake.rest()).problems.total == 1
    assert len(splitter.made) == len(sent) - 1


async def test_an_input_that_breaks_off_never_looks_whole() -> None:
    async def breaking() -> AsyncIterator[list[bytes]]:
        yield [b"a"]
        raise ConnectionError("the bucket is gone")

    splitter = Splitter(breaking(), 10)
    with pytest.raises(ConnectionError):
        await _upload(splitter, [], ConnectionError)
    assert splitter.made == []


def test_the_digest_of_the_input_tells_the_order_and_content_of_parts() -> None:
    one, two = (PartMade(number, 1, 1, f"{number:064}") for number in (1, 2))
    assert len({input_digest([one, two]), input_digest([two, one]), input_digest([one]), input_digest([])}) == 4
    assert input_digest([one, two]) == input_digest([one, two])

"""Bytes become the same lines however they are chunked."""

import tracemalloc
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records import lines as module
from relay_operator.records.lines import Block, lines
from relay_operator.records.pace import Pace
from tests.unit.records.streams import chunks, cuts

LONGEST = 8

LINES = {
    "a last newline ends the last line": (b"a\nb\n", [b"a", b"b"]),
    "the last newline may be missing": (b"a\nb", [b"a", b"b"]),
    "CR LF ends a line": (b"a\r\nb\r\n", [b"a", b"b"]),
    "a last CR is not of the line": (b"a\r\nb\r", [b"a", b"b"]),
    "a CR within a line stays": (b"a\rb\n", [b"a\rb"]),
    "a byte order mark is dropped": (b"\xef\xbb\xbfa\nb", [b"a", b"b"]),
    "only the first line has a byte order mark": (b"a\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
    "blank lines keep their place": (b"\n\r\na\n\nb\n\n", [b"", b"", b"a", b"", b"b", b""]),
    "nothing has no lines": (b"", []),
    "a byte order mark alone is a blank line": (b"\xef\xbb\xbf", [b""]),
    "a newline alone is a blank line": (b"\n", [b""]),
    "the longest line passes": (b"12345678\na", [b"12345678", b"a"]),
    "the longest line passes with all that is not of it": (b"\xef\xbb\xbf12345678\r\na", [b"12345678", b"a"]),
}

TOO_LONG = {
    "by a byte": (b"a\n123456789\nb\n", [2]),
    "by much": (b"1" * 500 + b"\nb\n", [1]),
    "without an end": (b"a\nb\n" + b"1" * 500, [3]),
    "by a byte, after a byte order mark and before CR LF": (b"\xef\xbb\xbf123456789\r\n", [1]),
    "several": (b"123456789\n1\n1234567890\n", [1, 3]),
}


async def _blocks(data: bytes, sizes: list[int]) -> list[Block]:
    return [block async for block in lines(chunks(data, sizes), Pace(), LONGEST)]


def _all(blocks: list[Block]) -> list[bytes]:
    return [line for block in blocks for line in block.lines]


@pytest.mark.parametrize(("data", "expected"), LINES.values(), ids=LINES)
async def test_lines(data: bytes, expected: list[bytes]) -> None:
    for sizes in ([], [1] * len(data), [3] * len(data)):
        blocks = await _blocks(data, sizes)
        assert _all(blocks) == expected
        assert not any(block.too_long for block in blocks)


@pytest.mark.parametrize(("data", "numbers"), TOO_LONG.values(), ids=TOO_LONG)
async def test_lines_over_the_limit_are_named_and_empty(data: bytes, numbers: list[int]) -> None:
    for sizes in ([], [1] * len(data), [7] * len(data)):
        blocks = await _blocks(data, sizes)
        assert [number for block in blocks for number in block.too_long] == numbers
        assert all(_all(blocks)[number - 1] == b"" for number in numbers)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xef\xbb\xbf", b"12345678"]), max_size=40).map(b"".join), cuts)
async def test_any_chunking_gives_the_same_lines(data: bytes, sizes: list[int]) -> None:
    whole, cut = await _blocks(data, []), await _blocks(data, sizes)
    assert _all(cut) == _all(whole)
    assert [each for block in cut for each in block.too_long] == [each for block in whole for each in block.too_long]


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc"]), max_size=40).map(b"".join), cuts)
async def test_blocks_number_their_lines_without_a_gap(data: bytes, sizes: list[int]) -> None:
    number = 1
    for block in await _blocks(data, sizes):
        assert block.first == number
        number += len(block.lines)


async def test_a_block_has_a_bounded_number_of_lines_and_bytes() -> None:
    short = [block async for block in lines(chunks(b"{}\n" * 10_000), Pace())]
    assert max(len(block.lines) for block in short) == module.PIECE_LINES
    long = [block async for block in lines(chunks((b"x" * 999 + b"\n") * 1000), Pace())]
    assert max(sum(map(len, block.lines)) for block in long) <= module.PIECE_BYTES + 1000
    assert len(_all(short)) == 10_000
    assert len(_all(long)) == 1000


async def test_a_line_without_end_is_not_held() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 100_000

    tracemalloc.start()
    blocks = [block async for block in lines(endless(), Pace(), 1_000_000)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [block.too_long for block in blocks] == [(1,)]
    assert peak < 5_000_000


async def test_a_line_that_comes_in_tiny_chunks_takes_no_more_memory_than_its_bytes() -> None:
    tracemalloc.start()
    blocks = [block async for block in lines(_tiny(b"x" * 200_000), Pace())]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert _all(blocks) == [b"x" * 200_000]
    assert peak < 1_500_000


async def _tiny(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 2):
        yield data[start : start + 2]

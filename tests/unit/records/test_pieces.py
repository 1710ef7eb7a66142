"""Streams of bytes in pieces of other lengths."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.pieces import collected, cut, gathered


async def stream(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 30), st.integers(1, 30))
async def test_gathered_pieces_have_the_same_bytes_and_the_least_length(
    parts: list[bytes], size: int, front: int
) -> None:
    pieces = gathered(stream(parts), size)
    first = await collected(pieces, front)
    rest = [piece async for piece in pieces]
    assert first + b"".join(rest) == b"".join(parts)
    assert len(first) >= min(front, len(b"".join(parts)))
    assert all(len(piece) >= size for piece in rest[:-1])
    assert all(rest)


@given(st.binary(max_size=50), st.integers(1, 20))
def test_a_chunk_is_cut_into_pieces_that_are_short_enough(chunk: bytes, longest: int) -> None:
    pieces = list(cut(memoryview(chunk), longest))
    assert b"".join(pieces) == chunk
    assert all(0 < len(piece) <= longest for piece in pieces)

"""A page of a list ends where it has as many items as were asked for, or consists of too many parts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from relay_localcloud.http.pages import MOST_PARTS, Page


@dataclass
class Row:
    sequence: int
    parts: int = 1


def pages(rows: list[Row], limit: int) -> list[list[int]]:
    """The numbers of the items on each page, to the end."""
    found: list[list[int]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = Page(limit, cursor).newest(
            "rows",
            "org",
            lambda before, count: [row for row in reversed(rows) if before is None or row.sequence < before][:count],
            lambda row: row.sequence,
            lambda row: row.parts,
        )
        items, following = page["items"], page.get("nextCursor")
        assert isinstance(items, list)
        assert following is None or isinstance(following, str)
        found, cursor = [*found, items], following
    return found


def test_few_parts_end_no_page() -> None:
    assert pages([Row(number) for number in range(5)], 2) == [[4, 3], [2, 1], [0]]
    assert pages([Row(number, 0) for number in range(4)], 2) == [[3, 2], [1, 0]]
    assert pages([], 2) == [[]]


@pytest.mark.parametrize(("beyond", "ends"), [(-1, [[3, 2, 1], [0]]), (0, [[3, 2], [1, 0]]), (1, [[3, 2], [1, 0]])])
def test_many_parts_end_a_page_before_there_are_too_many(beyond: int, ends: list[list[int]]) -> None:
    sizes = [5, MOST_PARTS // 2 + beyond, MOST_PARTS // 2, 10 * MOST_PARTS]
    assert pages([Row(number, parts) for number, parts in enumerate(sizes)], 4) == ends

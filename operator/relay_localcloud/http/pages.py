"""Cursor pages (section 1, "Pagination"): `limit` up to 200, 50 by default (assumed); cursors are opaque.

def list_clusters(caller: ClusterReader, page: PageRequest, tx: Tx) -> dict[str, object]:
    rows = partial(CLUSTERS.page, tx, organization_id=caller.organization_id)
    return page.newest("clusters", caller.organization_id, rows, shown)

def list_ssh_keys(caller: ToolingReader, page: PageRequest, tx: Tx) -> dict[str, object]:
    rows = partial(KEYS.after, tx, organization_id=caller.organization_id)
    return page.oldest("SSH keys", caller.organization_id, rows, shown)
"""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Final, Protocol, TypeVar

from pydantic import Field

from relay_localcloud.http.arguments import Depends, Query
from relay_localcloud.http.errors import ApiError

MOST_PARTS: Final = 1_000
"""The most parts of a page's items, not counting the first item: making an answer delays everybody else."""
_WRITTEN: Final = re.compile(r"[0-9a-f]{16}:\[([0-9]{1,18})\]")


class Sequenced(Protocol):
    """A row with a number that increases from row to row."""

    @property
    def sequence(self) -> int: ...


_RowT = TypeVar("_RowT")
_SequencedT = TypeVar("_SequencedT", bound=Sequenced)


@dataclass(frozen=True)
class Page:
    """Which page of a list is asked for."""

    limit: int
    cursor: str | None

    def newest(
        self,
        listing: str,
        organization_id: str,
        rows: Callable[[int | None, int], Sequence[_SequencedT]],
        shown: Callable[[_SequencedT], object],
        parts: Callable[[_SequencedT], int] = lambda _: 1,
    ) -> dict[str, object]:
        """The answer `{items, nextCursor?}`; `rows(before, count)` gives up to `count` rows numbered below `before`,
        the newest first.

        `parts` gives the number of parts of an item: the page ends before there are too many.
        ApiError 400 for a cursor that is not from this list.
        """
        found = rows(self._place(listing, organization_id), self.limit + 1)
        ends = accumulate(parts(row) for row in found[1 : self.limit])
        count = min(1 + sum(end < MOST_PARTS for end in ends), len(found))
        page: dict[str, object] = {"items": [shown(row) for row in found[:count]]}
        if len(found) > count:
            page["nextCursor"] = _cursor(listing, organization_id, found[count - 1].sequence)
        return page

    def oldest(
        self,
        listing: str,
        organization_id: str,
        rows: Callable[[int, int], Sequence[tuple[int, _RowT]]],
        shown: Callable[[_RowT], object],
    ) -> dict[str, object]:
        """The answer `{items, nextCursor?}`; `rows(after, count)` gives up to `count` rows, the oldest first, each with
        its place, which is above `after` and stays the same.

        ApiError 400 for a cursor that is not from this list.
        """
        place = self._place(listing, organization_id)
        found = rows(-1 if place is None else place, self.limit + 1)
        page: dict[str, object] = {"items": [shown(row) for _, row in found[: self.limit]]}
        if len(found) > self.limit:
            page["nextCursor"] = _cursor(listing, organization_id, found[self.limit - 1][0])
        return page

    def _place(self, listing: str, organization_id: str) -> int | None:
        if not self.cursor:
            return None
        try:
            written = _WRITTEN.fullmatch(base64.urlsafe_b64decode(self.cursor.encode("ascii")).decode())
        except ValueError:
            written = None
        if written is None or self.cursor != _cursor(listing, organization_id, int(written[1])):
            raise ApiError(400, "cursor: this list gave no such cursor; pass nextCursor back exactly as received.")
        return int(written[1])


def among(placed: Sequence[tuple[int, _RowT]]) -> Callable[[int, int], list[tuple[int, _RowT]]]:
    """The `rows` of `Page.oldest`, from all of them with their places, the oldest first."""
    return lambda after, count: [each for each in placed if each[0] > after][:count]


async def _page(
    limit: Annotated[int, Query(), Field(ge=1, le=200, description="Items on a page.")] = 50,
    cursor: Annotated[str | None, Query(), Field(description="The nextCursor of the page before.")] = None,
) -> Page:
    return Page(limit, cursor)


PageRequest = Annotated[Page, Depends(_page)]


def _cursor(listing: str, organization_id: str, place: int) -> str:
    written = f"[{place}]"
    digest = hashlib.sha256(f"{listing}\n{organization_id}\n{written}".encode()).hexdigest()[:16]
    return base64.urlsafe_b64encode(f"{digest}:{written}".encode()).decode()

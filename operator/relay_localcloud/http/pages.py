"""Cursor pages (section 1, "Pagination"): `limit` up to 200, 50 by default (assumed); cursors are opaque.

async def list_clusters(caller: ClusterReader, page: PageRequest, cloud: CurrentCloud) -> Response:
    place = page.after("clusters", caller.organization_id)   # None on the first page, else what next_cursor was given
    rows = ...                                               # page.limit + 1 rows after that place
    return answer(page.of("clusters", caller.organization_id, rows, shown, lambda row: [row.created_at, row.id]))
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar

from pydantic import Field, JsonValue

from relay_localcloud.http.arguments import Depends, Query
from relay_localcloud.http.errors import ApiError


class Sequenced(Protocol):
    """A row with a number that later rows have greater ones than."""

    @property
    def sequence(self) -> int: ...


_RowT = TypeVar("_RowT")
_SequencedT = TypeVar("_SequencedT", bound=Sequenced)

Place = list[JsonValue]
"""Where a page ended: the values of the sort key of its last row."""


@dataclass(frozen=True)
class Page:
    """Which page of a list is asked for."""

    limit: int
    cursor: str | None

    def after(self, listing: str, organization_id: str) -> Place | None:
        """The place to go on from; ApiError 400 for a cursor that this list did not give."""
        if not self.cursor:
            return None
        try:
            text = base64.urlsafe_b64decode(self.cursor.encode("ascii")).decode()
            digest, _, place = text.partition(":")
            given_here = digest == _digest(listing, organization_id, place)
            if given_here and base64.urlsafe_b64encode(text.encode()).decode() == self.cursor:
                return list(json.loads(place))
        except (UnicodeError, binascii.Error, ValueError):
            pass
        raise ApiError(400, "cursor: this list gave no such cursor; pass nextCursor back exactly as received.")

    def newest(
        self,
        listing: str,
        organization_id: str,
        rows: Callable[[int | None, int], Sequence[_SequencedT]],
        shown: Callable[[_SequencedT], object],
    ) -> dict[str, object]:
        """The answer for a list from the newest on; `rows` gives up to so many of those before a sequence number."""
        place = self.after(listing, organization_id)
        found = rows(None if place is None else int(str(place[0])), self.limit + 1)
        return self.of(listing, organization_id, found, shown, lambda row: [row.sequence])

    def of(
        self,
        listing: str,
        organization_id: str,
        rows: Sequence[_RowT],
        shown: Callable[[_RowT], object],
        place: Callable[[_RowT], Place],
    ) -> dict[str, object]:
        """The answer `{items, nextCursor?}` from up to `limit + 1` rows."""
        items = rows[: self.limit]
        page: dict[str, object] = {"items": [shown(row) for row in items]}
        if len(rows) > self.limit:
            text = json.dumps(place(items[-1]))
            signed = f"{_digest(listing, organization_id, text)}:{text}"
            page["nextCursor"] = base64.urlsafe_b64encode(signed.encode()).decode()
        return page


async def _page(
    limit: Annotated[int, Query(), Field(ge=1, le=200, description="Items on a page.")] = 50,
    cursor: Annotated[str | None, Query(), Field(description="The nextCursor of the page before.")] = None,
) -> Page:
    return Page(limit, cursor)


PageRequest = Annotated[Page, Depends(_page)]


def _digest(listing: str, organization_id: str, place: str) -> str:
    return hashlib.sha256(f"{listing}\n{organization_id}\n{place}".encode()).hexdigest()[:16]

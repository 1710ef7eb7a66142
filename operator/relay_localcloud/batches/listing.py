"""Lists of files and of batches: newest first, `after` an id, `limit` up to 200 (assumed), as section 2 has them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import ColumnElement, RowMapping, Table, select

from relay_localcloud.http.arguments import Depends, Query
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True)
class Listing:
    """Which page is asked for."""

    after: str | None
    limit: int

    def of(
        self,
        tx: Tx,
        table: Table,
        organization_id: str,
        shown: Callable[[RowMapping], dict[str, object]],
        *conditions: ColumnElement[bool],
    ) -> dict[str, object]:
        """The page; ApiError 400 for an `after` that this organization's list never had."""
        query = select(table).where(table.c.organization_id == organization_id, *conditions)
        if self.after:
            query = query.where(table.c.sequence < _place(tx, table, organization_id, self.after))
        query = query.order_by(table.c.sequence.desc()).limit(self.limit + 1)
        rows = tx.connection.execute(query).mappings().all()
        data = [shown(row) for row in rows[: self.limit]]
        return {
            "object": "list",
            "data": data,
            "has_more": len(rows) > self.limit,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
        }


def _place(tx: Tx, table: Table, organization_id: str, after: str) -> int:
    query = select(table.c.sequence).where(table.c.id == after, table.c.organization_id == organization_id)
    place = tx.connection.execute(query).scalar()
    if place is None:
        raise ApiError(400, f"after: this list has nothing with the id {after!r}; pass last_id of the page before.")
    return int(place)


async def _listing(
    after: Annotated[str | None, Query(), Field(description="The last_id of the page before.")] = None,
    limit: Annotated[int, Query(), Field(ge=1, le=200, description="Entries on a page.")] = 50,
) -> Listing:
    return Listing(after, limit)


ListingRequest = Annotated[Listing, Depends(_listing)]

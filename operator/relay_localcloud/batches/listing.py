"""Lists of files and of batches: newest first, `after` an id, `limit` up to 200 (assumed), as in section 2."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from relay_localcloud.batches.rows import Batch, File
from relay_localcloud.http.arguments import Depends, Query
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True)
class Listing:
    """The requested page."""

    after: str | None
    limit: int

    def of(self, tx: Tx, rows: Rows[File] | Rows[Batch], organization_id: str, **equal: object) -> dict[str, object]:
        """The page; ApiError 400 for an `after` that was never in this organization's list."""
        last = rows.find(tx, id=self.after, organization_id=organization_id) if self.after else None
        if self.after and last is None:
            raise ApiError(
                400, f"after: this list has nothing with the id {self.after!r}; pass last_id of the page before."
            )
        before = None if last is None else last.sequence
        found = rows.page(tx, before, self.limit + 1, organization_id=organization_id, **equal)
        data = [row.as_json() for row in found[: self.limit]]
        return {
            "object": "list",
            "data": data,
            "has_more": len(found) > self.limit,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
        }


async def _listing(
    after: Annotated[str | None, Query(), Field(description="The last_id of the page before.")] = None,
    limit: Annotated[int, Query(), Field(ge=1, le=200, description="Entries on a page.")] = 50,
) -> Listing:
    return Listing(after, limit)


ListingRequest = Annotated[Listing, Depends(_listing)]

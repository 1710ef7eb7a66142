"""Walks cursor-paged lists to their end (section 1, "Pagination")."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from relay_client.cloud import Cloud
from relay_client.errors import Unreadable
from relay_client.operations import LIST_CLUSTERS, Operation
from relay_wire.base import Page
from relay_wire.clusters import ClusterSummary

ItemT = TypeVar("ItemT")

MAX_PAGES = 1000


@dataclass(frozen=True, slots=True)
class Listing(Generic[ItemT]):
    """All items of a paged list; where `complete` is False, an item that is missing here may exist."""

    items: tuple[ItemT, ...]
    complete: bool


async def pages(
    cloud: Cloud, operation: Operation[None, Page[ItemT]], *, limit: int | None = None, max_pages: int = MAX_PAGES
) -> AsyncIterator[Page[ItemT]]:
    """The pages of a list, at most `max_pages` of `limit` items. Raises Unreadable where a cursor comes again."""
    seen: set[str] = set()
    query: dict[str, str | int] = {} if limit is None else {"limit": limit}
    for _ in range(max_pages):
        page = await cloud.call(operation, query=query)
        yield page
        cursor = page.next_cursor
        if not cursor:
            return
        if cursor in seen:
            raise Unreadable(operation.name, "the list repeats a cursor, so it has no end", status=200)
        seen.add(cursor)
        query["cursor"] = cursor


async def listing(
    cloud: Cloud, operation: Operation[None, Page[ItemT]], *, limit: int | None = None, max_pages: int = MAX_PAGES
) -> Listing[ItemT]:
    """All pages as one. Raises CloudError, rather than answering a part, where a page cannot be read."""
    items: list[ItemT] = []
    complete = False
    async for page in pages(cloud, operation, limit=limit, max_pages=max_pages):
        items += page.items
        complete = not page.next_cursor
    return Listing(tuple(items), complete)


async def list_clusters(cloud: Cloud, *, limit: int | None = None) -> Listing[ClusterSummary]:
    """All clusters of the organization; `limit` is the size of a page."""
    return await listing(cloud, LIST_CLUSTERS, limit=limit)

"""Reads paged lists to their end: by cursor (section 1, "Pagination"), files and batches by `after` (section 2)."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from relay_client.cloud import Cloud
from relay_client.errors import Oversized, Unreadable
from relay_client.list_room import ListTurn
from relay_client.memory import memory_of
from relay_client.operations import LIST_BATCHES, LIST_FILES, AnyOperation, Operation
from relay_wire.base import Page
from relay_wire.batches import Batch
from relay_wire.files import FileObject

ItemT = TypeVar("ItemT")
PageT = TypeVar("PageT")
ItemT_co = TypeVar("ItemT_co", bound="_Identified", covariant=True)

MAX_PAGES = 1000
MAX_KEPT_ITEMS = 20_000
MAX_KEPT_BYTES = 48 * 1024**2
"""The most memory of one list, as `memory_of` counts it, since each page may be as large as an answer may."""
LARGE = 4 * 1024**2
"""In bytes of memory: what has more is read alone in its room, as is what has a large page."""


@dataclass(slots=True)
class Weight:
    """Counts the memory of lists in bytes."""

    size: int = 0


WEIGHT: Final = ContextVar[Weight | None]("weight", default=None)
"""Counts every list that is read in this context."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[ItemT]):
    """All items of a paged list; if `complete` is False, an item that is missing here may exist."""

    items: tuple[ItemT, ...]
    complete: bool


async def read(
    cloud: Cloud,
    operation: Operation[None, PageT],
    turn: ListTurn | None,
    query: Mapping[str, str | int] | None = None,
    **path_params: str,
) -> PageT:
    """One page, which may be large only in its turn, if it has one: then it is asked for again. Raises CloudError."""
    if turn is not None and not turn.taken:
        with suppress(Oversized):
            return await cloud.call(operation, query=query, large=False, **path_params)
        await turn.take()
    return await cloud.call(operation, query=query, large=True, **path_params)


async def pages(
    cloud: Cloud,
    operation: Operation[None, Page[ItemT]],
    turn: ListTurn | None = None,
    *,
    query: Mapping[str, str | int] | None = None,
    limit: int | None = None,
    max_pages: int = MAX_PAGES,
    **path_params: str,
) -> AsyncIterator[Page[ItemT]]:
    """The pages of a list, at most `max_pages` of `limit` items each; `query` and `path_params` as in `Cloud.call`.

    Raises Unreadable if a cursor repeats.
    """
    seen: set[str] = set()
    asked = dict(query or {}) | ({} if limit is None else {"limit": limit})
    for _ in range(max_pages):
        page = await read(cloud, operation, turn, asked, **path_params)
        yield page
        cursor = page.next_cursor
        if not cursor:
            return
        if cursor in seen:
            raise Unreadable(operation.name, "the list repeats a cursor, so it has no end", status=200)
        seen.add(cursor)
        asked["cursor"] = cursor


async def listing(
    cloud: Cloud,
    operation: Operation[None, Page[ItemT]],
    *,
    query: Mapping[str, str | int] | None = None,
    limit: int | None = None,
    max_pages: int = MAX_PAGES,
    **path_params: str,
) -> Listing[ItemT]:
    """All pages as one list.

    Raises CloudError, rather than return a part, if a page cannot be read.
    """
    complete = False
    async with ListTurn(cloud.lists) as turn:
        kept = _Kept[ItemT](operation.name, turn)
        async for page in pages(cloud, operation, turn, query=query, limit=limit, max_pages=max_pages, **path_params):
            await kept.keep(page.items)
            complete = not page.next_cursor
    return Listing(tuple(kept.items), complete)


async def items_of(
    cloud: Cloud,
    operation: Operation[None, Page[ItemT]],
    *,
    query: Mapping[str, str | int] | None = None,
    limit: int | None = None,
    max_pages: int = MAX_PAGES,
    **path_params: str,
) -> tuple[ItemT, ...]:
    """All items of a list, read page by page. Raises CloudError, rather than return a part, if it has more pages."""
    found = await listing(cloud, operation, query=query, limit=limit, max_pages=max_pages, **path_params)
    if not found.complete:
        raise Unreadable(operation.name, f"the list has more than {max_pages} pages", status=200)
    return found.items


async def gathered(
    cloud: Cloud, operation: AnyOperation, items: Callable[[ListTurn], AsyncIterable[ItemT]]
) -> list[ItemT]:
    """The items as one list, in its turn; `operation` names them in errors. Raises Unreadable if they are too many."""
    async with ListTurn(cloud.lists) as turn:
        kept = _Kept[ItemT](operation.name, turn)
        async for item in items(turn):
            await kept.keep([item])
    return kept.items


def weigh(items: Iterable[object]) -> None:
    """Count what is kept of an answer that is not read as a list."""
    if (weight := WEIGHT.get()) is not None:
        weight.size += sum(map(memory_of, items))


@dataclass(slots=True)
class _Kept(Generic[ItemT]):
    """Items of a list, within the limits; once it is large, it is the only one in its room."""

    operation: str
    turn: ListTurn
    items: list[ItemT] = field(default_factory=list)
    _bytes: int = 0

    async def keep(self, more: Iterable[ItemT]) -> None:
        """Add items. Raises Unreadable, rather than keep a part, if they are too many."""
        weight = WEIGHT.get()
        for item in more:
            size = memory_of(item)
            self._bytes += size
            if len(self.items) >= MAX_KEPT_ITEMS or self._bytes > MAX_KEPT_BYTES:
                most = f"{MAX_KEPT_ITEMS} items, or {MAX_KEPT_BYTES >> 20} MiB of memory"
                raise Unreadable(self.operation, f"the list has more than {most}", status=200)
            if self._bytes > LARGE:
                await self.turn.take()
            self.items.append(item)
            if weight is not None:
                weight.size += size


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


class _AfterPage(Protocol[ItemT_co]):
    @property
    def data(self) -> Sequence[ItemT_co]: ...
    @property
    def has_more(self) -> bool: ...
    @property
    def last_id(self) -> str | None: ...


def batches(cloud: Cloud, turn: ListTurn | None = None, *, limit: int | None = None) -> AsyncGenerator[Batch, None]:
    """All batches of the organization, newest first, read page by page; `limit` is the page size.

    Large pages wait for the `turn`, if it is given. Raises CloudError, rather than end early, if a page cannot be read
    or the list does not end.
    """
    return _after(cloud, LIST_BATCHES, turn, limit)


def files(cloud: Cloud, turn: ListTurn | None = None, *, limit: int | None = None) -> AsyncGenerator[FileObject, None]:
    """All files of the organization, read as in `batches`."""
    return _after(cloud, LIST_FILES, turn, limit)


async def _after(
    cloud: Cloud, operation: Operation[None, _AfterPage[ItemT_co]], turn: ListTurn | None, limit: int | None
) -> AsyncGenerator[ItemT_co, None]:
    seen: set[str] = set()
    query: dict[str, str | int] = {} if limit is None else {"limit": limit}
    for _ in range(MAX_PAGES):
        page = await read(cloud, operation, turn, query)
        for item in page.data:
            yield item
        if not page.has_more:
            return
        last = page.last_id or (page.data[-1].id if page.data else None)
        if last is None:
            raise Unreadable(
                operation.name, "the list has more pages, but does not say where the next one is", status=200
            )
        if last in seen:
            raise Unreadable(operation.name, "the list repeats a page, so it has no end", status=200)
        seen.add(last)
        query["after"] = last
    raise Unreadable(operation.name, f"the list does not end within {MAX_PAGES} pages", status=200)

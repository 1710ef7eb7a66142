"""Reads, writes and checks objects, wherever they are."""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.bucket_errors import already_there
from relay_operator.objectstores.buckets import BucketStore
from relay_operator.objectstores.credentials import (
    AzureCredentials,
    Credentials,
    GcsCredentials,
    S3Credentials,
    WebCredentials,
)
from relay_operator.objectstores.egress import EgressGuard, Resolver, system_resolver
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.files import FileStore
from relay_operator.objectstores.location import Location, Scheme
from relay_operator.objectstores.reading import Reading
from relay_operator.objectstores.store import Store
from relay_operator.objectstores.web import web_store

_CLAIM = ".claim"
"""The end of the name of an object by which another is claimed."""


class ObjectStores:
    """Every place that batches read from and write to. Made once; `async with` it for as long as it is used.

    Credentials are those of the location's scheme; None: nothing is signed, as for public objects. Every method raises
    `StoreError`.
    """

    def __init__(self, policy: StorePolicy, *, resolve: Resolver = system_resolver) -> None:
        self._policy = policy
        self._guard = EgressGuard(policy.private_networks, resolve=resolve)

    async def __aenter__(self) -> Self:
        await self._guard.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._guard.__aexit__()

    @asynccontextmanager
    async def read(self, location: Location, credentials: Credentials | None) -> AsyncIterator[Reading]:
        """Opens an object."""
        async with self._store(location, credentials) as store:
            reading = Reading(location, store, await store.open(0, ""))
            try:
                yield reading
            finally:
                await reading.aclose()

    async def exists(self, location: Location, credentials: Credentials | None) -> bool:
        """Whether there is an object; a bucket that is missing is an error."""
        async with self._store(location, credentials) as store:
            return await store.find() is not None

    async def write(self, location: Location, credentials: Credentials | None, chunks: AsyncIterable[bytes]) -> str:
        """Publishes an object whole or not at all, also when cancelled; what `chunks` raises is raised.

        An object that is there is replaced. Answers the store's marker of exactly this content, empty if it gives
        none. After Unreachable the object may be there all the same.
        """
        async with self._store(location, credentials) as store:
            return await store.write(chunks)

    async def claim(self, location: Location, credentials: Credentials | None, owner: str) -> bool:
        """Whether the object is the owner's from here on, by another object beside it that names the owner.

        Of several who claim it one succeeds, again and again, until it releases it. Nothing can be claimed on web
        servers: whoever asks succeeds.
        """
        if location.on_the_web:
            return True
        mark, content = location.beside(_CLAIM), owner.encode()
        async with self._store(mark, credentials) as store:
            while not await store.create(content):
                found = await self._content(mark, store)
                if found is not None:
                    return found == content
        return True

    async def release(self, location: Location, credentials: Credentials | None, owner: str) -> None:
        """What the owner claimed may be claimed by others; what others claimed stays theirs."""
        if location.on_the_web:
            return
        mark = location.beside(_CLAIM)
        async with self._store(mark, credentials) as store:
            if await self._content(mark, store) == owner.encode():
                await store.delete()

    async def _content(self, mark: Location, store: Store) -> bytes | None:
        """Of an object of a few bytes; what is longer is nobody's mark. None if there is none."""
        if await store.find() is None:
            return None
        reading = Reading(mark, store, await store.open(0, ""))
        try:
            return await anext(aiter(reading), b"")
        finally:
            await reading.aclose()

    async def check_writable(
        self, location: Location, credentials: Credentials | None, *, replace: bool = True
    ) -> None:
        """As good as can be known before paying: the bucket is there and may be written to. Leaves nothing behind.

        Without `replace`, an object that is there is AlreadyExists.
        """
        async with self._store(location, credentials) as store:
            if not replace and await store.find() is not None:
                raise already_there(location)
            await store.check_writable()

    @asynccontextmanager
    async def _store(self, location: Location, credentials: Credentials | None) -> AsyncIterator[Store]:
        async with AsyncExitStack() as until_done:
            if location.scheme is Scheme.FILE:
                yield FileStore(location, self._policy.file_roots)
                return
            opening, passage = credentials or _nothing(location), until_done.enter_context(self._guard.passage())
            if isinstance(opening, WebCredentials):
                yield await until_done.enter_async_context(web_store(location, opening, passage))
            else:
                yield BucketStore(location, opening, passage)


def _nothing(location: Location) -> Credentials:
    """The credentials of those who have none."""
    match location.scheme:
        case Scheme.S3:
            return S3Credentials("", "")
        case Scheme.GCS:
            return GcsCredentials("", "", "")
        case Scheme.AZURE if location.account:
            return AzureCredentials(location.account)
        case Scheme.AZURE:
            sentence = f"{location} names no storage account: write az://container@account/path, or name a Secret."
            raise StoreError(StoreReason.INVALID, sentence)
        case _:
            return WebCredentials()

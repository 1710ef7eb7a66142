"""Reads, writes and checks objects of all kinds of places."""

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
"""The suffix of the object that claims another."""
_CLAIM_TRIES = 5
"""How often a claim is tried whose present owner releases it meanwhile."""


class ObjectStores:
    """Every place that batches read and write. Create it once, and use it within `async with`.

    Credentials must fit the location's scheme; None means unsigned requests, as for public objects. Every method raises
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
        """Open an object."""
        async with self._store(location, credentials) as store:
            reading = Reading(location, store, await store.open(0, ""))
            try:
                yield reading
            finally:
                await reading.aclose()

    async def exists(self, location: Location, credentials: Credentials | None) -> bool:
        """Whether the object exists; a missing bucket is an error."""
        async with self._store(location, credentials) as store:
            return await store.find() is not None

    async def write(self, location: Location, credentials: Credentials | None, chunks: AsyncIterable[bytes]) -> str:
        """Publish an object, all or nothing, even when cancelled; raises what `chunks` raises.

        Replaces an existing object. Returns the store's marker of exactly this content, empty if it has none. After
        Unreachable the object may exist all the same.
        """
        async with self._store(location, credentials) as store:
            return await store.write(chunks)

    async def claim(self, location: Location, credentials: Credentials | None, owner: str) -> bool:
        """Claim the object for the owner with a second object beside it; returns whether the claim is the owner's.

        Of several claimants one succeeds, also repeatedly, until it releases the claim. Objects on web servers have no
        claims: every caller succeeds.
        """
        if location.on_the_web:
            return True
        mark, content = location.beside(_CLAIM), owner.encode()
        async with self._store(mark, credentials) as store:
            for _ in range(_CLAIM_TRIES):
                # Before a create and after it, since some services ignore its condition: the last one has the claim.
                if (found := await self._content(mark, store)) is not None:
                    return found == content
                await store.create(content)
        sentence = f"{mark} cannot be created, since its name is taken, nor read: remove what has this name."
        raise StoreError(StoreReason.UNREACHABLE, sentence)

    async def is_claimed(self, location: Location, credentials: Credentials | None, owner: str) -> bool:
        """Whether the owner has claimed the object; never on web servers, which have no claims."""
        if location.on_the_web:
            return False
        mark = location.beside(_CLAIM)
        async with self._store(mark, credentials) as store:
            return await self._content(mark, store) == owner.encode()

    async def release(self, location: Location, credentials: Credentials | None, owner: str) -> None:
        """Release the owner's claim; another owner's claim stays."""
        if location.on_the_web:
            return
        mark = location.beside(_CLAIM)
        async with self._store(mark, credentials) as store:
            if await self._content(mark, store) == owner.encode():
                await store.delete()

    async def _content(self, mark: Location, store: Store) -> bytes | None:
        """The content of a claim, which is a few bytes: a longer object is never a claim. None if absent."""
        try:
            opened = await store.open(0, "")
        except StoreError as error:
            if error.reason is not StoreReason.NOT_FOUND:
                raise
            return None
        reading = Reading(mark, store, opened)
        try:
            return await anext(aiter(reading), b"")
        finally:
            await reading.aclose()

    async def check_writable(
        self, location: Location, credentials: Credentials | None, *, replace: bool = True
    ) -> None:
        """Check, before anything is paid for, that the bucket exists and is writable. Leaves nothing behind.

        Without `replace`, an existing object is AlreadyExists.
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
    """The credentials for unsigned requests."""
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

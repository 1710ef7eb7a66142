"""A test's own bucket, and what tests do to objects in every kind of place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from relay_operator.objectstores.credentials import read_credentials
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from relay_operator.objectstores.credentials import Credentials
    from relay_operator.objectstores.stores import ObjectStores
    from tests.support.s3 import S3Server

MEBIBYTE = 1_048_576


@dataclass(frozen=True)
class Bucket:
    """A bucket of the S3 server."""

    server: S3Server
    name: str

    def location(self, key: str) -> Location:
        return Location.parse(f"s3://{self.name}/{key}")

    def credentials(self, **changed: str) -> Credentials:
        return read_credentials(self.location("any"), self.server.secret(**changed), "s3")


async def content(stores: ObjectStores, location: Location, credentials: Credentials | None) -> bytes:
    """Everything."""
    async with stores.read(location, credentials) as reading:
        return b"".join([piece async for piece in reading])


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def mebibytes(count: int) -> AsyncIterator[bytes]:
    """Each is filled with the low byte of its number."""
    for number in range(count):
        yield bytes([number % 256]) * MEBIBYTE


async def fails_for(reason: StoreReason, work: Awaitable[object]) -> str:
    """Asserts the reason and answers the sentence."""
    with pytest.raises(StoreError) as raised:
        await work
    assert raised.value.reason is reason, raised.value.message
    return raised.value.message

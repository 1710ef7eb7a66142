"""Connections that are cut, and objects that change or vanish while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_operator.objectstores import buckets
from relay_operator.objectstores.errors import StoreError, StoreReason
from tests.objectstores.bucket import MEBIBYTE, content, fails_for, mebibytes
from tests.objectstores.unreliable import Unreliable, unreliable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_operator.objectstores.credentials import Credentials
    from relay_operator.objectstores.stores import ObjectStores
    from tests.objectstores.bucket import Bucket

BODY = bytes(range(256)) * 4096 * 3


@pytest_asyncio.fixture
async def network(bucket: Bucket) -> AsyncIterator[Unreliable]:
    await bucket.server.put(bucket.name, "object", BODY)
    async with unreliable(bucket.server.url) as between:
        yield between


def through(network: Unreliable, bucket: Bucket) -> Credentials:
    return bucket.credentials(AWS_ENDPOINT_URL=network.url)


async def test_a_read_that_is_cut_goes_on_from_where_it_was(
    stores: ObjectStores, bucket: Bucket, network: Unreliable
) -> None:
    network.cuts = [MEBIBYTE + 7, 0, MEBIBYTE, 13]
    assert await content(stores, bucket.location("object"), through(network, bucket)) == BODY
    first, *others = [(asked, match) for method, asked, match in network.requests if method == "GET"]
    assert first == ("", "")
    assert len(others) == 4
    assert all(asked.startswith("bytes=") for asked, _ in others)


async def test_an_object_that_vanishes_midway_has_changed(
    stores: ObjectStores, bucket: Bucket, network: Unreliable
) -> None:
    async def remove() -> None:
        await bucket.server.delete(bucket.name, "object")

    network.cuts, network.meanwhile = [MEBIBYTE], remove
    said = await fails_for(StoreReason.CHANGED, content(stores, bucket.location("object"), through(network, bucket)))
    assert str(bucket.location("object")) in said


async def test_an_object_that_is_replaced_midway_has_changed(
    stores: ObjectStores, bucket: Bucket, network: Unreliable
) -> None:
    async def replace() -> None:
        await bucket.server.put(bucket.name, "object", BODY[::-1])

    network.cuts, network.meanwhile = [MEBIBYTE], replace
    await fails_for(StoreReason.CHANGED, content(stores, bucket.location("object"), through(network, bucket)))
    assert network.requests[-1][2], "the read goes on for the same version alone"


async def test_a_read_that_never_gets_further_is_given_up(
    stores: ObjectStores, bucket: Bucket, network: Unreliable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_operator.objectstores.reading._PAUSES", (0.0, 0.0))
    network.cuts = [MEBIBYTE] + [0] * 100
    with pytest.raises(StoreError) as raised:
        await content(stores, bucket.location("object"), through(network, bucket))
    assert raised.value.transient


async def test_an_upload_whose_part_is_refused_leaves_nothing(
    stores: ObjectStores, bucket: Bucket, network: Unreliable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(buckets._RETRIES, "max_retries", 1)
    network.refused_part = "2"
    said = await fails_for(
        StoreReason.UNREACHABLE,
        stores.write(bucket.location("never"), through(network, bucket), mebibytes(25)),
    )
    assert "503" in said
    assert await bucket.server.keys(bucket.name) == ["object"]
    assert await bucket.server.uploads(bucket.name) == []


async def test_an_upload_is_aborted_only_when_its_last_part_has_arrived(
    stores: ObjectStores, bucket: Bucket, network: Unreliable
) -> None:
    class Broken(Exception): ...

    async def breaking() -> AsyncIterator[bytes]:
        async for piece in mebibytes(8):  # just one part
            yield piece
        await network.part_came.wait()
        raise Broken

    network.hold_parts = True
    with pytest.raises(Broken):
        await stores.write(bucket.location("never"), through(network, bucket), breaking())
    assert network.answered == ["POST", "PUT", "DELETE"]
    assert await bucket.server.uploads(bucket.name) == []

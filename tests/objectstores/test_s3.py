"""Reading and writing buckets of a real S3 server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay_operator.objectstores.errors import StoreReason
from tests.objectstores.bucket import MEBIBYTE, Bucket, chunks, content, fails_for, mebibytes
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from relay_operator.objectstores.stores import ObjectStores


async def test_what_was_written_is_read_with_its_size_and_version(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("folder/in put.jsonl"), bucket.credentials()
    written = await stores.write(location, credentials, chunks(b"one\n", b"two\n"), replace=False)
    async with stores.read(location, credentials) as reading:
        assert (reading.size, reading.version) == (8, written.version)
        assert b"".join([piece async for piece in reading]) == b"one\ntwo\n"
    assert written.size == 8
    assert await bucket.server.get(bucket.name, "folder/in put.jsonl") == b"one\ntwo\n"


@pytest.mark.parametrize("key", ["a b", "percent%20sign", "plus+and&and=", "umläut-日本"])
async def test_a_key_is_taken_as_it_is_written(stores: ObjectStores, bucket: Bucket, key: str) -> None:
    await stores.write(bucket.location(key), bucket.credentials(), chunks(b"x"), replace=False)
    assert await bucket.server.get(bucket.name, key) == b"x"


async def test_an_empty_object_is_written_and_read(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("empty"), bucket.credentials()
    written = await stores.write(location, credentials, chunks(), replace=False)
    assert written.size == 0
    assert await content(stores, location, credentials) == b""


async def test_a_large_object_comes_in_pieces_of_at_most_a_mebibyte(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("large"), bucket.credentials()
    written = await stores.write(location, credentials, mebibytes(12), replace=False)
    assert written.size == 12 * MEBIBYTE
    async with stores.read(location, credentials) as reading:
        assert reading.version == written.version
        pieces = [piece async for piece in reading]
    assert max(map(len, pieces)) <= MEBIBYTE
    assert b"".join(pieces) == b"".join([piece async for piece in mebibytes(12)])


@pytest.mark.parametrize("offset", [0, 1, 5, 9, 10])
async def test_reading_begins_at_any_byte_up_to_the_end(stores: ObjectStores, bucket: Bucket, offset: int) -> None:
    await bucket.server.put(bucket.name, "ten", b"0123456789")
    assert await content(stores, bucket.location("ten"), bucket.credentials(), offset) == b"0123456789"[offset:]


async def test_an_object_that_is_shorter_than_the_offset_has_changed(stores: ObjectStores, bucket: Bucket) -> None:
    await bucket.server.put(bucket.name, "ten", b"0123456789")
    await fails_for(StoreReason.CHANGED, content(stores, bucket.location("ten"), bucket.credentials(), 11))


async def test_a_missing_object_is_told_from_a_missing_bucket(stores: ObjectStores, bucket: Bucket) -> None:
    nowhere = type(bucket)(bucket.server, "no-such-bucket").location("object")
    missing, credentials = bucket.location("missing"), bucket.credentials()
    assert await stores.exists(missing, credentials) is False
    said = await fails_for(StoreReason.NOT_FOUND, content(stores, missing, credentials))
    assert str(missing) in said
    await fails_for(StoreReason.BUCKET_NOT_FOUND, content(stores, nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.exists(nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.check_writable(nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.write(nowhere, credentials, chunks(b"x"), replace=True))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.write(nowhere, credentials, mebibytes(17), replace=True))


@pytest.mark.parametrize("wrong", [{"AWS_ACCESS_KEY_ID": "nobody"}, {"AWS_SECRET_ACCESS_KEY": "Guessed-Secret"}])
async def test_a_wrong_key_is_forbidden_and_shown_nowhere(
    stores: ObjectStores, bucket: Bucket, wrong: dict[str, str]
) -> None:
    location, credentials = bucket.location("object"), bucket.credentials(**wrong)
    for refused in (
        content(stores, location, credentials),
        stores.exists(location, credentials),
        stores.check_writable(location, credentials),
        stores.write(location, credentials, chunks(b"x"), replace=True),
    ):
        said = await fails_for(StoreReason.FORBIDDEN, refused)
        assert str(location) in said
        assert "Secret" in said
        assert not [value for value in wrong.values() if value in said]


async def test_without_replace_an_existing_object_stays_as_it_is(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("there"), bucket.credentials()
    await bucket.server.put(bucket.name, "there", b"first")
    for attempt in (chunks(b"second"), mebibytes(17)):
        await fails_for(StoreReason.ALREADY_EXISTS, stores.write(location, credentials, attempt, replace=False))
    assert await bucket.server.get(bucket.name, "there") == b"first"
    await stores.write(location, credentials, chunks(b"second"), replace=True)
    assert await bucket.server.get(bucket.name, "there") == b"second"
    assert await bucket.server.uploads(bucket.name) == []


async def test_an_object_that_appears_during_the_upload_is_not_replaced(stores: ObjectStores, bucket: Bucket) -> None:
    async def while_somebody_else_writes() -> AsyncIterator[bytes]:
        async for piece in mebibytes(17):
            yield piece
        await bucket.server.put(bucket.name, "raced", b"theirs")

    await fails_for(
        StoreReason.ALREADY_EXISTS,
        stores.write(bucket.location("raced"), bucket.credentials(), while_somebody_else_writes(), replace=False),
    )
    assert await bucket.server.get(bucket.name, "raced") == b"theirs"
    assert await bucket.server.uploads(bucket.name) == []


@pytest.mark.parametrize("before_it_breaks", [0, 3, 12])
async def test_nothing_is_left_where_the_bytes_cannot_be_made(
    stores: ObjectStores, bucket: Bucket, before_it_breaks: int
) -> None:
    class Broken(Exception): ...

    async def breaking() -> AsyncIterator[bytes]:
        async for piece in mebibytes(before_it_breaks):
            yield piece
        raise Broken

    with pytest.raises(Broken):
        await stores.write(bucket.location("never"), bucket.credentials(), breaking(), replace=True)
    assert await bucket.server.keys(bucket.name) == []
    assert await bucket.server.uploads(bucket.name) == []


async def test_a_cancelled_write_aborts_its_upload(stores: ObjectStores, bucket: Bucket) -> None:
    under_way = asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        async for piece in mebibytes(12):
            yield piece
        under_way.set()
        await asyncio.get_running_loop().create_future()

    write = asyncio.create_task(stores.write(bucket.location("never"), bucket.credentials(), stalling(), replace=True))
    await under_way.wait()
    assert await bucket.server.uploads(bucket.name) == ["never"]
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert await bucket.server.uploads(bucket.name) == []
    assert await bucket.server.keys(bucket.name) == []


async def test_checking_that_a_bucket_is_writable_leaves_nothing_behind(stores: ObjectStores, bucket: Bucket) -> None:
    await stores.check_writable(bucket.location("later"), bucket.credentials())
    await stores.check_writable(bucket.location("later"), bucket.credentials(), replace=False)
    assert await bucket.server.keys(bucket.name) == []
    assert await bucket.server.uploads(bucket.name) == []


async def test_checking_tells_what_must_not_be_replaced(stores: ObjectStores, bucket: Bucket) -> None:
    await bucket.server.put(bucket.name, "there", b"theirs")
    there, credentials = bucket.location("there"), bucket.credentials()
    await stores.check_writable(there, credentials)
    await fails_for(StoreReason.ALREADY_EXISTS, stores.check_writable(there, credentials, replace=False))


@pytest.mark.parametrize("promised", [2, 4, 20 * MEBIBYTE])
async def test_nothing_is_published_where_a_promised_size_is_not_kept(
    stores: ObjectStores, bucket: Bucket, promised: int
) -> None:
    with pytest.raises(ValueError, match="promised"):
        await stores.write(
            bucket.location("out"), bucket.credentials(), chunks(b"ab", b"c"), replace=True, size=promised
        )
    assert await bucket.server.keys(bucket.name) == []


async def test_a_service_with_an_authority_of_its_own_is_reached_with_its_certificate(
    stores: ObjectStores, tmp_path: Path
) -> None:
    folder = tmp_path / "s3"
    folder.mkdir()
    server = S3Server(folder, tls=True)
    await server.start()
    bucket = Bucket(server, "bucket")
    await server.create_bucket(bucket.name)
    location = bucket.location("object")
    assert "ca.crt" in await fails_for(StoreReason.UNREACHABLE, content(stores, location, bucket.credentials()))
    trusting = bucket.credentials(**{"ca.crt": server.ca})
    await stores.write(location, trusting, mebibytes(17), replace=False)
    assert await content(stores, location, trusting, 16 * MEBIBYTE) == bytes([16]) * MEBIBYTE
    broken = bucket.credentials(**{"ca.crt": "no certificate"})
    await fails_for(StoreReason.INVALID, content(stores, location, broken))
    await server.stop()

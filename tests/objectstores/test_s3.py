"""Reading and writing buckets of a real S3 server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay_operator.objectstores.credentials import S3Credentials
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from tests.objectstores.bucket import MEBIBYTE, Bucket, chunks, content, fails_for, mebibytes
from tests.support.eventually import eventually
from tests.support.s3 import S3Server
from tests.unit.client.scripted import Reply, scripted_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from relay_operator.objectstores.stores import ObjectStores


async def test_what_was_written_is_read_with_its_size_and_version(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("folder/in put.jsonl"), bucket.credentials()
    written = await stores.write(location, credentials, chunks(b"one\n", b"two\n"))
    async with stores.read(location, credentials) as reading:
        assert (reading.size, reading.version) == (8, written)
        assert b"".join([piece async for piece in reading]) == b"one\ntwo\n"
    assert await bucket.server.get(bucket.name, "folder/in put.jsonl") == b"one\ntwo\n"


@pytest.mark.parametrize("key", ["a b", "percent%20sign", "plus+and&and=", "umläut-日本"])
async def test_a_key_is_taken_as_it_is_written(stores: ObjectStores, bucket: Bucket, key: str) -> None:
    await stores.write(bucket.location(key), bucket.credentials(), chunks(b"x"))
    assert await bucket.server.get(bucket.name, key) == b"x"


async def test_an_empty_object_is_written_and_read(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("empty"), bucket.credentials()
    await stores.write(location, credentials, chunks())
    assert await content(stores, location, credentials) == b""


async def test_a_large_object_comes_in_pieces_of_at_most_a_mebibyte(stores: ObjectStores, bucket: Bucket) -> None:
    location, credentials = bucket.location("large"), bucket.credentials()
    written = await stores.write(location, credentials, mebibytes(12))
    async with stores.read(location, credentials) as reading:
        assert reading.version == written
        pieces = [piece async for piece in reading]
    assert max(map(len, pieces)) <= MEBIBYTE
    assert b"".join(pieces) == b"".join([piece async for piece in mebibytes(12)])


async def test_a_missing_object_is_told_from_a_missing_bucket(stores: ObjectStores, bucket: Bucket) -> None:
    nowhere = type(bucket)(bucket.server, "no-such-bucket").location("object")
    missing, credentials = bucket.location("missing"), bucket.credentials()
    assert await stores.exists(missing, credentials) is False
    said = await fails_for(StoreReason.NOT_FOUND, content(stores, missing, credentials))
    assert str(missing) in said
    await fails_for(StoreReason.BUCKET_NOT_FOUND, content(stores, nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.exists(nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.check_writable(nowhere, credentials))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.write(nowhere, credentials, chunks(b"x")))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.write(nowhere, credentials, mebibytes(17)))


@pytest.mark.parametrize("wrong", [{"AWS_ACCESS_KEY_ID": "nobody"}, {"AWS_SECRET_ACCESS_KEY": "Guessed-Secret"}])
async def test_a_wrong_key_is_forbidden_and_shown_nowhere(
    stores: ObjectStores, bucket: Bucket, wrong: dict[str, str]
) -> None:
    location, credentials = bucket.location("object"), bucket.credentials(**wrong)
    for refused in (
        content(stores, location, credentials),
        stores.exists(location, credentials),
        stores.check_writable(location, credentials),
        stores.write(location, credentials, chunks(b"x")),
    ):
        said = await fails_for(StoreReason.FORBIDDEN, refused)
        assert str(location) in said
        assert "Secret" in said
        assert not [value for value in wrong.values() if value in said]


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (400, "ExpiredToken", "check the keys in the Secret and what they may do there"),
        (403, "RequestTimeTooSkewed", "correct the clock of the operator's node"),
    ],
)
async def test_what_is_refused_says_what_to_correct(stores: ObjectStores, status: int, code: str, advice: str) -> None:
    async with scripted_server() as server:
        server.will(Reply(status, f"<Error><Code>{code}</Code><Message>CANARY</Message></Error>".encode()))
        location = Location.parse("s3://bucket/in")
        said = await fails_for(
            StoreReason.FORBIDDEN, content(stores, location, S3Credentials("key", "secret", endpoint=server.url))
        )
    assert said == f"s3://bucket/in was refused by its service ({status} {code}): {advice}."


async def test_a_bucket_that_cannot_be_part_of_the_hosts_name_is_refused(stores: ObjectStores) -> None:
    """Its library panics, which is no bug of the operator but an unusable Secret."""
    location = Location.parse("s3://bucket/in")
    keys = S3Credentials("key", "secret", endpoint="http://127.0.0.1:9", path_style=False)
    for refused in (
        content(stores, location, keys),
        stores.exists(location, keys),
        stores.check_writable(location, keys),
        stores.write(location, keys, chunks(b"x")),
        stores.claim(location, keys, "owner"),
    ):
        assert "check its keys" in await fails_for(StoreReason.INVALID, refused)


async def test_what_is_there_is_replaced(stores: ObjectStores, bucket: Bucket) -> None:
    await bucket.server.put(bucket.name, "there", b"first")
    await stores.write(bucket.location("there"), bucket.credentials(), chunks(b"second"))
    assert await bucket.server.get(bucket.name, "there") == b"second"


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
        await stores.write(bucket.location("never"), bucket.credentials(), breaking())
    assert await bucket.server.keys(bucket.name) == []
    assert await bucket.server.uploads(bucket.name) == []


async def test_a_cancelled_write_aborts_its_upload(stores: ObjectStores, bucket: Bucket) -> None:
    under_way = asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        async for piece in mebibytes(12):
            yield piece
        under_way.set()
        await asyncio.get_running_loop().create_future()

    write = asyncio.create_task(stores.write(bucket.location("never"), bucket.credentials(), stalling()))
    await under_way.wait()
    await eventually(lambda: bucket.server.uploads(bucket.name), lambda found: found == ["never"], every=0.02)
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
    await stores.write(location, trusting, mebibytes(17))
    assert await content(stores, location, trusting) == b"".join([piece async for piece in mebibytes(17)])
    broken = bucket.credentials(**{"ca.crt": "no certificate"})
    await fails_for(StoreReason.INVALID, content(stores, location, broken))
    await server.stop()

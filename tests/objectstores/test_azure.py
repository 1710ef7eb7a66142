"""Reading and writing containers of Azure's own emulator."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_operator.objectstores.credentials import read_credentials
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from tests.objectstores.bucket import MEBIBYTE, chunks, content, fails_for, mebibytes
from tests.support.azurite import Azurite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from relay_operator.objectstores.credentials import Credentials
    from relay_operator.objectstores.stores import ObjectStores


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    emulator = Azurite(tmp_path_factory.mktemp("azurite"))
    asyncio.run(emulator.start())
    yield emulator
    emulator.process.end_now()


@pytest_asyncio.fixture
async def container(azure: Azurite) -> str:
    name = f"container-{secrets.token_hex(4)}"
    await azure.create_container(name)
    return name


@pytest.fixture
def credentials(azure: Azurite) -> Credentials:
    return read_credentials(Location.parse("az://any/thing"), azure.secret(), "azure")


def at(container: str, path: str) -> Location:
    return Location.parse(f"az://{container}/{path}")


@pytest.mark.parametrize("count", [1, 20])
async def test_what_was_written_is_read_with_its_size_and_version(
    stores: ObjectStores, container: str, credentials: Credentials, count: int
) -> None:
    location = at(container, "folder/out put.jsonl")
    written = await stores.write(location, credentials, mebibytes(count))
    async with stores.read(location, credentials) as reading:
        assert (reading.size, reading.version) == (count * MEBIBYTE, written)
        assert b"".join([piece async for piece in reading]) == b"".join([piece async for piece in mebibytes(count)])


async def test_a_missing_blob_is_told_from_a_missing_container(
    stores: ObjectStores, container: str, credentials: Credentials
) -> None:
    assert await stores.exists(at(container, "missing"), credentials) is False
    await fails_for(StoreReason.NOT_FOUND, content(stores, at(container, "missing"), credentials))
    for refused in (
        content(stores, at("no-container", "object"), credentials),
        stores.exists(at("no-container", "object"), credentials),
        stores.check_writable(at("no-container", "object"), credentials),
        stores.write(at("no-container", "object"), credentials, chunks(b"x")),
    ):
        await fails_for(StoreReason.BUCKET_NOT_FOUND, refused)


async def test_a_wrong_key_is_forbidden(stores: ObjectStores, azure: Azurite, container: str) -> None:
    wrong = read_credentials(at(container, "x"), azure.secret(AZURE_STORAGE_ACCOUNT_KEY="d3Jvbmc="), "azure")
    for refused in (content(stores, at(container, "x"), wrong), stores.check_writable(at(container, "x"), wrong)):
        assert "d3Jvbmc=" not in await fails_for(StoreReason.FORBIDDEN, refused)


@pytest.mark.parametrize(
    "key", [{"AZURE_STORAGE_ACCOUNT_KEY": "no base64"}, {"AZURE_STORAGE_SAS_TOKEN": "no parameters"}]
)
async def test_a_key_that_is_none_is_not_waited_for(stores: ObjectStores, key: dict[str, str]) -> None:
    location = Location.parse("az://container@account/in")
    unfit = read_credentials(location, key, "azure")
    assert "check its keys" in await fails_for(StoreReason.INVALID, content(stores, location, unfit))


async def test_what_is_there_is_replaced(stores: ObjectStores, container: str, credentials: Credentials) -> None:
    for content_of_it in (b"first", b"second"):
        await stores.write(at(container, "there"), credentials, chunks(content_of_it))
    assert await content(stores, at(container, "there"), credentials) == b"second"


async def test_checking_leaves_nothing_behind_and_spoils_nothing(
    stores: ObjectStores, azure: Azurite, container: str, credentials: Credentials
) -> None:
    await stores.check_writable(at(container, "later"), credentials)
    assert await azure.blobs(container, uncommitted=True) == []
    await stores.write(at(container, "there"), credentials, chunks(b"kept"))
    await stores.check_writable(at(container, "there"), credentials)
    assert await content(stores, at(container, "there"), credentials) == b"kept"


async def test_no_blob_appears_where_the_bytes_cannot_be_made(
    stores: ObjectStores, azure: Azurite, container: str, credentials: Credentials
) -> None:
    class Broken(Exception): ...

    async def breaking() -> AsyncIterator[bytes]:
        async for piece in mebibytes(17):
            yield piece
        raise Broken

    with pytest.raises(Broken):
        await stores.write(at(container, "never"), credentials, breaking())
    assert await azure.blobs(container) == []


async def test_a_connection_string_opens_the_account(stores: ObjectStores, azure: Azurite, container: str) -> None:
    text = f"AccountName={azure.account};AccountKey={azure.key};BlobEndpoint={azure.url};"
    data = {"AZURE_STORAGE_CONNECTION_STRING": text}
    credentials = read_credentials(at(container, "x"), data, "azure")
    await stores.write(at(container, "x"), credentials, chunks(b"x"))
    assert await content(stores, at(container, "x"), credentials) == b"x"

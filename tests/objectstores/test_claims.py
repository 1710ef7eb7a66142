"""An output is claimed by an object beside it, which one of several creates and which tells whose it is."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, TypeAlias

import pytest
import pytest_asyncio

from relay_operator.objectstores.credentials import Credentials, read_credentials
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from tests.objectstores.bucket import Bucket, content, fails_for
from tests.objectstores.webserver import web_server
from tests.support.azurite import Azurite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from relay_operator.objectstores.stores import ObjectStores
    from tests.support.s3 import S3Server

Place: TypeAlias = tuple[Location, Credentials | None]


@pytest_asyncio.fixture(params=["s3", "azure", "file"])
async def place(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path, root: Path) -> AsyncIterator[Place]:
    match request.param:
        case "s3":
            bucket = Bucket(s3, f"bucket-{secrets.token_hex(4)}")
            await s3.create_bucket(bucket.name)
            yield bucket.location("out/output.jsonl"), bucket.credentials()
        case "azure":
            emulator = Azurite(tmp_path / "azurite")
            await emulator.start()
            name = f"container-{secrets.token_hex(4)}"
            await emulator.create_container(name)
            location = Location.parse(f"az://{name}/out/output.jsonl")
            yield location, read_credentials(location, emulator.secret(), "azure")
            emulator.process.end_now()
        case _:
            yield Location.parse(f"file://{root}/output.jsonl"), None


async def test_one_of_several_has_it_until_it_lets_it_go(stores: ObjectStores, place: Place) -> None:
    owners = [f"batch-{number}" for number in range(5)]
    won = await asyncio.gather(*(stores.claim(*place, owner) for owner in owners))
    assert sum(won) == 1
    owner, others = owners[won.index(True)], [each for each, has in zip(owners, won, strict=True) if not has]
    assert await stores.claim(*place, owner)
    await stores.release(*place, others[0])
    assert not await stores.claim(*place, others[0])
    assert await content(stores, place[0].beside(".claim"), place[1]) == owner.encode()
    assert not await stores.exists(*place)
    await stores.release(*place, owner)
    await stores.release(*place, owner)
    assert await stores.claim(*place, others[0])


async def test_a_claim_that_can_neither_be_created_nor_read_is_given_up(stores: ObjectStores, root: Path) -> None:
    (root / "output.jsonl.claim").symlink_to("nowhere")
    said = await fails_for(
        StoreReason.UNREACHABLE, stores.claim(Location.parse(f"file://{root}/output.jsonl"), None, "one")
    )
    assert "output.jsonl.claim cannot be created, since its name is taken" in said


async def test_on_web_servers_nothing_is_claimed_and_nothing_is_sent(stores: ObjectStores, tmp_path: Path) -> None:
    async with web_server(tmp_path) as server:
        location = Location.parse(f"{server.url}/output.jsonl")
        assert await stores.claim(location, None, "one")
        assert await stores.claim(location, None, "another")
        await stores.release(location, None, "one")
        assert server.requests == []

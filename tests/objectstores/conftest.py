"""A real S3 server for all tests of this folder, a bucket for each, and stores that may reach loopback."""

from __future__ import annotations

import asyncio
import secrets
from ipaddress import ip_network
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.objectstores.bucket import Bucket
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    asyncio.run(server.start())
    yield server
    server.process.end_now()


@pytest_asyncio.fixture
async def bucket(s3: S3Server) -> Bucket:
    made = Bucket(s3, f"bucket-{secrets.token_hex(4)}")
    await s3.create_bucket(made.name)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that `file:` URLs may name."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture
async def stores(root: Path) -> AsyncIterator[ObjectStores]:
    """Loopback is allowed, since the servers of these tests are there."""
    policy = StorePolicy((PurePosixPath(root),), (ip_network("127.0.0.0/8"), ip_network("::1/128")))
    async with ObjectStores(policy) as made:
        yield made

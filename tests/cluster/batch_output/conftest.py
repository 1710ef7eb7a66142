"""A real S3 server for all scenarios of this folder, and a bucket with credentials for each."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


@dataclass(frozen=True)
class Bucket:
    """A bucket, and the Secret `bucket` in the workspace's namespace that opens it."""

    server: S3Server
    name: str
    workspace: Workspace

    def url(self, path: str) -> str:
        return f"s3://{self.name}/{path}"

    async def text(self, key: str) -> str:
        """An object's content."""
        return (await self.server.get(self.name, key)).decode()

    async def put_secret(self, **changed: str) -> None:
        """The Secret, with keys changed as told."""
        data = self.server.secret(**changed)
        secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bucket"}, "stringData": data}
        await self.workspace.apply(secret)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    asyncio.run(server.start())
    yield server
    server.process.end_now()


@pytest_asyncio.fixture
async def bucket(s3: S3Server, brisk_workspace: Workspace) -> Bucket:
    """An empty bucket of the test's own."""
    return await _empty(s3, brisk_workspace)


@pytest_asyncio.fixture
async def private_bucket(s3: S3Server, brisk_private_workspace: Workspace) -> Bucket:
    """The same, for a workspace in a private local cloud."""
    return await _empty(s3, brisk_private_workspace)


async def _empty(server: S3Server, workspace: Workspace) -> Bucket:
    made = Bucket(server, f"bucket-{secrets.token_hex(4)}", workspace)
    await server.create_bucket(made.name)
    await made.put_secret()
    return made

"""A claim is whose it names, also on a service that creates an object though it exists."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.files import FileStore
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def stores(tmp_path: Path) -> AsyncIterator[ObjectStores]:
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(tmp_path),))) as made:
        yield made


async def test_of_two_claims_that_were_both_created_the_later_one_counts(
    stores: ObjectStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(_: FileStore, content: bytes) -> bool:
        for each in (content, b"another"):  # a create whose condition is ignored overwrites
            (tmp_path / "output.jsonl.claim").write_bytes(each)
        return True

    monkeypatch.setattr(FileStore, "create", create)
    assert not await stores.claim(Location.parse(f"file://{tmp_path}/output.jsonl"), None, "one")


async def test_a_claim_is_told_without_being_made(stores: ObjectStores, tmp_path: Path) -> None:
    place = Location.parse(f"file://{tmp_path}/output.jsonl")
    assert not await stores.is_claimed(place, None, "one")
    assert not await asyncio.to_thread(os.listdir, tmp_path)
    assert await stores.claim(place, None, "one")
    assert [await stores.is_claimed(place, None, owner) for owner in ("one", "another")] == [True, False]
    assert not await stores.is_claimed(Location.parse("https://example.com/output.jsonl"), None, "one")

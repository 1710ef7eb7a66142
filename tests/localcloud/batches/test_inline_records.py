"""Records that come with a batch are kept as a file, piece by piece, or not at all if the batch is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.kernel.store import Store
from tests.localcloud.support.batches import record
from tests.localcloud.support.inference import CHAT, call, ok, refusal
from tests.localcloud.support.workloads import set_organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

MIB = 1024 * 1024
LINES = {"one line": [b"x" * 4 * MIB], "many lines": [b"x" * 1023] * 4 * 1024}


@pytest_asyncio.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FileStorage]:
    """Contents on the disk, below the directory of the test."""
    store = Store.at(tmp_path)
    yield FileStorage(store)
    store.close()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def sizes_of(path: Path, writing: asyncio.Task[int]) -> list[int]:
    """How large the file is at each turn of another task, until it has its name."""
    await asyncio.sleep(0)
    sizes = []
    while not writing.done():
        sizes.append(size_of(path))
        await asyncio.sleep(0)
    return sizes


@pytest.mark.parametrize("kind", LINES)
async def test_others_have_their_turn_between_the_pieces(storage: FileStorage, tmp_path: Path, kind: str) -> None:
    whole = b"".join(line + b"\n" for line in LINES[kind])
    writing = asyncio.create_task(storage.write("file_1", iter(LINES[kind])))
    sizes = await sizes_of(tmp_path / "files" / "file_1.part", writing)
    assert max(after - before for before, after in pairwise([*sizes, len(whole)])) < MIB
    assert await writing == len(whole)
    assert (tmp_path / "files" / "file_1").read_bytes() == whole


async def test_a_request_that_is_ended_meanwhile_leaves_nothing(storage: FileStorage, tmp_path: Path) -> None:
    writing = asyncio.create_task(storage.write("file_1", iter(LINES["one line"])))
    await asyncio.sleep(0)
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["file_1.part"]
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert list((tmp_path / "files").iterdir()) == []


async def test_records_beyond_the_quota_leave_nothing(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    organization = server.seeded()
    await set_organization(organization, quotas={"fileBytes": MIB})
    records = [record(str(number), "x" * 1024) for number in range(1024)]
    answer = await call(organization, "POST", "/v1/batches", {"requests": records, "endpoint": CHAT})
    assert refusal(answer) == (403, "permission_error", "QUOTA_EXCEEDED")
    assert (await ok(organization, "GET", "/v1/batches"))["data"] == []
    assert list((tmp_path / "state" / "files").iterdir()) == []
    fewer = {"requests": records[:800], "endpoint": CHAT}
    batch = await ok(organization, "POST", "/v1/batches", fewer)
    assert [path.name for path in (tmp_path / "state" / "files").iterdir()] == [batch["input_file_id"]]


async def test_records_of_a_batch_that_cannot_be_stored_leave_nothing(
    start_server: StartServer, tmp_path: Path
) -> None:
    organization = start_server("--state", str(tmp_path / "state"), "--clock", "frozen").seeded()
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as state:
        state.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'there is no room'); END")
        sent = {"x-api-key": organization.api_key, "Connection": "close"}
        body = {"requests": [record("a")], "endpoint": CHAT}
        assert (await call(organization, "POST", "/v1/batches", body, headers=sent)).status == 500
        state.execute("DROP TRIGGER full")
    assert (await ok(organization, "GET", "/v1/batches"))["data"] == []
    assert list((tmp_path / "state" / "files").iterdir()) == []


async def test_records_of_a_batch_that_is_refused_once_they_are_written_leave_nothing(
    start_server: StartServer, tmp_path: Path
) -> None:
    organization = start_server("--state", str(tmp_path / "state"), "--clock", "frozen").seeded()
    files = tmp_path / "state" / "files"
    body = {"requests": [record(str(number), "x" * MIB) for number in range(8)], "endpoint": CHAT}

    async def is_refused_meanwhile() -> bool:
        await set_organization(organization, quotas={"batches": None})
        asking = asyncio.create_task(call(organization, "POST", "/v1/batches", body))

        async def is_begun() -> bool:
            return asking.done() or any(files.glob("*.part"))

        await eventually(is_begun, every=0)
        await set_organization(organization, quotas={"batches": 0})
        return (await asking).status == 403

    await eventually(is_refused_meanwhile, every=0)
    listed = await ok(organization, "GET", "/v1/files")
    assert {path.name for path in files.iterdir()} == {file["id"] for file in listed["data"]}

"""An import replaces rows and contents of files together, or neither, whatever fails and whenever the process dies."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.batches import rows, storage
from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.kernel.store import Store
from tests.localcloud.support.batches import upload
from tests.localcloud.support.inference import call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

FROZEN = ("--clock", "frozen")
OLD, NEW = b'{"custom_id": "of the state, and longer"}\n', b'{"custom_id": "imported"}\n'
FULL = 10**18


async def content_of(organization: Organization, file: str) -> bytes:
    return (await call(organization, "GET", f"/v1/files/{file}/content")).raw


async def exported_with(organization: Organization, file: str, content: bytes) -> dict[str, Any]:
    """The exported state, but with another content of the file."""
    document: dict[str, Any] = await organization.server.ok("GET", "/export")
    (row,) = document["tables"]["files"]
    row["bytes"] = len(content)
    document["files"] = {file: base64.b64encode(content).decode()}
    return document


async def test_an_import_without_room_for_its_files_leaves_those_of_the_state(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = server.seeded()
    file = await upload(organization, OLD)
    document = await exported_with(organization, file, NEW)
    await server.ok("PATCH", "/settings", {"diskReserveBytes": FULL})
    assert (await server.control("POST", "/import", document)).refusal == (503, "unavailable")
    assert await content_of(organization, file) == OLD
    assert [path.name for path in (tmp_path / "state" / "files").iterdir()] == [file]
    await server.ok("PATCH", "/settings", {"diskReserveBytes": 0})
    assert (await server.control("POST", "/import", document)).status == 200
    assert await content_of(organization, file) == NEW
    assert [path.name for path in (tmp_path / "state" / "files").iterdir()] == [file]
    assert "Traceback" not in server.log


async def test_a_reset_without_room_for_the_seeds_files_leaves_the_state(
    start_server: StartServer, tmp_path: Path
) -> None:
    first = start_server("--ephemeral", *FROZEN)
    seeded = await upload(first.seeded(), NEW)
    (tmp_path / "seed.json").write_text(json.dumps(await first.ok("GET", "/export")))
    server = start_server("--state", str(tmp_path / "state"), "--seed", str(tmp_path / "seed.json"), *FROZEN)
    organization = server.seeded()
    later = await upload(organization, OLD)
    await server.ok("PATCH", "/settings", {"diskReserveBytes": FULL})
    assert (await server.control("POST", "/reset")).refusal == (503, "unavailable")
    assert [await content_of(organization, file) for file in (seeded, later)] == [NEW, OLD]
    await server.ok("PATCH", "/settings", {"diskReserveBytes": 0})
    await server.ok("POST", "/reset")
    assert await content_of(organization, seeded) == NEW
    assert [path.name for path in (tmp_path / "state" / "files").iterdir()] == [seeded]


@pytest.mark.parametrize("committed", [False, True])
def test_a_process_that_is_killed_around_the_commit_leaves_the_old_contents_or_the_new(
    tmp_path: Path, committed: bool
) -> None:
    store = Store.at(tmp_path)
    files = FileStorage(store)
    with store.transaction(at=0) as tx:
        rows.keep_file(tx, "org_1", "file_1", "input.jsonl", "batch", len(OLD))
    with files.begin("file_1") as content:
        content.write(OLD)
    files.complete("file_1")
    with pytest.raises(KeyboardInterrupt):
        killed_import(store, files, committed=committed)
    store.close()
    restarted = Store.at(tmp_path)
    files = FileStorage(restarted)
    with restarted.transaction(at=0) as tx:
        storage.sweep(tx, files)
    with files.read("file_1") as content:
        assert content.read() == (NEW if committed else OLD)
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["file_1"]
    restarted.close()


def killed_import(store: Store, files: FileStorage, *, committed: bool) -> None:
    """An import of which nothing runs any more at a time, as after a SIGKILL."""
    with store.transaction(at=0) as tx:
        storage.restore(tx, files, {"files": {"file_1": base64.b64encode(NEW).decode()}}, "import_1")
        if committed:
            tx.after_commit(kill)
        else:
            kill()


def kill() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["../../stolen", "..", "/tmp/stolen", "a.part", ""])
async def test_the_id_of_an_imported_file_leads_nowhere_else(
    start_server: StartServer, tmp_path: Path, name: str
) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    document = await exported_with(server.seeded(), await upload(server.seeded(), OLD), NEW)
    document["tables"]["files"][0]["id"] = name
    document["files"] = {name: base64.b64encode(NEW).decode()}
    assert (await server.control("POST", "/import", document)).refusal == (400, "invalid_request")
    assert not (tmp_path / "stolen").exists()

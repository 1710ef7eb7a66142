"""`relay-localcloud backup`: a state as of one instant, taken while it is served, from which a cloud goes on."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.batches import storage
from tests.localcloud.support import batches
from tests.localcloud.support.commands import run
from tests.localcloud.support.inference import call
from tests.localcloud.support.server import Organization, request
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

KEYS = "/v1/orgs/{org}/api-keys"
CREDENTIAL = {
    "name": "registry",
    "server": "ghcr.io",
    "authType": "basic",
    "credentials": {"username": "u", "password": "p"},
}


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*"))


async def names_of_keys(organization: Organization) -> list[str]:
    return [key["name"] for key in await organization.ok("GET", KEYS)]


async def contents_of(organization: Organization) -> dict[str, bytes]:
    """Every file of the organization with its content."""
    listed = (await call(organization, "GET", "/v1/files")).body["data"]
    return {file["id"]: await batches.content(organization, file["id"]) for file in listed}


class Writer:
    """Makes keys, one after the other, and replaces a file again and again."""

    def __init__(self, organization: Organization) -> None:
        self.organization = organization
        self.made: list[str] = []
        self.stopped = False

    async def count(self) -> int:
        return len(self.made)

    async def work(self) -> None:
        """Until it is stopped."""
        last = await batches.upload(self.organization, b"first")
        for number in count():
            if self.stopped:
                return
            name = f"k{number}"
            await self.organization.ok("POST", f"{KEYS}/create", {"name": name})
            self.made.append(name)
            following = await batches.upload(self.organization, name.encode() * 1000)
            assert (await call(self.organization, "DELETE", f"/v1/files/{last}")).status == 200
            last = following


async def test_a_backup_of_a_state_that_is_written_to_is_the_state_of_one_instant(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    organization = server.seeded()
    writer = Writer(organization)
    writing = asyncio.create_task(writer.work())
    before = await eventually(writer.count, lambda made: made >= 20)
    ended = await run("backup", "--state", tmp_path / "state", tmp_path / "copy", forked=False)
    after = len(writer.made)
    writer.stopped = True
    await writing
    assert (ended.code, json.loads(ended.out)["state"]) == (0, str(tmp_path / "copy")), ended.err
    assert after > before, "the cloud answered meanwhile"
    copy = start_server("--state", str(tmp_path / "copy"))
    assert copy.ready["apiKey"] == server.ready["apiKey"]
    restored = replace(organization, server=copy)
    names = (await names_of_keys(restored))[1:]
    assert before <= len(names) <= after + 1
    assert names == (await names_of_keys(organization))[1 : len(names) + 1], "what it has is what came first"
    contents = await contents_of(restored)
    newest = names[-1].encode() * 1000, f"k{len(names) - 2}".encode() * 1000
    assert 1 <= len(contents) <= 2
    assert all(content in newest for content in contents.values())
    assert json.loads(ended.out)["files"] == len(contents)


async def test_what_is_under_way_and_what_is_sealed_goes_on_in_the_copy(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    organization = server.seeded()
    credential = (await organization.ok("POST", "/v1/orgs/{org}/registry-credentials/create", CREDENTIAL))["id"]
    created = await batches.create(organization, [batches.record(f"r{n}") for n in range(40)])
    await server.advance(3)
    half = await batches.batch_of(organization, created["id"])
    assert 0 < half["request_counts"]["completed"] < 40
    assert (await run("backup", "--state", tmp_path / "state", tmp_path / "copy")).code == 0
    restored = replace(organization, server=start_server("--state", str(tmp_path / "copy")))
    ends: list[list[Any]] = []
    for each in (organization, restored):
        assert await batches.batch_of(each, created["id"]) == half
        await each.server.advance(3600)
        ended = await batches.batch_of(each, created["id"])
        ends.append(sorted(line["custom_id"] for line in await batches.lines(each, ended)))
        usable = {"name": "vm", "registryCredentialId": credential}
        await each.ok("POST", "/v1/orgs/{org}/vms/create", usable)
    assert ends[0] == ends[1] == sorted(f"r{n}" for n in range(40))


async def test_a_state_that_nobody_serves_is_copied_for_its_owner_alone(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path / "state"))
    await batches.upload(server.seeded(), b"{}")
    server.kill()
    assert (await run("backup", "--state", tmp_path / "state", tmp_path / "copy")).code == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "copy").iterdir()}
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    assert (set(modes), modes["state.db"], modes["secrets.key"]) == (
        {"state.db", "secrets.key", "files"},
        0o600,
        0o600,
    )
    for folder in ("state", "copy"):
        again = start_server("--state", str(tmp_path / folder))
        assert (await request("GET", again.url + "/v1/whoami", key=server.ready["apiKey"])).status == 200


async def test_no_content_is_discarded_while_a_backup_reads(start_server: StartServer, tmp_path: Path) -> None:
    organization = start_server("--state", str(tmp_path)).seeded()
    read, other, kept = [await batches.upload(organization, content) for content in (b"1", b"2", b"3")]
    with storage.held(tmp_path):
        assert (await call(organization, "DELETE", f"/v1/files/{read}")).status == 200
        assert (await call(organization, "GET", f"/v1/files/{read}/content")).status == 404
        assert names_in(tmp_path / "files") == sorted([read, other, kept])
    assert (await call(organization, "DELETE", f"/v1/files/{other}")).status == 200
    assert names_in(tmp_path / "files") == [kept]


@pytest.mark.parametrize(
    "broken", ["no state", "a target that exists", "no place", "a damaged state", "a content that is lost"]
)
async def test_what_cannot_be_backed_up_is_said_and_leaves_nothing(
    start_server: StartServer, tmp_path: Path, broken: str
) -> None:
    state, target = tmp_path / "state", tmp_path / "copy"
    server = start_server("--state", str(state))
    file = await batches.upload(server.seeded(), b"{}" * 5000)
    server.stop()
    said = {
        "no state": "There is no state in ",
        "a target that exists": "copy exists: name a directory that does not.",
        "no place": f"No backup of {state} was made: ",
        "a damaged state": f"No backup of {state} was made: ",
        "a content that is lost": f"No backup of {state} was made: contents of files are missing",
    }[broken]
    match broken:
        case "no state":
            state = tmp_path / "elsewhere"
        case "a target that exists":
            target.mkdir()
        case "no place":
            target = tmp_path / "nowhere" / "copy"
        case "a damaged state":
            (state / "state.db").write_bytes(b"\0" * 8192)
        case _:
            (state / "files" / file).unlink()
    there = names_in(tmp_path)
    ended = await run("backup", "--state", state, target)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert (names_in(tmp_path), names_in(target)) == (there, [])

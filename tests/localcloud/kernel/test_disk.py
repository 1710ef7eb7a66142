"""A disk that is full, read-only or damaged: a sentence and 503, and nothing is harmed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.kernel.schema import SCHEMA_VERSION
from tests.localcloud.support import batches
from tests.localcloud.support.commands import Ended, ran
from tests.localcloud.support.events import create_pod, create_webhook, deliveries_of, make_event
from tests.localcloud.support.inference import call
from tests.localcloud.support.server import COMMAND, Server, connections, request
from tests.localcloud.support.workloads import status
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization

FROZEN = ("--clock", "frozen")
NO_ROOM = (0, resource.RLIM_INFINITY)
ROOM = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
PR_CAPBSET_DROP, OVERRIDES_OF_PERMISSIONS = 24, (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def give(server: Server, room: tuple[int, int]) -> None:
    """Bound how far into a file the cloud may write; beyond it every write fails."""
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, room)


async def changes(organization: Organization) -> list[tuple[int, str]]:
    """Status and code of changes of every kind."""
    server, inference = organization.server, organization.server.ready["inferenceUrl"]
    chat = {"model": "echo", "messages": [{"role": "user", "content": "hello " * 30_000}]}
    answers = [
        await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "l40s"}),
        await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"}),
        await organization.call("PATCH", "/v1/orgs/{org}", {"name": "Other"}),
        await organization.call("POST", "/v1/orgs/{org}/billing/deposit", {"amountCents": 1000}),
        await server.control("POST", "/orgs", {"name": "Another"}),
        await server.control("PATCH", "/settings", {"capacityStatus": 429}),
        await server.control("POST", "/clock", {"advanceSeconds": 60}),
        await server.control("POST", "/faults", {"operation": "GET /v1/whoami", "effect": {"status": 500}}),
    ]
    charged = await request("POST", f"{inference}/v1/chat/completions", chat, key=organization.api_key)
    return [*(answer.refusal for answer in answers), (charged.status, charged.body["error"]["code"])]


async def test_on_a_full_disk_changes_are_503_and_reads_go_on(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = await server.organization()
    await create_webhook(organization, receiver)
    pod = await create_pod(organization)
    before = await server.ok("GET", "/export")
    give(server, NO_ROOM)
    assert await changes(organization) == [(503, "unavailable")] * 8 + [(503, "upstream_unavailable")]
    assert await status(organization, pod) == "deploying"
    assert (await organization.ok("GET", "/v1/whoami"))["organizationName"] == "Test"
    assert await server.ok("GET", "/export") == before
    give(server, ROOM)
    await server.advance(60)
    assert await status(organization, pod) == "running"
    assert receiver.types == ["vm.running"]
    server.kill()
    again = start_server("--state", str(tmp_path / "state"), *FROZEN)
    assert (await request("GET", f"{again.url}/v1/vms/{pod}", key=organization.api_key)).body["status"] == "running"
    assert "Traceback" not in server.log


async def test_what_falls_due_on_a_full_disk_happens_once_there_is_room(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    server = start_server("--state", str(tmp_path / "state"))
    organization = await server.organization()
    await create_webhook(organization, receiver)

    async def without_room() -> str:
        """A pod whose disk was full before it ran, however slow this was."""
        give(server, ROOM)
        created = await create_pod(organization)
        give(server, NO_ROOM)
        assert await status(organization, created) == "deploying"
        return created

    async def now() -> str:
        return str((await server.ok("GET", "/clock"))["now"])

    pod = await eventually(without_room)
    created = await now()
    await eventually(now, lambda seen: parsed(seen) - parsed(created) > timedelta(seconds=3), every=0.05)
    assert (await organization.call("GET", "/v1/whoami")).status == 200
    assert await status(organization, pod) == "deploying"
    assert (await organization.call("POST", f"/v1/vms/{pod}/terminate")).refusal == (503, "unavailable")
    give(server, ROOM)

    async def types() -> list[str]:
        return [call.event["type"] for call in receiver.received if call.event["data"]["vmId"] == pod]

    await eventually(types, lambda seen: seen == ["vm.running"], every=0.05)
    assert await status(organization, pod) == "running"
    assert "Traceback" not in server.log


async def test_a_delivery_whose_outcome_finds_no_room_is_made_again(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = await server.organization()
    webhook = await create_webhook(organization, receiver)
    await make_event(organization)
    await eventually(_calls(receiver), lambda seen: seen == 1, every=0.02)
    await server.ok("POST", "/clock", {"advanceSeconds": 0})
    receiver.hang = hang = asyncio.Event()
    await make_event(organization)
    await eventually(_calls(receiver), lambda seen: seen == 2, every=0.02)
    give(server, NO_ROOM)
    hang.set()
    receiver.hang = None
    await eventually(_calls(receiver), lambda seen: seen >= 3, every=0.02)
    assert (await server.control("PATCH", "/settings", {"capacityStatus": 429})).status == 503
    give(server, ROOM)
    await server.ok("POST", "/clock", {"advanceSeconds": 0})
    assert len(await deliveries_of(organization, webhook)) == 2
    assert len({call.delivery for call in receiver.received}) == 2
    assert "Traceback" not in server.log


def parsed(timestamp: str) -> datetime:
    return datetime.fromisoformat(timestamp)


def _calls(receiver: Receiver) -> Callable[[], Any]:
    async def calls() -> int:
        return len(receiver.received)

    return calls


def refused(folder: Path, before_start: Callable[[], None] | None = None) -> str:
    """What it says on stderr of a state that it cannot use; it ends with 1, before its ready line."""
    ports = ("--port", "0", "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0")
    serve = ("serve", *ports, "--state", str(folder))
    ended = ran(*serve) if before_start is None else ran_after(before_start, serve)
    assert (ended.code, ended.out) == (1, "")
    said = ended.err
    assert said.startswith("relay-localcloud: ")
    assert said.count("\n") == 1
    assert str(folder) in said
    return said


def ran_after(before_start: Callable[[], None], arguments: tuple[str, ...]) -> Ended:
    """How the command ends in a process that did this first."""
    command = (str(COMMAND), *arguments)
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False, preexec_fn=before_start)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def without_room() -> None:
    """No file may grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, NO_ROOM)


def bound_by_permissions() -> None:
    """Let permissions hold for root as they do for everybody."""
    if os.geteuid() == 0:
        for capability in OVERRIDES_OF_PERMISSIONS:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that somebody has used, for all tests of this module to copy."""
    folder = tmp_path_factory.mktemp("used") / "state"
    server = Server(("--state", str(folder)))
    server.start()
    assert server.stop() == 0
    return folder


@pytest.fixture
def state(used: Path, tmp_path: Path) -> Path:
    """A state that somebody has used."""
    return shutil.copytree(used, tmp_path / "state")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, and the index of the log, which SQLite rebuilds."""
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in {"lock", "state.db-shm"})
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def test_a_fresh_state_on_a_full_disk_is_refused(tmp_path: Path) -> None:
    assert "with room on its disk" in refused(tmp_path / "state", without_room)


def test_a_state_on_a_full_disk_is_refused_and_opens_once_there_is_room(start_server: StartServer, state: Path) -> None:
    assert "with room on its disk" in refused(state, without_room)
    assert start_server("--state", str(state)).seeded().api_key


def test_a_directory_that_may_not_be_written_is_refused(state: Path) -> None:
    before = contents(state)
    for path in (*state.iterdir(), state):
        path.chmod(0o500 if path.is_dir() else 0o400)
    said = refused(state, bound_by_permissions)
    assert "make it writable" in said
    assert contents(state) == before
    state.chmod(0o700)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    assert "make it writable" in refused(tmp_path / "file")
    assert "make it writable" in refused(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "kept"


def overwritten(database: Path) -> None:
    database.write_bytes(b"no database " * 4096)


def cut_off(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:10_000])


def scratched(database: Path) -> None:
    whole = bytearray(database.read_bytes())
    for start in range(8192, len(whole), 4096):
        whole[start : start + 200] = b"\xff" * 200
    database.write_bytes(whole)


def unreadable_fact(name: str) -> Callable[[Path], None]:
    def change(database: Path) -> None:
        with closing(sqlite3.connect(database)) as opened, opened:
            opened.execute("INSERT OR REPLACE INTO meta VALUES (?, '{')", (name,))

    return change


@pytest.mark.parametrize(
    "damage",
    [overwritten, cut_off, scratched, *(unreadable_fact(name) for name in ("clock", "settings", "seed"))],
    ids=["overwritten", "cut off", "scratched", "clock", "settings", "seed"],
)
def test_a_damaged_state_is_refused_and_left_as_it_is(state: Path, damage: Callable[[Path], None]) -> None:
    damage(state / "state.db")
    before = contents(state)
    assert "put an intact copy in its place" in refused(state)
    assert contents(state).items() >= before.items()
    assert contents(state)["state.db"] == before["state.db"]


def test_a_newer_state_is_refused_and_left_as_it_is(state: Path) -> None:
    with closing(sqlite3.connect(state / "state.db")) as newer:
        newer.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    before = contents(state)
    assert f"has version {SCHEMA_VERSION + 1}, this program reads versions up to {SCHEMA_VERSION}" in refused(state)
    assert contents(state)["state.db"] == before["state.db"]


@pytest.mark.parametrize("open_before", [False, True], ids=["fresh", "open to all before"])
async def test_a_state_is_its_owners_alone(start_server: StartServer, tmp_path: Path, *, open_before: bool) -> None:
    folder = tmp_path / "state"
    if open_before:
        folder.mkdir(mode=0o777)
        (folder / "state.db").touch(mode=0o666)
    organization = await start_server("--state", str(folder)).organization()
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", {"name": "hook", "url": "http://127.0.0.1:9/"})
    await batches.upload(organization, b"{}")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "files")] == [0o700, 0o700]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
    assert {"state.db", "secrets.key", "lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_keys_that_were_never_used_read_on_a_full_disk(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = await server.organization()
    await server.advance(1)
    give(server, NO_ROOM)
    assert (await organization.call("GET", "/v1/whoami")).status == 200
    models = await request("GET", f"{server.ready['inferenceUrl']}/v1/models", key=organization.api_key)
    assert models.status == 200
    give(server, ROOM)
    (key,) = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert key["lastUsedAt"]


async def test_a_disk_that_is_nearly_full_keeps_room_for_what_stops_ends_and_falls_due(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = await server.organization()
    await create_webhook(organization, receiver)
    pod, other, file = (
        await create_pod(organization),
        await create_pod(organization),
        await batches.upload(organization, batches.jsonl([batches.record("r")])),
    )
    batch = (await batches.create(organization, [batches.record("r")]))["id"]
    await server.ok("PATCH", "/settings", {"diskReserveBytes": 10**18})
    refused = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "l40s"})
    assert (refused.refusal, refused.headers["retry-after"]) == ((503, "unavailable"), "60")
    assert (await organization.call("POST", f"/v1/vms/{pod}/restart")).refusal == (503, "unavailable")
    assert (await batches.post_file(organization, batches.multipart(b"{}"))).status == 503
    await server.advance(60)
    assert receiver.types == ["vm.running", "vm.running"]
    for path in (f"/v1/vms/{pod}/stop", f"/v1/vms/{other}/terminate"):
        await organization.ok("POST", path)
    assert (await call(organization, "DELETE", f"/v1/files/{file}")).status == 200
    assert (await call(organization, "POST", f"/v1/batches/{batch}/cancel")).status == 200
    await server.advance(60)
    assert [await status(organization, each) for each in (pod, other)] == ["stopped", "terminated"]
    await server.ok("PATCH", "/settings", {"diskReserveBytes": 0})
    await server.advance(120)
    assert (await batches.batch_of(organization, batch))["status"] == "cancelled"
    assert await create_pod(organization)
    assert "Traceback" not in server.log


async def test_an_upload_ends_where_the_reserve_of_the_disk_begins(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), *FROZEN)
    organization = await server.organization()

    folder = tmp_path / "state" / "files"

    async def begun() -> bool:
        return any(path.stat().st_size for path in folder.glob("*.part"))

    async def pieces() -> AsyncIterator[bytes]:
        whole = batches.multipart(b"x" * 1_000_000)
        yield whole[:500_000]
        await eventually(begun, bool, every=0.02)
        await server.ok("PATCH", "/settings", {"diskReserveBytes": 10**18})
        yield whole[500_000:]

    url = server.ready["inferenceUrl"] + "/v1/files"
    headers = {"Content-Type": f"multipart/form-data; boundary={batches.BOUNDARY}"}
    headers["Authorization"] = f"Bearer {organization.api_key}"
    async with connections() as session, session.post(url, data=pieces(), headers=headers) as reply:
        assert reply.status == 503
    assert list(folder.iterdir()) == []

"""Clients know the gateway again, whatever became of its state."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tests.localcloud.support.commands import run
from tests.localcloud.support.ssh import Person, key_of_host
from tests.localcloud.support.workloads import running_pod
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

FROZEN = ("--clock", "frozen")


async def test_it_survives_a_kill_and_is_in_the_log(start_server: StartServer, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), *FROZEN)
    first = start_server(*state)
    key = await key_of_host(first)
    assert f"The SSH gateway's host key is {key}" in first.log
    first.kill()
    assert await key_of_host(start_server(*state)) == key
    assert await key_of_host(start_server("--ephemeral", *FROZEN)) != key


async def test_it_survives_resets_and_imports(start_server: StartServer) -> None:
    server, other = start_server("--ephemeral", *FROZEN), start_server("--ephemeral", *FROZEN)
    key, foreign = await key_of_host(server), await key_of_host(other)
    exported = (await server.control("GET", "/export")).raw
    assert b"PRIVATE KEY" not in exported
    await server.ok("POST", "/reset")
    assert await key_of_host(server) == key
    await server.ok("POST", "/import", json.loads(exported))
    assert await key_of_host(server) == key
    await other.ok("POST", "/import", json.loads(exported))
    assert await key_of_host(other) == foreign, "what another cloud sealed opens nothing here"
    former = json.loads(exported)
    del former["tables"]["ssh_host_keys"]
    await server.ok("POST", "/import", former)
    assert await key_of_host(server) == key


async def test_who_imports_the_state_of_another_cloud_with_its_key_of_secrets_takes_its_place(
    start_server: StartServer, tmp_path: Path
) -> None:
    secrets = ("--key-file", str(tmp_path / "key"))
    first = start_server("--state", str(tmp_path / "first"), *secrets, *FROZEN)
    organization, person = first.seeded(), Person.made(tmp_path)
    await person.register(organization)
    pod, key = await running_pod(organization), await key_of_host(first)
    exported = json.loads((await first.control("GET", "/export")).raw)
    second = start_server("--ephemeral", *secrets, *FROZEN)
    assert await key_of_host(second) != key
    await second.ok("POST", "/import", exported)
    await eventually(lambda: key_of_host(second), lambda shown: shown == key, what="the imported key")
    assert (await person.run("asyncssh", second, pod, "true")).status == 0


async def test_it_is_in_backups_and_survives_the_rotation_of_the_key_of_secrets(
    start_server: StartServer, tmp_path: Path
) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    first = start_server("--state", str(state), *FROZEN)
    key = await key_of_host(first)
    await run("backup", "--state", str(state), str(copy))
    await asyncio.to_thread(first.stop)
    assert await key_of_host(start_server("--state", str(copy), *FROZEN)) == key
    rotated = tmp_path / "rotated"
    await run("rotate-key", "--state", str(state), str(rotated))
    with closing(sqlite3.connect(state / "state.db")) as database:
        (kept,) = database.execute("SELECT sealed FROM ssh_host_keys").fetchone()
    assert "PRIVATE" not in kept
    assert await key_of_host(start_server("--state", str(state), "--key-file", str(rotated), *FROZEN)) == key

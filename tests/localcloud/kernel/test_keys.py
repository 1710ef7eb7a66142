"""The key that secrets are sealed under may be outside the state, and is rotated whatever kills the rotation."""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.kernel import keys
from relay_localcloud.kernel.disk import StateError
from tests.localcloud.support.commands import run
from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.inference import CHAT, call, chat
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import Organization, Server
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

CREDENTIAL = {
    "name": "registry",
    "server": "ghcr.io",
    "authType": "basic",
    "credentials": {"username": "u", "password": "p"},
}
POOL = {"installationId": 1, "name": "ci", "poolRamGb": 8, "grant": "a-grant"}
SEALED = {
    "registry_credentials": "sealed",
    "runner_pools": "sealed_grant",
    "inference_backends": "sealed_key",
    "ssh_host_keys": "sealed",
}


@dataclass(frozen=True)
class Sealed:
    """An organization with a secret of each kind."""

    organization: Organization
    credential: str

    @classmethod
    async def on(cls, server: Server) -> Sealed:
        organization = server.seeded()
        made = await organization.ok("POST", "/v1/orgs/{org}/registry-credentials/create", CREDENTIAL)
        await organization.ok("POST", "/v1/orgs/{org}/runner-pools", POOL)
        backend = {"provider": "openai_compatible", "ref": "m", "endpoint": "http://127.0.0.1:9/v1"}
        more = {"nativeFamilies": ["chat_completions"], "auth": "api_key", "apiKey": "a-key", "weight": 1}
        await organization.ok("POST", BACKENDS.format(model="mine"), {**backend, **more})
        return cls(organization, made["id"])

    async def rows(self) -> list[str]:
        """What is sealed, as it is kept."""
        tables = (await self.organization.server.ok("GET", "/export"))["tables"]
        return [row[field] for table, field in SEALED.items() for row in tables[table]]

    async def usable(self, server: Server) -> bool:
        """Whether a cloud opens the credential."""
        body = {"name": f"vm-{secrets.token_hex(4)}", "registryCredentialId": self.credential}
        answer = await replace(self.organization, server=server).call("POST", "/v1/orgs/{org}/vms/create", body)
        assert answer.status in {200, 422}, answer.raw
        return answer.status == 200


def refused(*arguments: str) -> str:
    """What a cloud says that does not start."""
    server = Server(arguments)
    with pytest.raises(AssertionError, match="ended before it was ready"):
        server.start()
    assert server.child.wait(timeout=PATIENCE_SECONDS) == 1
    assert "Traceback" not in server.log
    return server.log


async def test_a_key_outside_the_state_is_made_there_and_opens_it_again(
    start_server: StartServer, tmp_path: Path
) -> None:
    state, key = tmp_path / "state", tmp_path / "key"
    server = start_server("--state", str(state), "--key-file", str(key))
    sealed = await Sealed.on(server)
    assert ((state / "secrets.key").exists(), key.stat().st_mode & 0o777) == (False, 0o600)
    assert bytes.fromhex(key.read_text())
    server.kill()
    assert await sealed.usable(start_server("--state", str(state), "--key-file", str(key)))
    assert (await run("backup", "--state", state, tmp_path / "copy")).code == 0
    assert not (tmp_path / "copy" / "secrets.key").exists()


async def test_a_state_does_not_start_with_another_key(start_server: StartServer, tmp_path: Path) -> None:
    state, key = ("--state", str(tmp_path / "state")), tmp_path / "key"
    server = start_server(*state)
    sealed = await Sealed.on(server)
    server.stop()
    assert "There is no key at " in refused(*state, "--key-file", str(key))
    assert not key.exists()
    key.write_text("00" * 32)
    assert "sealed under another key than that at " in refused(*state, "--key-file", str(key))
    (tmp_path / "state" / "secrets.key").rename(key)
    server = start_server(*state, "--key-file", str(key))
    assert await sealed.usable(server)
    server.stop()
    # Without --key-file, by mistake.
    assert "There is no key at " in refused(*state)
    assert not (tmp_path / "state" / "secrets.key").exists()
    assert await sealed.usable(start_server(*state, "--key-file", str(key)))


@pytest.mark.parametrize("made", [False, True])
async def test_a_state_whose_key_is_lost_gets_another_on_request(
    start_server: StartServer, tmp_path: Path, made: bool
) -> None:
    state, lost = tmp_path / "state", tmp_path / "state" / "secrets.key"
    server = start_server("--state", str(state))
    sealed = await Sealed.on(server)
    in_use = await run("rotate-key", "--state", state, "--lost", tmp_path / "key")
    assert (in_use.code, "is in use by another process" in in_use.err) == (1, True)
    server.stop()
    lost.unlink()
    assert "rotate-key --lost" in refused("--state", str(state))
    if made:
        lost.write_text("33" * 32)
    ended = await run("rotate-key", "--state", state, "--lost", lost)
    assert (ended.code, json.loads(ended.out)) == (0, {"keyFile": str(lost), "sealed": 0}), ended.err
    server = start_server("--state", str(state))
    assert not await sealed.usable(server)
    another = {**CREDENTIAL, "name": "another"}
    made_again = await server.seeded().ok("POST", "/v1/orgs/{org}/registry-credentials/create", another)
    server.stop()
    assert await replace(sealed, credential=made_again["id"]).usable(start_server("--state", str(state)))


async def test_the_key_of_a_state_of_a_former_release_is_the_one_in_it(
    start_server: StartServer, tmp_path: Path
) -> None:
    state, key = tmp_path / "state", tmp_path / "key"
    server = start_server("--state", str(state))
    sealed = await Sealed.on(server)
    server.stop()
    with closing(sqlite3.connect(state / "state.db")) as raw:
        raw.execute("DROP TABLE sealed_under")
    assert "There is no key at " in refused("--state", str(state), "--key-file", str(key))
    key.write_text("22" * 32)
    wrong = await run("rotate-key", "--state", state, "--key-file", key, tmp_path / "other")
    assert (wrong.code, (tmp_path / "other").exists()) == (1, False)
    assert await sealed.usable(start_server("--state", str(state)))


async def test_secrets_are_under_the_other_key_alone_after_a_rotation(
    start_server: StartServer, tmp_path: Path
) -> None:
    state, other = tmp_path / "state", tmp_path / "other.key"
    server = start_server("--state", str(state))
    sealed = await Sealed.on(server)
    former = await sealed.rows()
    in_use = await run("rotate-key", "--state", state, other)
    assert (in_use.code, other.exists()) == (1, False)
    assert "is in use by another process" in in_use.err
    server.stop()
    for count in (len(SEALED), 0):
        ended = await run("rotate-key", "--state", state, other)
        assert (ended.code, json.loads(ended.out)) == (0, {"keyFile": str(other), "sealed": count}), ended.err
    whole = b"".join(path.read_bytes() for path in state.glob("state.db*"))
    assert [row for row in former if row.encode() in whole] == []
    assert "sealed under another key than that at " in refused("--state", str(state))
    server = start_server("--state", str(state), "--key-file", str(other))
    assert await sealed.usable(server)
    assert not set(former) & set(await replace(sealed, organization=replace(sealed.organization, server=server)).rows())


async def test_the_key_of_a_backend_still_opens_after_two_rotations(start_server: StartServer, tmp_path: Path) -> None:
    state, keys = tmp_path / "state", [tmp_path / name for name in ("first", "second", "third")]
    server = start_server("--state", str(state), "--key-file", str(keys[0]))
    async with ModelServer() as model:
        backend = {"provider": "openai_compatible", "ref": "m", "endpoint": model.url, "weight": 1}
        more = {"nativeFamilies": ["chat_completions"], "auth": "api_key", "apiKey": "a-key"}
        await server.seeded().ok("POST", BACKENDS.format(model="mine"), {**backend, **more})
        server.stop()
        for former, other in pairwise(keys):
            assert (await run("rotate-key", "--state", state, "--key-file", former, other)).code == 0
        server = start_server("--state", str(state), "--key-file", str(keys[2]))
        assert (await call(server.seeded(), "POST", CHAT, chat("hello", "mine"))).status == 200
        assert [headers["authorization"] for headers, _ in model.received] == ["Bearer a-key"]


@pytest.mark.parametrize("wrong", ["former", "other", "state", "place"])
async def test_a_rotation_that_cannot_be_is_said_and_changes_nothing(
    start_server: StartServer, tmp_path: Path, wrong: str
) -> None:
    state, other, former = tmp_path / "state", tmp_path / "other", tmp_path / "state" / "secrets.key"
    server = start_server("--state", str(state))
    sealed = await Sealed.on(server)
    server.stop()
    named: tuple[str | Path, ...] = ()
    match wrong:
        case "former":
            (tmp_path / "wrong").write_text("11" * 32)
            named, said = ("--key-file", tmp_path / "wrong"), "sealed under another key than that at "
        case "other":
            other.write_text("half a key")
            said = "The key "
        case "state":
            state, said = tmp_path / "nowhere", "There is no state in "
        case _:
            other, said = tmp_path / "nowhere" / "key", "No key can be made at "
    ended = await run("rotate-key", "--state", state, *named, other)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "nowhere").exists()
    assert former.exists()
    assert await sealed.usable(start_server("--state", str(tmp_path / "state")))


@pytest.mark.parametrize("content", ["", "half a key", "00" * 16, "00" * 31, "00" * 33])
def test_a_file_that_has_no_key_of_the_right_length_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(StateError, match="key cannot be used: "):
        keys.read(tmp_path / "key")


@pytest.mark.parametrize(
    "every", [pytest.param(4, id="some steps"), pytest.param(1, id="every step", marks=pytest.mark.long)]
)
async def test_whenever_a_rotation_is_killed_one_of_both_keys_opens_everything(
    start_server: StartServer, tmp_path: Path, pytestconfig: pytest.Config, every: int
) -> None:
    first = 1 + (pytestconfig.getoption("--sample") or 0) % every
    state, copies = tmp_path / "state", tmp_path / "copies"
    server = start_server("--state", str(state))
    await Sealed.on(server)
    server.stop()
    copies.mkdir()
    module = "tests.localcloud.kernel.killed_rotations"
    program = (sys.executable, "-m", module, state, state / "secrets.key", copies, str(first), str(every))
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    steps = [json.loads(line) for line in out.splitlines()]
    assert [step["killed"] for step in steps] == [True] * (len(steps) - 1) + [False]
    under = [step["under"] for step in steps]
    before = under.count(["former"])
    assert under == [["former"]] * before + [["other"]] * (len(steps) - before), "one of both, and never back"
    assert min(before, len(steps) - before) > 10 // every
    assert [step["again"] for step in steps] == [len(SEALED)] * before + [0] * (len(steps) - before)
    assert all(step["ends"] for step in steps)

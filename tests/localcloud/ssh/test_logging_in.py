"""Who may log in where, who is told what otherwise, and when a login ends."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import asyncssh
import pytest

from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.logins import Login, Logins
from relay_localcloud.workloads.ssh_keys import KEYS
from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.gate import serving
from tests.localcloud.support.ssh import Person, address_of, ended, tried
from tests.localcloud.support.workloads import act, happens, new_pod, running_pod, stopped_pod
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

DENIED = ("PermissionDenied", "Permission denied for user {user} on host {host}")


async def refusal(server: Server, user: str, *people: Person) -> bool:
    """Whether it is refused in the words that are everybody's."""
    kind, words = await tried(server, user, [each.key for each in people])
    return (kind, words) == (DENIED[0], DENIED[1].format(user=user, host=address_of(server)[0]))


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
async def test_each_kind_of_key_lets_in(
    algorithm: str, server: Server, organization: Organization, pod: str, tmp_path: Path
) -> None:
    person = Person.made(tmp_path, "key", algorithm)
    await person.register(organization)
    assert (await person.run("asyncssh", server, pod, "true")).status == 0


@pytest.mark.parametrize(
    "old",
    [
        {"kex_algs": ["diffie-hellman-group14-sha256", "diffie-hellman-group18-sha512"]},
        {"mac_algs": ["hmac-sha1"], "encryption_algs": ["aes256-ctr"]},
        {"encryption_algs": ["aes256-cbc"]},
    ],
)
async def test_what_is_weak_or_takes_long_is_not_agreed_on(
    old: dict[str, list[str]], server: Server, person: Person, pod: str
) -> None:
    with pytest.raises((asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost)):
        await person.connect(server, pod, **old)


async def test_whoever_is_not_let_in_is_told_the_same(
    server: Server, organization: Organization, person: Person, stranger: Person, pod: str
) -> None:
    other = await server.organization()
    theirs = await running_pod(other)
    stopped = await stopped_pod(organization)
    deploying = str((await new_pod(organization))["id"])
    assert await refusal(server, pod, stranger)
    for user in (theirs, deploying, stopped, "pod_00000000000000000000", "root", "", "é", "a" * 900):
        assert await refusal(server, user, person), user
    assert await refusal(server, pod)
    assert "Traceback" not in server.log


async def test_a_key_counts_in_its_own_organization_alone(server: Server, stranger: Person, pod: str) -> None:
    other = await server.organization()
    await stranger.register(other)
    assert await refusal(server, pod, stranger)
    assert (await stranger.run("asyncssh", server, await running_pod(other), "true")).status == 0


async def test_a_key_with_a_letter_that_is_not_ascii_keeps_nobody_else_out(
    server: Server, organization: Organization, pod: str, tmp_path: Path
) -> None:
    garbled = Person.made(tmp_path, "bob").public_key.replace("AAAA", "AAAAé", 1)
    await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "bob", "publicKey": garbled})
    ada = Person.made(tmp_path)
    await ada.register(organization)
    assert (await ada.run("asyncssh", server, pod, "true")).status == 0


async def test_there_is_no_other_way_in_than_a_key(server: Server, pod: str) -> None:
    host, port = address_of(server)
    options = {"known_hosts": None, "config": None, "agent_path": None, "client_keys": None, "password": "x"}
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(host, port, username=pod, **options)


async def test_replicas_are_logged_in_to_by_their_id(
    server: Server, organization: Organization, person: Person
) -> None:
    cluster = await clusters.running(organization, name="llm", replicas=2)
    for replica in await clusters.replicas(organization, cluster):
        assert f"{replica['id']} is simulated" in (await person.run("asyncssh", server, replica["id"], "ls")).errors
    assert await refusal(server, cluster, person), "a cluster is no single place"
    deployment = await deployments.running(organization)
    (replica,) = (await deployments.get(organization, deployment))["replicas"]
    assert (await person.run("asyncssh", server, replica["id"], "true")).status == 0
    await deployments.delete(organization, deployment)
    assert await refusal(server, replica["id"], person)


async def test_a_login_ends_with_its_pod(server: Server, organization: Organization, person: Person, pod: str) -> None:
    for end in ("stop", "terminate"):
        there = await running_pod(organization)
        connection = await person.connect(server, there)
        shell = await connection.create_process(term_type="xterm")
        await act(organization, there, end)
        await ended(connection)
        assert (await shell.wait()).exit_status is None
    failing = await person.connect(server, pod)
    await happens(organization, pod, "fail")
    await ended(failing)


async def test_a_login_ends_where_its_pod_becomes_another_organizations(
    server: Server, person: Person, pod: str
) -> None:
    other = await server.organization()
    connection = await person.connect(server, pod)
    offer = await server.ok("POST", "/transfers", {"workloadId": pod, "toOrganizationId": other.id})
    await other.ok("POST", f"/v1/transfers/{offer['id']}/accept")
    await ended(connection)
    assert await refusal(server, pod, person)


async def test_a_login_ends_with_its_key_and_others_go_on(
    server: Server, organization: Organization, person: Person, pod: str, tmp_path: Path
) -> None:
    other = Person.made(tmp_path, "grace")
    key_id = await other.register(organization, "grace")
    stays, goes = await person.connect(server, pod), await other.connect(server, pod)
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/ssh-keys/{key_id}")
    await ended(goes)
    assert (await stays.run("true")).exit_status == 0
    stays.close()
    assert await refusal(server, pod, other)


async def test_only_the_logins_of_a_key_are_looked_at_when_it_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    look_again = Logins._look_again

    def noted(self: Logins, logins: Collection[Login]) -> None:
        looked.append(len(logins))
        look_again(self, logins)

    monkeypatch.setattr(Logins, "_look_again", noted)
    async with serving() as gate, asyncio.timeout(PATIENCE_SECONDS):
        one, two = await gate.connect(), await gate.connect()
        assert looked == [1, 1], "each once, when it comes"
        with gate.store.transaction() as tx:
            same = KEYS.find(tx, id="ssh_1")
            assert same is not None
            again = {"organization_id": gate.organization_id, "public_key": same.public_key, "created_at": 0}
            KEYS.insert(tx, id="ssh_2", name="again", **again)
        assert (await one.run("true")).exit_status == 0
        with gate.store.transaction() as tx:
            KEYS.remove(tx, id="ssh_2")
        assert (await two.run("true")).exit_status == 0
        assert looked == [1, 1], "none has come in with the other key"
        with gate.store.transaction() as tx:
            KEYS.remove(tx, id="ssh_1")
        await one.wait_closed()
        await two.wait_closed()
        assert looked == [1, 1, 2]


async def test_a_login_ends_with_the_state_that_let_it_in(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization, person = server.seeded(), Person.made(tmp_path)
    await person.register(organization)
    connection = await person.connect(server, await running_pod(organization))
    await server.ok("POST", "/reset")
    await ended(connection)


async def test_the_end_of_the_cloud_is_told(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization, person = server.seeded(), Person.made(tmp_path)
    await person.register(organization)
    connection = await person.connect(server, await running_pod(organization))
    assert await asyncio.to_thread(server.stop) == 0
    await ended(connection)
    assert "Traceback" not in server.log


async def test_a_login_is_in_the_audit_log_of_its_organization(
    server: Server, organization: Organization, person: Person, stranger: Person, pod: str
) -> None:
    await refusal(server, pod, stranger)
    assert (await person.run("asyncssh", server, pod, "ls --token=secret")).status == 126
    (key,) = (await organization.ok("GET", "/v1/orgs/{org}/ssh-keys"))["items"]
    log = (await server.ok("GET", f"/audit?organizationId={organization.id}&after=0&limit=1000"))["items"]
    (entry,) = [entry for entry in log if entry["operation"] == "SSH login"]
    assert {name: entry[name] for name in ("actorKind", "actor", "address", "objectId", "forbidden")} == {
        "actorKind": "ssh_key",
        "actor": key["id"],
        "address": "127.0.0.1",
        "objectId": pod,
        "forbidden": False,
    }
    assert "secret" not in str(log)


async def test_a_key_lets_in_however_it_was_written_and_one_that_is_no_base64_keeps_nobody_out() -> None:
    async with serving() as gate, asyncio.timeout(PATIENCE_SECONDS):
        with gate.store.transaction() as tx:
            (row,) = KEYS.all(tx)
            KEYS.change(tx, row.id, public_key=f"{row.public_key.strip()}é")
            with_tabs = "\t".join(row.public_key.split())
            KEYS.insert(tx, **asdict(row) | {"id": "ssh_2", "name": "with tabs", "public_key": with_tabs})
        async with await gate.connect() as connection:
            assert (await connection.run("true")).exit_status == 0


async def test_a_connection_may_offer_few_keys_that_let_nobody_in(
    server: Server, person: Person, pod: str, tmp_path: Path
) -> None:
    wrong = [Person.made(tmp_path, f"wrong{number}").key for number in range(Bounds().failures)]
    assert await tried(server, pod, [*wrong[1:], person.key]) == ("", "it was let in")
    kind, words = await tried(server, pod, [*wrong, person.key])
    assert kind == "ConnectionLost" or "6 keys let nobody in" in words, (kind, words)


async def test_a_pod_has_so_many_sessions_and_no_more(server: Server, person: Person, pod: str) -> None:
    most = Bounds().channels
    first, second = await person.connect(server, pod), await person.connect(server, pod)
    shells = [await (first, second)[number % 2].create_process() for number in range(most)]
    with pytest.raises(asyncssh.ChannelOpenError, match=f"has {most} sessions"):
        await second.create_process()
    shells[0].close()
    await shells[0].wait_closed()
    await eventually(lambda: _opens(second), bool, what="the place of the session that ended")
    for connection in (first, second):
        connection.close()


async def _opens(connection: asyncssh.SSHClientConnection) -> bool:
    try:
        return (await connection.run("true")).exit_status == 0
    except asyncssh.ChannelOpenError:
        return False

"""How an SshKey maps to a key of the organization, and what all records share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, NotFound, NotServed
from relay_operator.api.public_keys import fingerprint
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Found, Inputs, Look, NotSeen, Progress
from relay_operator.kinds.sshkey import SshKey, SshKeys, SshKeyStatus
from relay_wire.ssh_keys import SshKey as RegisteredKey
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@example.com"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJm"
SHOWN = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
NOTHING = SshKeyStatus()
INTENT = intent("team-a-ada")


def keys() -> SshKeys:
    return SshKeys(parts())


def key(**spec: JsonValue) -> SshKey:
    return SshKey.model_validate({"metadata": {"name": "ada"}, "spec": spec or {"publicKey": PUBLIC}})


def listed(*ids: str) -> Reply:
    return Reply(body=json.dumps({"items": [{"id": one, "name": f"team-a-{one}"} for one in ids]}).encode())


@pytest.mark.parametrize(
    "text", [None, "", "ssh-ed25519", "ssh-ed25519 no!base64", "ssh-ed25519 AAA", "ssh-ed25519 AAAé"]
)
def test_what_is_no_key_has_no_fingerprint(text: str | None) -> None:
    assert fingerprint(text) is None


def test_the_fingerprint_is_that_of_ssh_keygen_whatever_the_comment() -> None:
    assert fingerprint(PUBLIC) == fingerprint(PUBLIC.rpartition(" ")[0] + "\n") == SHOWN


def test_another_key_is_a_difference_and_another_comment_is_none() -> None:
    kind = keys()
    assert kind.differences(key(), RegisteredKey(id="ssh_1", public_key=PUBLIC.replace("ada", "bob"))) == ()
    (text,) = kind.differences(key(), RegisteredKey(id="ssh_1", public_key=OTHER))
    assert text == f"publicKey: asked {SHOWN}, has {fingerprint(OTHER)}"
    assert kind.differences(key(), RegisteredKey(id="ssh_1")) == ()


def test_what_the_cloud_does_not_tell_stays_as_it_was_told() -> None:
    kind, known = keys(), key().model_copy(update={"status": SshKeyStatus(fingerprint=SHOWN)})
    assert kind.status(known, RegisteredKey(id="ssh_1")).fingerprint == SHOWN
    assert kind.status(key(), RegisteredKey(id="ssh_1", public_key=PUBLIC)).fingerprint == SHOWN
    assert kind.progress(RegisteredKey(id="ssh_1")) is Progress.READY


@pytest.mark.parametrize(
    ("obj", "inputs"),
    [
        (key(), Inputs()),
        (key(publicKeyFrom={"configMapKeyRef": {"name": "keys", "key": "ada"}}), Inputs(ssh_keys=(PUBLIC + "\n",))),
    ],
    ids=["written out", "read"],
)
async def test_what_is_sent_is_the_key_and_the_name_of_the_attempt(obj: SshKey, inputs: Inputs) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "ssh_1", "name": "team-a-ada"}'))
        made = await keys().create(cloud, obj, INTENT, inputs)
        assert json.loads(server.seen[0].body) == {"name": "team-a-ada", "publicKey": PUBLIC}
        assert fingerprint(made.public_key) == SHOWN


@pytest.mark.parametrize(
    "text", ["", " \n", "ssh-ed25519", f"no-pty {PUBLIC}"], ids=["empty", "blank", "half", "options"]
)
def test_what_is_read_and_is_no_key_is_told_before_anything_is_sent(text: str) -> None:
    read = key(publicKeyFrom={"configMapKeyRef": {"name": "keys", "key": "ada"}})
    told = "publicKeyFrom: what it leads to is not an OpenSSH public key"
    assert keys().unusable(read, Inputs(ssh_keys=(text,))) == told
    assert keys().unusable(read, Inputs()) == told  # optional, and missing
    assert keys().unusable(read, Inputs(ssh_keys=(PUBLIC,))) is keys().unusable(key(), Inputs()) is None


async def test_settled_keys_share_one_list_and_what_is_new_asks_for_another() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        kind = keys()
        server.will(listed("a", "b"), listed("a", "b", "c"), listed("a"))
        for one in ("a", "b", "a"):
            assert (await kind.observe(cloud, one, NOTHING, Look.ROUTINE)).id == one
        assert len(server.seen) == 1
        assert (await kind.observe(cloud, "c", NOTHING, Look.ROUTINE)).id == "c"
        assert len(server.seen) == 2
        with pytest.raises(NotFound):
            await kind.observe(cloud, "b", NOTHING, Look.EXACT)
        assert len(server.seen) == 3


async def test_a_key_is_found_by_its_name() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(listed("a", "b"))
        found = await keys().find(cloud, "team-a-b", UnclaimedIds())
        assert isinstance(found, Found)
        assert keys().identity(found.resource) == ("b", "team-a-b")
        assert await keys().find(cloud, "team-a-c", UnclaimedIds()) == NotSeen()


async def test_what_is_said_of_the_list_is_not_said_of_a_key() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        no_list = Reply(status=404, body=b'{"error": "no such path", "code": "not_found"}')
        server.will(no_list, no_list)
        with pytest.raises(NotServed):
            await keys().observe(cloud, "a", NOTHING, Look.EXACT)
        assert await keys().find(cloud, "team-a-a", UnclaimedIds()) == CannotTell()


async def test_nobody_is_asked_for_a_list_that_nobody_needs() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        kind = keys()
        assert await kind.living(cloud, UnclaimedIds()) == {}
        assert server.seen == []
        server.will(listed("a"))
        await kind.observe(cloud, "a", NOTHING, Look.ROUTINE)
        assert await kind.living(cloud, UnclaimedIds()) == {"a": "team-a-a"}
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("name", "public_key", "differs"),
    [("team-a-ada", OTHER, False), (None, PUBLIC, False), (None, None, False), (None, OTHER, True)],
)
def test_an_answer_without_a_name_that_has_another_key_is_about_another(
    name: str | None, public_key: str | None, *, differs: bool
) -> None:
    made = RegisteredKey.model_validate({"id": "key_1", "name": name, "publicKey": public_key})
    assert bool(keys().of_another(key(), INTENT, made)) is differs

"""How a RegistryCredential maps to a credential of the organization; its secrets are sent, and shown nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import BadRequest, Cloud
from relay_operator.flows.managed.resource import Inputs, Look, Progress
from relay_operator.kinds.registrycredential import (
    RegistryCredential,
    RegistryCredentials,
    RegistryCredentialStatus,
)
from relay_wire.registry_credentials import RegistryCredential as Credential
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


CANARY = "canary-of-ada"
CONFIG = json.dumps({"auths": {"ghcr.io": {"username": "ada", "password": CANARY}}})
INTENT = intent("team-a-hub")
FROM_CONFIG: dict[str, JsonValue] = {"dockerConfigSecretRef": {"name": "pull"}}
OF_CONFIG = Inputs(texts={"dockerConfigSecretRef": CONFIG})


def kind() -> RegistryCredentials:
    return RegistryCredentials(parts())


def credential(**spec: JsonValue) -> RegistryCredential:
    return RegistryCredential.model_validate({"metadata": {"name": "hub"}, "spec": spec or FROM_CONFIG})


def keys(auth_type: str = "basic", server: str = "ghcr.io") -> RegistryCredential:
    return credential(server=server, authType=auth_type, credentialsSecretRef={"name": "pull"})


@pytest.mark.parametrize(
    ("obj", "inputs", "sent"),
    [
        (credential(), OF_CONFIG, ("ghcr.io", "basic", {"username": "ada", "password": CANARY})),
        (
            credential(**FROM_CONFIG, server="https://ghcr.io"),
            OF_CONFIG,
            ("https://ghcr.io", "basic", {"username": "ada", "password": CANARY}),
        ),
        (
            keys(),
            Inputs(env={"username": "ada", "password": f"{CANARY}\n"}),
            ("ghcr.io", "basic", {"username": "ada", "password": CANARY}),
        ),
        (
            keys("aws_ecr", "1.dkr.ecr.eu-central-1.amazonaws.com"),
            Inputs(env={"accessKeyId": "AKIA", "secretAccessKey": CANARY}),
            (
                "1.dkr.ecr.eu-central-1.amazonaws.com",
                "aws_ecr",
                {"accessKeyId": "AKIA", "secretAccessKey": CANARY},
            ),
        ),
        (keys("gcp_gcr", "gcr.io"), Inputs(env={"key.json": CANARY}), ("gcr.io", "gcp_gcr", {"key.json": CANARY})),
    ],
    ids=["a config", "a config and a server", "basic", "aws_ecr", "gcp_gcr"],
)
async def test_what_is_sent_is_one_servers_login_and_the_name_of_the_attempt(
    obj: RegistryCredential, inputs: Inputs, sent: tuple[str, str, dict[str, str]]
) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "rcr_1", "name": "team-a-hub"}'))
        assert kind().unusable(obj, inputs) is None
        made = await kind().create(cloud, obj, INTENT, inputs)
        body = dict(zip(("server", "authType", "credentials"), sent, strict=True))
        assert json.loads(server.seen[0].body) == {"name": "team-a-hub", **body}
        assert (made.server, made.auth_type) == sent[:2]
        assert CANARY not in repr((made, inputs))


async def test_a_cloud_that_repeats_the_secret_is_not_repeated() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=400, body=json.dumps({"error": f"no registry takes {CANARY}"}).encode()))
        with pytest.raises(BadRequest) as refused:
            await kind().create(cloud, credential(), INTENT, OF_CONFIG)
        assert "no registry takes" in str(refused.value)
        assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    ("obj", "inputs", "says"),
    [
        (credential(), Inputs(texts={"dockerConfigSecretRef": CANARY}), "dockerConfigSecretRef: .dockerconfigjson of "),
        (credential(**FROM_CONFIG, server="a.io"), OF_CONFIG, "dockerConfigSecretRef: .dockerconfigjson of the Secret"),
        (keys(), Inputs(env={"username": "ada"}), "credentialsSecretRef: the Secret pull lacks the key password"),
        (keys(), Inputs(env={"password": CANARY, "username": " "}), "credentialsSecretRef: the Secret pull lacks the "),
        (keys(), Inputs(), "credentialsSecretRef: the Secret pull lacks the key username and the key password"),
        (keys("aws_ecr"), Inputs(env={"a": "\n"}), "credentialsSecretRef: the Secret pull lacks anything to log in"),
        (credential(server="ghcr.io"), Inputs(), "credentialsSecretRef: the Secret  lacks"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told(obj: RegistryCredential, inputs: Inputs, says: str) -> None:
    told = kind().unusable(obj, inputs)
    assert told is not None
    assert told.startswith(says)
    assert CANARY not in told


def test_what_is_read_is_one_key_of_a_config_and_all_keys_otherwise() -> None:
    (source,) = kind().input_refs(credential()).texts.values()
    assert source.model_dump(exclude_none=True) == {
        "secretKeyRef": {"name": "pull", "key": ".dockerconfigjson"},
        "optional": False,
    }
    refs = kind().input_refs(keys())
    assert [each.secret_ref.name for each in refs.env_from if each.secret_ref] == ["pull"]
    assert refs.env_field == "credentialsSecretRef"
    assert not kind().input_refs(credential(server="ghcr.io")).any


def test_another_server_or_type_is_a_difference_and_another_spelling_is_none() -> None:
    has = Credential(id="rcr_1", server="https://GHCR.io/", auth_type="basic")
    assert kind().differences(credential(), has) == kind().differences(keys(), has) == ()
    assert kind().differences(keys("aws_ecr", "ghcr.io"), has) == ("authType: asked aws_ecr, has basic",)
    assert kind().differences(keys("basic", "a.io"), has) == ("server: asked a.io, has ghcr.io",)
    assert kind().differences(keys("basic", "a.io"), Credential(id="rcr_1")) == ()
    same = kind().immutable(credential(**FROM_CONFIG, server="ghcr.io"))
    assert same == kind().immutable(keys("basic", "https://ghcr.io/")) != kind().immutable(keys("gcp_gcr"))


async def test_what_status_shows_is_what_the_list_has() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        row = {"id": "rcr_1", "name": "team-a-hub", "server": "ghcr.io", "authType": "basic"}
        server.will(Reply(body=json.dumps({"items": [row]}).encode()))
        seen = await kind().observe(cloud, "rcr_1", RegistryCredentialStatus(), Look.EXACT)
        status = kind().status(credential(), seen)
        assert (status.server, status.auth_type) == ("ghcr.io", "basic")
        assert kind().identity(seen) == ("rcr_1", "team-a-hub")
        assert kind().progress(seen) is Progress.READY

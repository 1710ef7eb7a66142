"""Registry credentials: section 2, "Registry credential", and section 4, "Registry credentials and runner pools"."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.at_rest import files_with
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.server import Organization, Server
from tests.localcloud.support.workloads import UNTIL_RUNNING, status
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

PASSWORD = "correct-horse-battery-staple"
BASIC = {
    "name": "ghcr",
    "server": "ghcr.io",
    "authType": "basic",
    "credentials": {"username": "me", "password": PASSWORD},
}
ECR = {
    "name": "ecr",
    "server": "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
    "authType": "aws_ecr",
    "credentials": {"accessKeyId": "AKIAEXAMPLE", "secretAccessKey": PASSWORD, "region": "eu-west-1"},
}
GCR = {
    "name": "gcr",
    "server": "https://europe-docker.pkg.dev",
    "authType": "gcp_gcr",
    "credentials": {
        "serviceAccountKey": json.dumps({"client_email": "a@b.iam.gserviceaccount.com", "private_key": PASSWORD})
    },
}
CREATE = "/v1/orgs/{org}/registry-credentials/create"
LIST = "/v1/orgs/{org}/registry-credentials"


async def create(organization: Organization, body: object = BASIC) -> Any:
    return await organization.ok("POST", CREATE, body)


async def listed(organization: Organization) -> list[Any]:
    answer = await organization.ok("GET", LIST)
    assert list(answer) == ["items"]
    items: list[Any] = answer["items"]
    return items


async def test_credentials_are_created_listed_in_order_and_removed(organization: Organization) -> None:
    made = [await create(organization, body) for body in (BASIC, ECR, GCR)]
    for shown, body in zip(made, (BASIC, ECR, GCR), strict=True):
        assert sorted(shown) == ["authType", "createdAt", "id", "name", "server"]
        assert {key: shown[key] for key in ("name", "server", "authType")} == {
            key: body[key] for key in ("name", "server", "authType")
        }
    assert await listed(organization) == made
    assert (await organization.call("DELETE", f"{LIST}/{made[0]['id']}")).status == 204
    assert await listed(organization) == made[1:]
    assert (await organization.call("DELETE", f"{LIST}/{made[0]['id']}")).refusal == (404, "not_found")


async def test_a_name_is_taken_once_and_free_after_removal(server: Server, organization: Organization) -> None:
    first = await create(organization)
    assert (await organization.call("POST", CREATE, {**ECR, "name": "ghcr"})).refusal == (409, "conflict")
    await create(await server.organization())
    await organization.ok("DELETE", f"{LIST}/{first['id']}")
    await create(organization)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": ""},
        {"name": "x" * 64},
        {"name": 7},
        {"server": None},
        {"server": ""},
        {"server": "not a host"},
        {"server": "https://me:secret@ghcr.io"},
        {"server": "ftp://ghcr.io"},
        {"server": "ghcr.io:99999"},
        {"server": "x" * 256},
        {"authType": None},
        {"authType": "kerberos"},
        {"credentials": None},
        {"credentials": {}},
        {"credentials": []},
        {"credentials": {"username": "me"}},
        {"credentials": {"username": "me", "password": ""}},
        {"credentials": {"username": "me", "password": 7}},
        {"credentials": {"username": "me", "password": None}},
        {"credentials": {"username": "me", "password": "x" * 65_536}},
        {"authType": "aws_ecr", "credentials": {}},
        {"authType": "aws_ecr", "credentials": {"accessKeyId": "", "secretAccessKey": " "}},
        {"authType": "gcp_gcr", "credentials": {"serviceAccountKey": 7}},
    ],
)
async def test_a_credential_that_makes_no_sense_is_400_and_kept_nowhere(
    organization: Organization, change: dict[str, object]
) -> None:
    answer = await organization.call("POST", CREATE, {**BASIC, **change})
    assert answer.refusal == (400, "invalid_request")
    assert PASSWORD not in answer.raw.decode()
    assert await listed(organization) == []


@pytest.mark.parametrize(
    ("kind", "credentials"),
    [
        ("aws_ecr", {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_SESSION_TOKEN": "t"}),
        ("aws_ecr", {"roleArn": "arn:aws:iam::123456789012:role/pull"}),
        ("gcp_gcr", {"keyFile": "{}"}),
    ],
)
async def test_clouds_log_in_with_whatever_keys_they_have(
    organization: Organization, kind: str, credentials: dict[str, str]
) -> None:
    await create(organization, {**ECR, "authType": kind, "credentials": credentials})


async def test_secrets_of_registries_are_in_no_answer_no_log_and_no_file(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    organization = server.seeded()
    created = await organization.call("POST", CREATE, {**BASIC, PASSWORD: PASSWORD[:5]})
    answers = [
        created,
        await organization.call("GET", LIST),
        await server.control("GET", "/export"),
        await organization.call("POST", CREATE, {**BASIC, "authType": PASSWORD}),
        await organization.call("POST", CREATE, BASIC),
    ]
    assert all(PASSWORD not in answer.raw.decode() for answer in answers)
    server.stop()
    assert PASSWORD not in server.log
    assert not files_with(tmp_path, PASSWORD)


async def test_the_key_of_secrets_is_for_its_owner_alone_and_outside_the_database(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    await create(server.seeded())
    key = tmp_path / "secrets.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    exported = (await server.control("GET", "/export")).raw
    assert key.read_bytes() not in exported
    [row] = json.loads(exported)["tables"]["registry_credentials"]
    assert row["sealed"]


async def test_a_credential_must_be_the_organizations_own_to_be_used(
    server: Server, organization: Organization
) -> None:
    foreign = (await create(await server.organization()))["id"]
    own = (await create(organization))["id"]
    assert (await organization.call("DELETE", f"{LIST}/{foreign}")).refusal == (404, "not_found")
    for noun in ("vms", "clusters"):
        path, body = f"/v1/orgs/{{org}}/{noun}/create", {"name": noun, "imageUrl": "ghcr.io/me/app:1"}
        for unknown in (foreign, "none", ""):
            answer = await organization.call("POST", path, {**body, "registryCredentialId": unknown})
            assert answer.refusal == (422, "unprocessable"), unknown
        await organization.ok("POST", path, {**body, "registryCredentialId": own})


async def test_removing_a_credential_leaves_what_uses_it_alone(organization: Organization) -> None:
    credential = (await create(organization))["id"]
    body = {"name": "vm", "imageUrl": "ghcr.io/me/app:1", "registryCredentialId": credential}
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", body)
    await organization.server.advance(UNTIL_RUNNING)
    await organization.ok("DELETE", f"{LIST}/{credential}")
    await organization.ok("POST", f"/v1/vms/{vm['id']}/restart")
    assert await status(organization, vm["id"]) == "running"
    answer = await organization.call("POST", "/v1/orgs/{org}/vms/create", {**body, "name": "two"})
    assert answer.refusal == (422, "unprocessable")


async def test_secrets_can_still_be_used_after_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    credential = await create(server.seeded())
    server.kill()
    again = start_server("--state", str(tmp_path)).seeded()
    assert await listed(again) == [credential]
    body = {"name": "vm", "registryCredentialId": credential["id"]}
    await again.ok("POST", "/v1/orgs/{org}/vms/create", body)


async def test_imported_elsewhere_a_credential_is_there_and_its_secrets_are_not(start_server: StartServer) -> None:
    first = start_server("--ephemeral", "--clock", "frozen")
    credential = await create(first.seeded())
    document = await first.ok("GET", "/export")
    await first.ok("POST", "/import", document)
    usable = {"name": "vm", "registryCredentialId": credential["id"]}
    await first.seeded().ok("POST", "/v1/orgs/{org}/vms/create", usable)
    second = start_server("--ephemeral", "--clock", "frozen")
    await second.ok("POST", "/import", document)
    moved = Organization(second, first.ready["organizationId"], first.ready["apiKey"], "", "")
    assert await listed(moved) == [credential]
    answer = await moved.call("POST", "/v1/orgs/{org}/vms/create", usable)
    assert answer.refusal == (422, "unprocessable")
    assert "create it again" in answer.body["error"]


async def test_a_secret_opens_for_its_own_credential_alone(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    first, second = await create(organization), await create(organization, ECR)
    document = await server.ok("GET", "/export")
    rows = {row["id"]: row for row in document["tables"]["registry_credentials"]}
    rows[first["id"]]["sealed"] = rows[second["id"]]["sealed"]
    await server.ok("POST", "/import", document)
    for credential, answered in ((first, 422), (second, 200)):
        body = {"name": credential["name"], "registryCredentialId": credential["id"]}
        assert (await organization.call("POST", "/v1/orgs/{org}/vms/create", body)).status == answered


async def test_stale_lists_of_credentials_pools_and_snapshots_lack_what_is_new(organization: Organization) -> None:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "vm"})
    await organization.server.advance(UNTIL_RUNNING)
    snapshots = f"/v1/vms/{vm['id']}/snapshots"
    pools = "/v1/orgs/{org}/runner-pools"
    await keep_the_past(organization.server)
    await organization.server.advance(60)
    await create(organization)
    await organization.ok("POST", pools, {"installationId": 1, "name": "ci", "poolRamGb": 8})
    await organization.ok("POST", f"{snapshots}/create", {"name": "s"})
    lists = {
        LIST: "/v1/orgs/{orgId}/registry-credentials",
        pools: "/v1/orgs/{orgId}/runner-pools",
        snapshots: "/v1/vms/{id}/snapshots",
    }
    for path, operation in lists.items():
        stale = {"operation": f"GET {operation}", "organizationId": organization.id, "count": 1}
        await organization.server.ok("POST", "/faults", {**stale, "effect": {"staleSeconds": 30}})
        assert (await organization.ok("GET", path))["items"] == []
        assert len((await organization.ok("GET", path))["items"]) == 1


async def test_a_key_that_is_none_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "secrets.key").write_text("abc")
    server = Server(("--state", str(tmp_path)))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        server.start()
    assert server.child.wait(timeout=PATIENCE_SECONDS) == 1

    async def log() -> str:
        return server.log

    await eventually(log, lambda text: "secrets.key cannot be used" in text)

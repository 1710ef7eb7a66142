"""The audit log: who did what to which object, and from where; of each organization on its own, and without secrets."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ServerDisconnectedError
from starlette.requests import Request

from relay_localcloud.audit.entries import KEPT, record
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.disk import Unwritable
from tests.localcloud.http.values import fitting
from tests.localcloud.support.batches import create as create_batch
from tests.localcloud.support.batches import record as batch_record
from tests.localcloud.support.deployments import DEPLOYMENTS, wanted
from tests.localcloud.support.everything import POD, everything
from tests.localcloud.support.inference import CHAT, chat
from tests.localcloud.support.inference import ok as inference_ok
from tests.localcloud.support.people import session_of, sign_up
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import new_pod, running_pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from relay_localcloud.kernel.store import Tx
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

FROZEN = ("--ephemeral", "--clock", "frozen")
TERMINATE = "POST /v1/vms/{id}/terminate"


async def entries_of(organization: Organization) -> list[dict[str, Any]]:
    """The organization's entries, oldest first, without those of its making."""
    path = f"/audit?organizationId={organization.id}&limit=1000"
    found: list[dict[str, Any]] = (await organization.server.ok("GET", path))["items"]
    return [entry for entry in found if entry["operation"] != "POST /_localcloud/orgs"]


async def told(organization: Organization) -> list[tuple[str, str | None, str, str | None, bool]]:
    """Of each entry: kind and name of who did it, what, to what, and whether it was forbidden."""
    names = ("actorKind", "actor", "operation", "objectId", "forbidden")
    return [tuple(entry[name] for name in names) for entry in await entries_of(organization)]


async def test_a_key_is_named_by_its_prefix(organization: Organization) -> None:
    pod = await new_pod(organization)
    await organization.ok("POST", f"/v1/vms/{pod['id']}/terminate")
    prefix = organization.api_key[:11]
    assert await told(organization) == [
        ("api_key", prefix, "POST /v1/pods", pod["id"], False),
        ("api_key", prefix, TERMINATE, pod["id"], False),
    ]
    (first, _) = await entries_of(organization)
    assert first["address"] == "127.0.0.1"
    assert first["organizationId"] == organization.id
    assert first["at"] == pod["createdAt"]


async def test_an_address_of_ipv4_is_written_as_such_by_a_listener_for_both_families(start_server: StartServer) -> None:
    organization = await start_server(*FROZEN, "--host", "::").organization()
    port = urlsplit(organization.server.ready["managementUrl"]).port
    answer = await request("POST", f"http://127.0.0.1:{port}/v1/pods", POD, key=organization.api_key)
    assert [entry["address"] for entry in await entries_of(organization)] == ["127.0.0.1"], answer


async def test_a_person_is_named_by_their_id(organization: Organization) -> None:
    member = await session_of(organization, "member")
    pod = await member.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "rtx4090"})
    assert (await told(organization))[-1] == ("user", member.id, "POST /v1/pods", pod["id"], False)


async def test_what_a_person_of_two_organizations_does_is_in_the_log_of_each(server: Server) -> None:
    home, away = await server.organization(), await server.organization()
    person = await session_of(home, "member")
    await away.ok("POST", "/v1/orgs/{org}/members/add", {"email": person.email, "role": "admin"})
    pod = await new_pod(away, gpuModelId="rtx4090")
    await request("POST", f"{server.url}/v1/vms/{pod['id']}/terminate", key=person.token)
    await request("PATCH", f"{server.url}/v1/orgs/{away.id}", {"name": "Renamed"}, key=person.token)
    assert (await told(away))[-2:] == [
        ("user", person.id, TERMINATE, pod["id"], False),
        ("user", person.id, "PATCH /v1/orgs/{orgId}", away.id, False),
    ]
    assert person.id not in [actor for kind, actor, *_ in await told(home) if kind == "user"]


async def test_who_makes_an_organization_is_in_its_log(server: Server) -> None:
    person = await sign_up(server)
    made = await person.ok("POST", "/v1/orgs", {"name": "Own"})
    listed = (await server.ok("GET", f"/audit?organizationId={made['id']}"))["items"]
    assert [(entry["actor"], entry["operation"]) for entry in listed] == [(person.id, "POST /v1/orgs")]


async def test_an_administrators_deeds_are_in_the_log_of_whom_they_concern(organization: Organization) -> None:
    server, pod_id = organization.server, await running_pod(organization, gpuModelId="rtx4090")
    before = len(await told(organization))
    await server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 7})
    await server.ok("POST", f"/workloads/{pod_id}/events", {"event": "fail"})
    await server.ok("POST", "/orgs", {"name": "Other"})
    fault = await server.ok("POST", "/faults", {"operation": "GET /v1/pricing", "effect": {"status": 500}, "count": 1})
    assert (await told(organization))[before:] == [
        ("administrator", None, "PATCH /_localcloud/orgs/{orgId}", None, False),
        ("administrator", None, "POST /_localcloud/workloads/{id}/events", pod_id, False),
    ]
    every = (await server.ok("GET", "/audit?limit=1000"))["items"]
    assert (every[-1]["organizationId"], every[-1]["objectId"]) == (None, fault["id"])
    await server.ok("DELETE", "/faults")


async def test_what_is_forbidden_is_in_the_log_of_who_tried(server: Server) -> None:
    organization, other = await server.organization(), await server.organization(scopes=["vms:read"])
    pod = await new_pod(organization, gpuModelId="rtx4090")
    assert (await other.call("POST", f"/v1/vms/{pod['id']}/terminate")).status == 403
    assert (await other.call("PATCH", f"/v1/orgs/{organization.id}", {"name": "Mine"})).status == 403
    assert [(entry[2], entry[4]) for entry in await told(organization)] == [("POST /v1/pods", False)]
    assert [(operation, named, forbidden) for _, _, operation, named, forbidden in await told(other)] == [
        (TERMINATE, pod["id"], True),
        ("PATCH /v1/orgs/{orgId}", None, True),
    ]


async def test_what_is_forbidden_in_an_organization_that_a_body_names_is_in_its_log(server: Server) -> None:
    own, named = await server.organization(), await server.organization()
    person = await session_of(own)
    await (await session_of(named)).ok(
        "POST", f"/v1/orgs/{named.id}/members/add", {"email": person.email, "role": "viewer"}
    )
    assert (await person.call("POST", DEPLOYMENTS, wanted(named))).status == 403
    assert (await told(named))[-1] == ("user", person.id, f"POST {DEPLOYMENTS}", None, True)


async def test_reads_uses_and_what_came_to_nothing_are_not_in_it(organization: Organization) -> None:
    await organization.ok("GET", "/v1/whoami")
    await inference_ok(organization, "POST", CHAT, chat("hello"))
    assert (await organization.call("POST", "/v1/pods", {"image": 1})).status == 400
    assert (await organization.call("POST", "/v1/vms/pod_none/stop")).status == 404
    assert (await organization.call("POST", "/v1/vms/pod_none/stop", key="or_none")).status == 401
    fault = {"operation": "POST /v1/pods", "count": 1, "organizationId": organization.id, "effect": {"status": 503}}
    await organization.server.ok("POST", "/faults", fault)
    assert (await organization.call("POST", "/v1/pods", {"image": "app:1"})).status == 503
    assert [kind for kind, *_ in await told(organization)] == ["administrator"], "who made the fault"


async def test_what_was_done_is_in_it_though_the_answer_was_lost(organization: Organization) -> None:
    fault = {"operation": "POST /v1/pods", "count": 1, "organizationId": organization.id, "effect": {"drop": "after"}}
    await organization.server.ok("POST", "/faults", fault)
    with pytest.raises(ServerDisconnectedError):
        await new_pod(organization)
    assert [operation for _, _, operation, _, _ in await told(organization)][1:] == ["POST /v1/pods"]


async def test_files_and_batches_are_in_it(organization: Organization) -> None:
    batch = await create_batch(organization, [batch_record("a")])
    await inference_ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    assert [(operation, named) for _, _, operation, named, _ in await told(organization)] == [
        ("POST /v1/files", batch["input_file_id"]),
        ("POST /v1/batches", batch["id"]),
        ("POST /v1/batches/{id}/cancel", batch["id"]),
    ]


async def test_no_secret_is_in_it(server: Server) -> None:
    organization = await server.organization()
    key = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"})
    webhook = {"name": "w", "url": "http://127.0.0.1:9/token-in-path", "events": []}
    hook = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", webhook)
    person = await sign_up(server)
    invite = await server.ok("POST", f"/orgs/{organization.id}/invites", {"email": person.email, "role": "member"})
    await person.ok("POST", f"/v1/invites/{invite['token']}/accept")
    pod = await new_pod(organization, gpuModelId="rtx4090", envVars={"PASSWORD": "hunter2hunter2"})
    legacy = await server.ok("POST", f"/orgs/{organization.id}/legacy-key")
    for misplaced in (organization.api_key, hook["secret"], "hunter2hunter2"):
        await organization.call("DELETE", f"/v1/orgs/{{org}}/api-keys/{misplaced}")
        await organization.call("POST", f"/v1/vms/{misplaced}/stop", key=person.token)
        await organization.call("POST", f"/v1/vms/{misplaced}/stop", key=organization.user_session_token)
    scoped = await server.organization(scopes=["inference"])
    for misplaced in (scoped.api_key, hook["secret"], "hunter2hunter2"):
        assert (await scoped.call("POST", f"/v1/vms/{misplaced}/stop")).status == 403
    log = (await server.control("GET", "/audit/export")).raw.decode()
    kept = json.dumps((await server.ok("GET", "/export"))["tables"]["audit"])
    secrets = (organization.api_key, organization.user_session_token, key["key"], hook["secret"], invite["token"])
    for secret in (*secrets, legacy["apiKey"], person.token, scoped.api_key, "hunter2hunter2", "token-in-path"):
        assert secret not in log
        assert secret not in kept
    assert pod["id"] in log


async def test_who_belongs_to_no_organization_does_not_fill_the_platforms_log(server: Server) -> None:
    person = await sign_up(server)
    before = await whole(server)
    assert (await person.call("POST", "/v1/pods", {"image": "app:1"})).status == 403
    await person.ok("PATCH", "/v1/me/profile", {"fullName": "Ada"})
    assert await whole(server) == before


async def test_a_secret_in_the_place_of_an_id_is_not_kept(server: Server) -> None:
    known = await everything(server)
    secret = known.organization.api_key
    for operation in known.operations():
        body = {} if operation.body is None else {"raw": json.dumps(fitting(operation.body, known.document)).encode()}
        path = await known.path(operation)
        misplaced = {**path, **dict.fromkeys(list(path)[-1:], secret)}
        for key in (secret, known.organization.user_session_token):
            await known.call(operation, misplaced, **body, key=key)
    assert len(await entries_of(known.organization)) > 50
    assert secret not in "".join(await whole(server))


async def test_the_log_is_exported_as_lines_in_pieces(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = await server.organization()
    await fill(server, organization, 2_500)
    answer = await server.control("GET", f"/audit/export?organizationId={organization.id}")
    assert answer.headers["content-type"] == "application/jsonl"
    lines = [json.loads(line) for line in answer.raw.decode().splitlines()]
    assert [line["objectId"] for line in lines[-2500:]] == [f"pod_{nr}" for nr in range(1, 2_501)]
    page = (await server.ok("GET", f"/audit?organizationId={organization.id}&after={lines[-4]['sequence']}"))["items"]
    assert page == lines[-3:]
    assert (await server.ok("GET", "/audit?limit=1"))["items"] == [json.loads((await whole(server))[0])]
    for wrong in ("limit=0", "limit=1001", "after=-1", "after=x"):
        assert (await server.control("GET", f"/audit?{wrong}")).status == 400


@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_each_organization_keeps_so_many_entries_and_no_more(start_server: StartServer, beyond: int) -> None:
    server = start_server(*FROZEN)
    busy, quiet = await server.organization(), await server.organization()
    await new_pod(quiet)
    kept_of_quiet = await entries_of(quiet)
    await fill(server, busy, KEPT + beyond - 1)
    await new_pod(busy)
    lines = [json.loads(line) for line in await whole(server, busy)]
    assert len(lines) == min(KEPT, KEPT + beyond)
    assert lines[0]["objectId"] == ("pod_2" if beyond > 0 else "pod_1")
    assert await entries_of(quiet) == kept_of_quiet


async def test_the_log_survives_a_kill_and_lists_each_change_once(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path), "--clock", "frozen")
    first = start_server(*arguments)
    organization = first.seeded()
    made = await asyncio.gather(*(new_pod(organization, gpuModelId="rtx4090") for _ in range(10)))
    first.kill()
    second = start_server(*arguments)
    assert sorted(str(named) for *_, named, _ in await told(second.seeded())) == sorted(pod["id"] for pod in made)


async def test_a_reset_erases_it_and_an_import_replaces_it(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    await new_pod(server.seeded())
    state = await server.ok("GET", "/export")
    await server.ok("POST", "/reset")
    assert await whole(server) == []
    await server.ok("POST", "/import", state)
    assert [json.loads(line)["operation"] for line in await whole(server)] == ["POST /v1/pods"]


async def test_the_console_shows_it(server: Server) -> None:
    organization, other = await server.organization(), await server.organization()
    pod, hidden = await new_pod(organization, gpuModelId="rtx4090"), await new_pod(other, gpuModelId="rtx4090")
    member = await session_of(organization, "viewer")
    assert (await member.call("POST", f"/v1/vms/{pod['id']}/stop")).status == 403
    shown = await request("GET", f"{server.url}/console/audit?org={organization.id}")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", shown.raw.decode())))
    for said in (
        "POST /v1/pods",
        pod["id"],
        f"api key {organization.api_key[:11]}",
        member.id,
        "forbidden",
        "127.0.0.1",
    ):
        assert said in text
    assert hidden["id"] not in text


async def whole(server: Server, organization: Organization | None = None) -> list[str]:
    """The lines of the export."""
    query = "" if organization is None else f"?organizationId={organization.id}"
    return (await server.control("GET", f"/audit/export{query}")).raw.decode().splitlines()


async def fill(server: Server, organization: Organization, count: int) -> None:
    """As if these were all the entries that the organization has."""
    state = await server.ok("GET", "/export")
    others = [row for row in state["tables"]["audit"] if row["organization_id"] != organization.id]
    last = max((row["sequence"] for row in state["tables"]["audit"]), default=0)
    state["tables"]["audit"] = others + [
        {
            "sequence": last + number,
            "organization_id": organization.id,
            "number": number,
            "at": 0,
            "actor_kind": "api_key",
            "actor": organization.api_key[:11],
            "address": "127.0.0.1",
            "operation": "POST /v1/pods",
            "object_id": f"pod_{number}",
            "forbidden": False,
        }
        for number in range(1, count + 1)
    ]
    await server.ok("POST", "/import", state)


async def test_a_change_whose_entry_cannot_be_written_does_not_happen(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    kept = await server.ok("PATCH", "/settings", {})
    with closing(sqlite3.connect(tmp_path / "state.db")) as state:
        state.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'there is no room'); END")
        last = {"Connection": "close"}
        assert (await server.control("PATCH", "/settings", {"capacityStatus": 429}, headers=last)).status == 500
        state.execute("DROP TRIGGER full")
    assert await server.ok("PATCH", "/settings", {}) == kept


async def test_what_is_done_is_not_answered_503_for_want_of_room_for_its_entry() -> None:
    router = Router()

    @router.post("/uploads")
    async def upload() -> dict[str, object]:
        return {"id": "file_1"}

    @contextmanager
    def full() -> Iterator[Tx]:
        raise Unwritable(OSError("there is no room"))
        yield

    answer = await router.routes[0].respond(Request({"type": "http", "headers": []}), full, record)
    assert (answer.status_code, json.loads(bytes(answer.body))) == (200, {"id": "file_1"})

"""Who may use files and batches, and the errors of their endpoints (section 7, "Batch and file endpoints")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.localcloud.support.batches import batch_of, create, jsonl, multipart, post_file, record, run, upload
from tests.localcloud.support.inference import CHAT, call, ok, refusal
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.workloads import set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

pytestmark = pytest.mark.usefixtures("no_faults_left")

OPERATIONS = [
    ("POST", "/v1/files"),
    ("GET", "/v1/files"),
    ("GET", "/v1/files/{file}"),
    ("DELETE", "/v1/files/{file}"),
    ("GET", "/v1/files/{file}/content"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/batches/{batch}"),
    ("POST", "/v1/batches/{batch}/cancel"),
]


async def filled(organization: Organization) -> dict[str, str]:
    """The ids of a file and a batch, as path parameters."""
    batch = await create(organization, [record("a")])
    return {"file": batch["input_file_id"], "batch": batch["id"]}


async def batches_of(organization: Organization) -> list[str]:
    return [batch["id"] for batch in (await ok(organization, "GET", "/v1/batches"))["data"]]


async def fault(server: Server, operation: str, effect: dict[str, object]) -> None:
    await server.ok("POST", "/faults", {"operation": operation, "effect": effect, "count": 1})


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_every_operation_needs_a_key_with_the_scope(organization: Organization, method: str, path: str) -> None:
    path = path.format(**await filled(organization))
    answer = await call(organization, method, path, headers={})
    assert refusal(answer) == (401, "authentication_error", "missing_api_key")
    answer = await call(organization, method, path, key="or_nonsense")
    assert refusal(answer) == (401, "authentication_error", "invalid_api_key")
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["vms:read"]})
    answer = await call(organization, method, path, key=made["key"])
    assert refusal(answer) == (403, "permission_error", "insufficient_scope")


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_without_batch_access_nothing_is_found(organization: Organization, method: str, path: str) -> None:
    path = path.format(**await filled(organization))
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"batchAccess": False})
    assert refusal(await call(organization, method, path)) == (404, "not_found_error", None)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_a_suspended_account_is_403(organization: Organization, method: str, path: str) -> None:
    path = path.format(**await filled(organization))
    for suspended, code in ((True, "account_suspended"), ("review", "account_unavailable")):
        await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": suspended})
        assert refusal(await call(organization, method, path)) == (403, "permission_error", code)


@pytest.mark.parametrize("suspended", [True, "review"])
async def test_a_batch_of_a_suspended_account_waits(organization: Organization, suspended: object) -> None:
    batch = await create(organization, [record(str(number)) for number in range(500)])
    await organization.server.advance(10)
    await set_organization(organization, suspended=suspended)
    await organization.server.advance(600)
    await set_organization(organization, suspended=False)
    waiting = await batch_of(organization, batch["id"])
    assert waiting["status"] == "in_progress"
    assert 0 < waiting["request_counts"]["completed"] < 200
    await organization.server.advance(61 + 0.1 * 500 + 2)
    done = await batch_of(organization, batch["id"])
    assert (done["status"], done["request_counts"]["completed"]) == ("completed", 500)


@pytest.mark.parametrize(("method", "path"), [pair for pair in OPERATIONS if "{" in pair[1]])
async def test_what_another_organization_has_is_not_found(organization: Organization, method: str, path: str) -> None:
    path = path.format(**await filled(organization))
    other = await organization.server.organization()
    assert refusal(await call(other, method, path)) == (404, "not_found_error", None)
    missing = path.replace("_", "_x")
    assert refusal(await call(organization, method, missing)) == (404, "not_found_error", None)


async def test_another_organizations_file_is_no_input(organization: Organization) -> None:
    file_id = await upload(organization, jsonl([record("a")]))
    other = await organization.server.organization()
    for caller, given in ((other, file_id), (organization, "file_nothing")):
        answer = await call(caller, "POST", "/v1/batches", {"input_file_id": given, "endpoint": CHAT})
        assert refusal(answer) == (404, "not_found_error", None)


async def test_the_output_of_a_batch_is_no_input(organization: Organization) -> None:
    batch = await run(organization, [record("a")])
    body = {"input_file_id": batch["output_file_id"], "endpoint": CHAT}
    assert refusal(await call(organization, "POST", "/v1/batches", body)) == (400, "invalid_request_error", None)


async def test_below_the_floor_no_batch_is_created_and_all_else_works(organization: Organization) -> None:
    ids = await filled(organization)
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": -1})
    file_id = await upload(organization, jsonl([record("a")]))
    answer = await call(organization, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": CHAT})
    assert refusal(answer) == (402, "insufficient_quota", "insufficient_balance")
    assert await batches_of(organization) == [ids["batch"]]
    await ok(organization, "POST", f"/v1/batches/{ids['batch']}/cancel")
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 0})
    await ok(organization, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": CHAT})


async def test_the_account_of_a_batch_is_looked_at_before_the_body(organization: Organization) -> None:
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": -1})
    answer = await call(organization, "POST", "/v1/batches", raw=b"{nonsense")
    assert refusal(answer) == (402, "insufficient_quota", "insufficient_balance")


async def test_the_key_may_come_as_x_api_key(organization: Organization) -> None:
    answer = await call(organization, "GET", "/v1/batches", headers={"x-api-key": organization.api_key})
    assert answer.status == 200


async def test_batches_are_listed_newest_first_in_pages(organization: Organization) -> None:
    ids = [(await create(organization, [record("a")]))["id"] for _ in range(5)][::-1]
    page = await ok(organization, "GET", "/v1/batches?limit=2")
    assert sorted(page) == ["data", "first_id", "has_more", "last_id", "object"]
    assert (page["object"], page["has_more"]) == ("list", True)
    assert (page["first_id"], page["last_id"]) == (ids[0], ids[1])
    assert page["data"][0] == await batch_of(organization, ids[0])
    seen: list[str] = []
    after = ""
    while True:
        page = await ok(organization, "GET", f"/v1/batches?limit=2{after}")
        seen += [batch["id"] for batch in page["data"]]
        after = f"&after={page['last_id']}"
        if not page["has_more"]:
            break
    assert seen == ids


async def test_a_create_whose_reply_was_lost_is_found_by_its_metadata(organization: Organization) -> None:
    file_id = await upload(organization, jsonl([record("a")]))
    body = {"input_file_id": file_id, "endpoint": CHAT, "metadata": {"token": "t-1"}}
    await fault(organization.server, "POST /v1/batches", {"drop": "after"})
    with pytest.raises(aiohttp.ClientConnectionError):
        await call(organization, "POST", "/v1/batches", body)
    (batch,) = (await ok(organization, "GET", "/v1/batches"))["data"]
    assert batch["metadata"] == {"token": "t-1"}


async def test_an_upload_whose_reply_was_lost_is_there(organization: Organization) -> None:
    await fault(organization.server, "POST /v1/files", {"drop": "after"})
    with pytest.raises(aiohttp.ClientConnectionError):
        await post_file(organization, multipart(b"there", filename="lost.jsonl"))
    (file,) = (await ok(organization, "GET", "/v1/files"))["data"]
    assert (file["filename"], file["bytes"]) == ("lost.jsonl", 5)


async def test_an_action_that_could_not_be_dispatched(organization: Organization) -> None:
    await fault(organization.server, "POST /v1/batches", {"status": 503})
    answer = await call(organization, "POST", "/v1/batches", {"requests": [record("a")], "endpoint": CHAT})
    assert refusal(answer) == (503, "api_error", "upstream_unavailable")
    assert await batches_of(organization) == []


async def test_lists_may_lag(organization: Organization) -> None:
    server = organization.server
    await keep_the_past(server)
    first = await create(organization, [record("a")])
    await server.advance(600)
    second = await create(organization, [record("a")])
    await fault(server, "GET /v1/batches", {"staleSeconds": 300})
    (shown,) = (await ok(organization, "GET", "/v1/batches"))["data"]
    assert shown["id"] == first["id"]
    await server.advance(600)
    await fault(server, "GET /v1/batches", {"staleSeconds": 700})
    shown = (await ok(organization, "GET", "/v1/batches"))["data"]
    assert [batch["status"] for batch in shown] == ["completed"]
    assert await batches_of(organization) == [second["id"], first["id"]]
    await fault(server, "GET /v1/files", {"staleSeconds": 300})
    before = (await ok(organization, "GET", "/v1/files"))["data"]
    await ok(organization, "DELETE", f"/v1/files/{first['input_file_id']}")
    await fault(server, "GET /v1/files", {"staleSeconds": 300})
    assert (await ok(organization, "GET", "/v1/files"))["data"] == before
    assert len((await ok(organization, "GET", "/v1/files"))["data"]) == len(before) - 1


async def test_a_download_may_break_off_and_go_on(organization: Organization) -> None:
    file_id = await upload(organization, b"0123456789")
    await fault(organization.server, "GET /v1/files/{id}/content", {"truncateBytes": 4})
    with pytest.raises(aiohttp.ClientPayloadError):
        await call(organization, "GET", f"/v1/files/{file_id}/content")
    headers = {"Authorization": f"Bearer {organization.api_key}", "Range": "bytes=4-"}
    assert (await call(organization, "GET", f"/v1/files/{file_id}/content", headers=headers)).raw == b"456789"


async def test_requests_are_logged_with_what_nobody_read(organization: Organization) -> None:
    body = {"requests": [record("a")], "endpoint": CHAT, "completion_windw": "24h"}
    await ok(organization, "POST", "/v1/batches", body)
    logged = await organization.server.ok("GET", f"/requests?organizationId={organization.id}")
    entry = logged["items"][-1]
    assert (entry["operation"], entry["status"]) == ("POST /v1/batches", 200)
    assert entry["unreadFields"] == ["completion_windw"]

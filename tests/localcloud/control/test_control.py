"""The control interface: settings, organizations, the request log, export and import."""

from __future__ import annotations

import json
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.app import CONTROL_ROUTERS, LIST_VMS_ROUTERS, ROUTERS
from tests.localcloud.support.events import create_pod, create_webhook, make_event, settle
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import set_organization

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

FROZEN = ("--ephemeral", "--clock", "frozen")


async def test_a_fresh_organization_comes_with_its_credentials(server: Server) -> None:
    made = await server.ok("POST", "/orgs", {"name": "Fresh"})
    assert sorted(made) == ["apiKey", "organizationId", "userId", "userSessionToken"]
    assert made["apiKey"].startswith("or_")
    for credential in (made["apiKey"], made["userSessionToken"]):
        shown = (await request("GET", server.url + "/v1/whoami", key=credential)).body
        assert (shown["organizationId"], shown["organizationName"]) == (made["organizationId"], "Fresh")


async def test_a_fresh_organization_may_have_fewer_scopes_each_once(server: Server) -> None:
    scopes = ["vms:write", "vms:read"]
    made = await server.ok("POST", "/orgs", {"name": "Narrow", "scopes": [*scopes, "vms:read"]})
    shown = await request("GET", server.url + "/v1/whoami", key=made["apiKey"])
    assert shown.body["scopes"] == scopes


@pytest.mark.parametrize("balance", [0, 1, 2_500_000, -5])
async def test_a_balance_is_set_to_that_value(server: Server, balance: int) -> None:
    organization = await server.organization(balanceCents=balance)
    path = "/v1/orgs/{org}/billing/balance"
    assert (await organization.ok("GET", path))["balanceCents"] == balance
    await server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 77})
    assert (await organization.ok("GET", path))["balanceCents"] == 77


async def test_a_fresh_organization_has_as_much_as_the_seeded_one_unless_told(server: Server) -> None:
    for given in ({}, {"balanceCents": None}):
        made = await server.ok("POST", "/orgs", {"name": "Fresh", **given})
        url = f"{server.url}/v1/orgs/{made['organizationId']}/billing/balance"
        assert (await request("GET", url, key=made["apiKey"])).body["balanceCents"] == 100_000


async def test_a_rate_limit_of_nothing_is_none(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = server.seeded()
    await set_organization(organization, quotas={"requestsPerSecond": 1})
    limited = await organization.call("GET", "/v1/whoami")
    assert '"burst";q=1;w=1' in limited.headers["ratelimit-policy"]
    nothing = {"rateLimitPerSecond": 0, "keyRequestsPerMinute": 0, "organizationRequestsPerMinute": 0}
    assert nothing.items() <= (await server.ok("PATCH", "/settings", nothing)).items()
    answers = [await organization.call("GET", "/v1/whoami") for _ in range(5)]
    assert [answer.status for answer in answers] == [200] * 5
    assert not {"ratelimit", "ratelimit-policy"} & {name.lower() for answer in answers for name in answer.headers}


async def test_a_session_of_a_new_member_may_be_opened(organization: Organization) -> None:
    owner = await organization.server.ok("POST", f"/orgs/{organization.id}/session")
    assert owner["userId"] == organization.user_id
    member = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": "member"})
    assert sorted(member) == ["userId", "userSessionToken"]
    assert member["userId"] != owner["userId"]


async def test_changes_of_an_organization_are_shown(organization: Organization) -> None:
    change = {"suspended": "review", "infiniband": True, "provider": True, "batchAccess": False, "depositCapCents": 9}
    shown = await organization.server.ok("PATCH", f"/orgs/{organization.id}", change)
    assert {name: shown[name] for name in change} == change
    shown = await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": False})
    assert (shown["suspended"], shown["infiniband"]) == (False, True)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/orgs", {}),
        ("POST", "/orgs", {"name": ""}),
        ("POST", "/orgs", {"name": "x", "balanceCents": 1.5}),
        ("POST", "/orgs", {"name": "x", "balanceCents": 10**30}),
        ("POST", "/orgs", {"name": "x", "scopes": ["root"]}),
        ("POST", "/orgs", {"name": "x", "colour": "red"}),
        ("PATCH", "/orgs/{id}", {"balanceCents": "7"}),
        ("PATCH", "/orgs/{id}", {"suspended": "maybe"}),
        ("PATCH", "/orgs/{id}", {"color": 1}),
        ("PATCH", "/orgs/{id}", []),
        ("POST", "/orgs/{id}/session", {"role": "king"}),
        ("PATCH", "/settings", {"placementSeconds": -1}),
        ("PATCH", "/settings", {"placementSeconds": "1"}),
        ("PATCH", "/settings", {"placementSeconds": 10**30}),
        ("PATCH", "/settings", {"capacityStatus": 200}),
        ("PATCH", "/settings", {"placement_seconds": 1}),
        ("PATCH", "/settings", {"unknown": 1}),
        ("PATCH", "/settings", []),
        ("GET", "/requests?after=x", None),
        ("GET", "/requests?after=-1", None),
        ("POST", "/import", {}),
        ("POST", "/import", []),
        ("POST", "/import", {"schemaVersion": 1}),
        ("POST", "/import", {"schemaVersion": 1, "tables": {"nothing": []}}),
        ("POST", "/import", {"schemaVersion": 1, "tables": {"organizations": [{"id": 1}]}}),
        ("POST", "/import", {"schemaVersion": 1, "tables": {"meta": [{"name": "clock", "value": 5}]}}),
        ("POST", "/import", {"schemaVersion": 1, "tables": {"meta": [{"name": "clock", "value": "{}"}]}}),
        ("POST", "/import", {"schemaVersion": 1, "tables": {"meta": [{"name": "settings", "value": "?"}]}}),
        ("POST", "/import", {"schemaVersion": 999, "tables": {}}),
    ],
)
async def test_bad_input_to_the_control_interface_is_400_and_changes_nothing(
    organization: Organization, method: str, path: str, body: object
) -> None:
    before = await organization.server.ok("GET", "/export")
    answer = await organization.server.control(method, path.replace("{id}", organization.id), body)
    assert answer.refusal == (400, "invalid_request")
    assert await organization.server.ok("GET", "/export") == before


@pytest.mark.parametrize("suspended", ["maybe", 1, [], {}])
async def test_what_suspends_nobody_is_refused_in_one_sentence(organization: Organization, suspended: object) -> None:
    answer = await organization.server.control("PATCH", f"/orgs/{organization.id}", {"suspended": suspended})
    assert answer.body["error"] == 'suspended: it must be true, false or "review".'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/orgs/org_nowhere"),
        ("POST", "/orgs/org_nowhere/legacy-key"),
        ("POST", "/orgs/org_nowhere/session"),
        ("GET", "/nothing"),
    ],
)
async def test_what_is_not_there_is_404(server: Server, method: str, path: str) -> None:
    assert (await server.control(method, path, {})).refusal == (404, "not_found")


async def test_settings_are_answered_whole_and_kept(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    everything = await server.ok("PATCH", "/settings", {})
    assert {
        "placementSeconds",
        "startSeconds",
        "stopSeconds",
        "interruptionGraceSeconds",
        "webhookTimeoutSeconds",
        "batchRecordSeconds",
        "rateLimitPerSecond",
        "capacityStatus",
        "maxConcurrentUploads",
        "allowLoopbackExecutors",
    } <= set(everything)
    assert everything["rateLimitPerSecond"] is None
    changed = await server.ok("PATCH", "/settings", {"placementSeconds": 0, "capacityStatus": 429})
    assert changed == {**everything, "placementSeconds": 0, "capacityStatus": 429}
    assert await server.ok("PATCH", "/settings", {}) == changed


async def test_the_rate_limit_answers_429_with_whole_seconds(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization, other = await server.organization(), await server.organization()
    await server.ok("PATCH", "/settings", {"rateLimitPerSecond": 0.01})
    assert (await organization.call("GET", "/v1/whoami")).status == 200
    limited = await organization.call("GET", "/v1/whoami")
    assert limited.refusal == (429, "rate_limited")
    assert 1 <= int(limited.headers["retry-after"]) <= 100
    assert (await other.call("GET", "/v1/whoami")).status == 200
    await server.ok("PATCH", "/settings", {"rateLimitPerSecond": None})
    assert (await organization.call("GET", "/v1/whoami")).status == 200


async def test_requests_are_logged_with_their_operation(organization: Organization) -> None:
    await organization.ok("GET", "/v1/whoami")
    last = max((item["seq"] for item in (await organization.server.ok("GET", "/requests"))["items"]), default=0)
    await organization.ok("GET", "/v1/orgs/{org}")
    await organization.call("DELETE", "/v1/orgs/{org}/webhooks/wh_none")
    await organization.call("GET", "/v1/nothing/here")
    await request("GET", organization.server.url + "/v1/whoami")
    items = (await organization.server.ok("GET", f"/requests?after={last}"))["items"]
    assert [item["seq"] for item in items] == [last + 1, last + 2, last + 3, last + 4]
    assert sorted(items[0]) == [
        "at",
        "faultId",
        "method",
        "operation",
        "organizationId",
        "path",
        "seq",
        "status",
        "unreadFields",
    ]
    shown = [(item["operation"], item["status"], item["organizationId"]) for item in items]
    assert shown == [
        ("GET /v1/orgs/{orgId}", 200, organization.id),
        ("DELETE /v1/orgs/{orgId}/webhooks/{id}", 404, organization.id),
        (None, 404, None),
        ("GET /v1/whoami", 401, None),
    ]
    assert items[1]["path"] == f"/v1/orgs/{organization.id}/webhooks/wh_none"
    mine = (await organization.server.ok("GET", f"/requests?organizationId={organization.id}"))["items"]
    assert mine[1:] == items[:2]


async def test_fields_that_are_not_read_are_accepted_and_flagged(organization: Organization) -> None:
    body = {"name": "h", "url": "http://127.0.0.1:9/", "colour": "red", "retries": {"max": 3}}
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
    (item,) = (await organization.server.ok("GET", f"/requests?organizationId={organization.id}"))["items"]
    assert sorted(item["unreadFields"]) == ["colour", "retries"]


async def test_the_request_log_keeps_a_part_of_what_is_too_much(organization: Organization) -> None:
    surplus = {f"{number:03}" + "x" * 300: 1 for number in range(500)}
    body = {"name": "h", "url": "http://127.0.0.1:9/", **surplus}
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
    await organization.call("GET", "/v1/" + "y" * 10_000)
    first, last = (await organization.server.ok("GET", "/requests"))["items"][-2:]
    assert first["unreadFields"] == [name[:200] for name in list(surplus)[:100]]
    assert last["path"] == "/v1/" + "y" * 4092


async def test_a_wrong_field_beside_an_unread_one_is_still_400(organization: Organization) -> None:
    body = {"name": "h", "url": 5, "colour": "red"}
    answer = await organization.call("POST", "/v1/orgs/{org}/webhooks/create", body)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith("url: ")


async def test_control_calls_are_not_in_the_request_log(server: Server) -> None:
    await server.ok("GET", "/clock")
    assert not [item for item in (await server.ok("GET", "/requests"))["items"] if "_localcloud" in item["path"]]


async def test_an_exported_state_goes_on_elsewhere(start_server: StartServer, receiver: Receiver) -> None:
    here, there = start_server(*FROZEN), start_server(*FROZEN)
    organization = await here.organization()
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    pod = await create_pod(organization)
    await here.ok("PATCH", "/settings", {"capacityStatus": 429})
    await here.ok("POST", "/faults", {"operation": "GET /v1/orgs/{orgId}", "effect": {"status": 503}})
    document = await here.ok("GET", "/export")

    stranger = await there.organization()
    await there.ok("POST", "/import", document)
    imported = await there.ok("GET", "/export")
    # Another key of secrets opens no host key of SSH, so it keeps its own.
    assert imported["tables"].pop("ssh_host_keys") != document["tables"].pop("ssh_host_keys")
    assert imported == document
    assert await there.ok("GET", "/clock") == await here.ok("GET", "/clock")
    moved = {"server": there, "key": organization.api_key}
    shown = await request("GET", there.url + "/v1/whoami", key=str(moved["key"]))
    assert shown.body["organizationId"] == organization.id
    assert (await request("GET", there.url + "/v1/whoami", key=stranger.api_key)).status == 401
    assert (await request("GET", f"{there.url}/v1/orgs/{organization.id}", key=organization.api_key)).status == 503
    assert (await there.ok("PATCH", "/settings", {}))["capacityStatus"] == 429
    here.kill()
    await there.advance(600)
    retried = [received for received in receiver.received if received.event["type"] == "vm.terminated"]
    assert len(retried) == 2
    assert retried[1].is_signed_with(webhook["secret"])
    record = await request("GET", f"{there.url}/v1/vms/{pod}", key=organization.api_key)
    assert record.body["status"] == "running"


async def test_the_outbox_is_empty_at_first(start_server: StartServer) -> None:
    assert await start_server(*FROZEN).ok("GET", "/outbox") == {"items": []}


async def test_the_console_shows_what_there_is_and_escapes_it(server: Server) -> None:
    organization = await server.organization(name="<script>alert(1)</script>")
    pod = await create_pod(organization)
    cluster = await organization.ok(
        "POST", "/v1/orgs/{org}/clusters/create", {"name": "shown", "gpuModelId": "a100", "replicaCount": 1}
    )
    page = await request("GET", server.url + "/")
    assert page.headers["content-type"].startswith("text/html")
    assert b"&lt;script&gt;alert(1)" in page.raw
    assert b"<script>" not in page.raw
    assert b"://" not in page.raw  # nothing is loaded from elsewhere
    assert pod.encode() in page.raw
    assert cluster["id"].encode() in page.raw


def described(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


async def test_openapi_describes_what_is_served_and_marks_what_is_assumed(server: Server) -> None:
    document = (await request("GET", server.url + "/openapi.json")).body
    operations = described(document)
    documented = {
        "GET /v1/whoami",
        "GET /v1/orgs/{orgId}",
        "POST /v1/orgs/{orgId}/api-keys/create",
        "GET /v1/orgs/{orgId}/api-keys",
        "DELETE /v1/orgs/{orgId}/api-keys/{id}",
        "POST /v1/orgs/{orgId}/webhooks/create",
        "POST /v1/orgs/{orgId}/ssh-keys/create",
    }
    assumed = {
        "GET /v1/orgs/{orgId}/webhooks",
        "DELETE /v1/orgs/{orgId}/webhooks/{id}",
        "POST /v1/orgs/{orgId}/webhooks/{id}/toggle",
        "POST /v1/orgs/{orgId}/webhooks/{id}/regenerate-secret",
        "GET /v1/orgs/{orgId}/webhooks/{id}/deliveries",
        "GET /v1/orgs/{orgId}/ssh-keys",
        "DELETE /v1/orgs/{orgId}/ssh-keys/{id}",
    }
    assert documented | assumed | {"POST /_localcloud/clock", "GET /_localcloud/export"} <= set(operations)
    assert not [name for name in documented if operations[name].get("x-assumed")]
    assert all(operations[name]["x-assumed"] is True for name in assumed)


async def test_openapi_has_the_bodies_of_requests(server: Server) -> None:
    document = (await request("GET", server.url + "/openapi.json")).body
    operation = described(document)["POST /v1/orgs/{orgId}/webhooks/create"]
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert sorted(schema["required"]) == ["name", "url"]
    assert set(schema["properties"]) == {"name", "url", "events"}
    toggle = described(document)["POST /v1/orgs/{orgId}/webhooks/{id}/toggle"]
    assert toggle["requestBody"]["required"] is False


async def test_openapi_says_what_answers_always_have_and_what_may_be_null(server: Server) -> None:
    document = (await request("GET", server.url + "/openapi.json")).body
    schemas = document["components"]["schemas"]
    assert schemas["CreatedResource"]["required"] == ["id", "name", "status"]
    assert schemas["ErrorBody"]["required"] == ["error", "code"]
    assert set(schemas["VmRecord"]["properties"]) - set(schemas["VmRecord"]["required"]) == {
        "gpuModelId",
        "gpuModelName",
        "imageUrl",
        "provisioningStage",
        "statusReason",
    }
    assert schemas["VmRecord"]["properties"]["gpuCount"]["type"] == "integer"
    balance = schemas["Balance"]["properties"]
    assert balance["minDepositCents"]["type"] == "integer"
    assert {"type": "null"} in balance["monthlySpendLimitCents"]["anyOf"]
    line = schemas["BillingBreakdownItem"]["properties"]
    assert [name for name in line if {"type": "null"} in line[name].get("anyOf", ())] == [
        "resourceId",  # null with the kind in the line of all runs that are not shown
        "kind",
        "gpuModelId",
    ]


async def test_every_reference_in_openapi_leads_somewhere(server: Server) -> None:
    document = (await request("GET", server.url + "/openapi.json")).body
    named = {text.partition('"')[0] for text in json.dumps(document).split('"$ref": "')[1:]}
    assert named
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert named <= schemas


def test_every_endpoint_runs_on_the_thread_of_the_event_loop() -> None:
    routers = (*ROUTERS, *LIST_VMS_ROUTERS, *CONTROL_ROUTERS)
    endpoints = [route.endpoint for router in routers for route in router.routes]
    assert len(endpoints) > 40
    in_one_transaction = [each for each in endpoints if signature(each).parameters.get("tx") is not None]
    assert [each for each in endpoints if iscoroutinefunction(each) is (each in in_one_transaction)] == []

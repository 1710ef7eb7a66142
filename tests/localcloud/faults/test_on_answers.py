"""Faults inside operations: reads as of a while ago, prices other than the quote (settled details, "Faults")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.workloads import act, new_pod, own_node, status, usage

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

pytestmark = pytest.mark.usefixtures("no_faults_left")

READ = "GET /v1/vms/{id}"
LIST = "GET /v1/orgs/{orgId}/clusters"


async def fault(server: Server, operation: str, effect: dict[str, Any], **more: Any) -> Any:
    return await server.ok("POST", "/faults", {"operation": operation, "effect": effect, **more})


async def test_a_stale_read_answers_as_of_then(organization: Organization) -> None:
    server = organization.server
    await fault(server, READ, {"staleSeconds": 10})
    pod = await new_pod(organization)
    path = f"/v1/vms/{pod['id']}"
    assert (await organization.call("GET", path)).refusal == (404, "not_found")
    await server.advance(9.999)
    assert (await organization.call("GET", path)).refusal == (404, "not_found")
    await server.advance(0.001)
    assert await organization.ok("GET", path) == pod
    await server.advance(2)
    assert await status(organization, pod["id"]) == "running"
    await act(organization, pod["id"], "terminate")
    assert await status(organization, pod["id"]) == "running"
    await server.advance(10)
    assert await status(organization, pod["id"]) == "terminated"


async def test_a_stale_read_knows_what_happened_since_a_fault_reads_the_past(organization: Organization) -> None:
    first = await keep_the_past(organization.server)
    await keep_the_past(organization.server)
    pod = await new_pod(organization)
    await organization.server.advance(5)
    await organization.server.ok("DELETE", f"/faults/{first}")
    await fault(organization.server, READ, {"staleSeconds": 4}, count=1)
    assert await status(organization, pod["id"]) == "deploying"
    assert await status(organization, pod["id"]) == "running"


async def test_what_happened_before_such_a_fault_is_not_kept(organization: Organization) -> None:
    pod = await new_pod(organization)
    await organization.server.advance(5)
    await fault(organization.server, READ, {"staleSeconds": 4})
    assert await status(organization, pod["id"]) == "running"


async def test_what_was_kept_goes_with_the_last_such_fault(organization: Organization) -> None:
    kept = await keep_the_past(organization.server)
    pod = await new_pod(organization)
    await organization.server.advance(5)
    await organization.server.ok("DELETE", f"/faults/{kept}")
    await fault(organization.server, READ, {"staleSeconds": 4})
    assert await status(organization, pod["id"]) == "running"


async def test_a_stale_list_lacks_what_is_new_and_has_what_is_gone(organization: Organization) -> None:
    old = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "old"})
    await organization.server.advance(60)
    await fault(organization.server, LIST, {"staleSeconds": 30})
    await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "new"})
    await organization.ok("POST", f"/v1/clusters/{old['id']}/terminate")
    listed = await organization.ok("GET", "/v1/orgs/{org}/clusters")
    assert [(item["name"], item["status"]) for item in listed["items"]] == [("old", "running")]
    await organization.server.advance(30)
    listed = await organization.ok("GET", "/v1/orgs/{org}/clusters")
    assert [item["name"] for item in listed["items"]] == ["new"]


async def test_stale_reads_of_capacity_money_and_webhooks_are_of_then_too(organization: Organization) -> None:
    await own_node(organization)
    webhook = {"name": "w", "url": "http://127.0.0.1:9/"}
    created = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", webhook)
    await keep_the_past(organization.server)
    await organization.server.advance(60)
    paths = (
        "/v1/pods/capacity",
        "/v1/gpu-availability",
        "/v1/orgs/{org}/billing/balance",
        "/v1/orgs/{org}/billing/usage",
        "/v1/orgs/{org}/webhooks",
        "/v1/orgs/{org}/provider/nodes",
        "/v1/orgs/{org}/provider/stats",
    )
    before = [await organization.ok("GET", path) for path in paths]
    await new_pod(organization)
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/webhooks/{created['id']}")
    await organization.server.advance(30)
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 7})
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", webhook)
    after = [await organization.ok("GET", path) for path in paths]
    assert all(a != b for a, b in zip(after, before, strict=True))
    for path in paths:
        await fault(organization.server, f"GET {path.replace('{org}', '{orgId}')}", {"staleSeconds": 31})
    assert [await organization.ok("GET", path) for path in paths] == before


async def test_a_stale_log_lacks_what_is_new(organization: Organization) -> None:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "v", "cloudInit": "#!/bin/sh"})
    await keep_the_past(organization.server)
    await organization.server.advance(60)
    path = f"/v1/vms/{vm['id']}/logs"
    before = (await organization.call("GET", path)).raw
    await act(organization, vm["id"], "restart")
    await organization.server.advance(30)
    assert (await organization.call("GET", path)).raw.startswith(before + b"2")
    await fault(organization.server, "GET /v1/vms/{id}/logs", {"staleSeconds": 31})
    assert (await organization.call("GET", path)).raw == before


async def test_only_the_reads_that_a_fault_names_are_stale(organization: Organization) -> None:
    await fault(organization.server, LIST, {"staleSeconds": 30})
    cluster = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "c"})
    assert (await organization.ok("GET", f"/v1/clusters/{cluster['id']}"))["id"] == cluster["id"]
    clash = await organization.call("POST", "/v1/orgs/{org}/clusters/create", {"name": "c"})
    assert clash.refusal == (409, "conflict")


async def test_an_imported_state_has_no_past(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await keep_the_past(server)
    pod = await new_pod(server.seeded())
    await server.ok("POST", "/import", await server.ok("GET", "/export"))
    await fault(server, READ, {"staleSeconds": 30})
    assert await status(server.seeded(), pod["id"]) == "deploying"


@pytest.mark.usefixtures("early_in_a_month")
@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("POST /v1/pods", {"image": "a", "gpuModelId": "h100", "gpuCount": 2}),
        ("POST /v1/orgs/{orgId}/vms/create", {"name": "v", "gpuModelId": "h100", "gpuCount": 2}),
        ("POST /v1/orgs/{orgId}/clusters/create", {"name": "c", "gpuModelId": "h100", "gpusPerReplica": 2}),
    ],
)
async def test_another_price_than_the_quote_is_locked_and_billed(
    organization: Organization, operation: str, body: dict[str, Any]
) -> None:
    await own_node(organization)
    quote = (await organization.ok("GET", "/v1/pricing"))["gpu"][0]["pricePerHourCents"] * 2
    await fault(organization.server, operation, {"priceFactor": 3}, count=1)
    made = await organization.ok("POST", operation.removeprefix("POST ").replace("{orgId}", "{org}"), body)
    await organization.server.advance(2)
    if "clusters" not in operation:
        assert (await organization.ok("GET", f"/v1/vms/{made['id']}"))["pricePerHourCents"] == quote * 3
    assert (await usage(organization))["burnPerHourCents"] == quote * 3
    await organization.server.advance(3600)
    assert (await usage(organization))["usageCents"] == quote * 3


@pytest.mark.parametrize(
    ("operation", "effect"),
    [
        (READ, {"staleSeconds": 0}),
        (READ, {"staleSeconds": "9"}),
        (READ, {"priceFactor": 2}),
        ("GET /v1/orgs/{orgId}/quotas", {"staleSeconds": 9}),
        ("POST /v1/pods", {"staleSeconds": 9}),
        ("POST /v1/pods", {"priceFactor": -1}),
        ("POST /v1/vms/{id}/restart", {"priceFactor": 2}),
    ],
)
async def test_effects_that_an_operation_cannot_have_are_400(
    server: Server, operation: str, effect: dict[str, Any]
) -> None:
    answer = await server.control("POST", "/faults", {"operation": operation, "effect": effect})
    assert answer.refusal == (400, "invalid_request")


async def test_an_operation_is_known_whatever_its_path_parameters_are_called(organization: Organization) -> None:
    made = await fault(organization.server, "GET /v1/vms/{vmId}", {"status": 500})
    assert made["operation"] == READ
    assert (await organization.call("GET", "/v1/vms/any")).status == 500


async def test_the_value_of_a_header_may_be_a_number(organization: Organization) -> None:
    await fault(organization.server, READ, {"status": 429, "headers": {"Retry-After": 7}})
    answer = await organization.call("GET", "/v1/vms/any")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


async def test_a_length_that_a_fault_claims_does_not_break_the_answer(organization: Organization) -> None:
    await fault(organization.server, READ, {"status": 500, "headers": {"Content-Length": "3"}})
    assert (await organization.call("GET", "/v1/vms/any")).refusal == (500, "internal")

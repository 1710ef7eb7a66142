"""Which workload a request reaches, and what is answered where none does: section 2, "VM", endpoint URL forms."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.localcloud.support import clusters
from tests.localcloud.support.gateway import Workload, connection, endpoint, refusal_of, running
from tests.localcloud.support.pods import in_state
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import UNTIL_RUNNING, act, happens, own_node, status

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization


async def test_a_running_pod_answers_at_its_endpoint_url(organization: Organization) -> None:
    workload = await running(organization)
    answer = await workload.call("POST", "/some/path?q=1&q=2", raw=b"a body")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    seen = answer.body
    assert sorted(seen) == ["body", "headers", "method", "path"]
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/some/path?q=1&q=2", "a body")
    assert seen["headers"]["host"] == workload.host
    assert workload.host.endswith(f".localhost:{urlsplit(workload.gateway).port}")


async def test_the_same_is_at_its_id_where_names_cannot_be_resolved(organization: Organization) -> None:
    workload = await running(organization)
    key = organization.api_key
    for path, seen_path in (("/a?b=c", "/a?b=c"), ("/", "/"), ("", "/"), ("?b=c", "/?b=c"), ("//a/../b", "//a/../b")):
        async with connection(workload) as (reader, writer):
            line = f"GET /_w/{workload.id}{path} HTTP/1.1\r\nHost: anything\r\nx-api-key: {key}\r\n\r\n"
            writer.write(line.encode())
            answer = await reader.readuntil(b'"body": ""}')
        assert f'"path": "{seen_path}"'.encode() in answer
        assert f'"x-forwarded-prefix": "/_w/{workload.id}"'.encode() in answer


async def test_hosts_are_names_in_any_spelling(organization: Organization) -> None:
    workload = await running(organization)
    name = workload.host.partition(":")[0]
    for host in (name, name.upper(), f"{name}.", f"{name}:80"):
        assert (
            await workload.call("GET", "/", headers={"Host": host, "x-api-key": organization.api_key})
        ).status == 200


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("unknown.localhost", "/"),
        ("unknown.localhost", "/_w/{id}/"),
        ("localhost", "/"),
        ("example.com", "/"),
        ("80-{label}.localhost", "/"),
        ("x.{label}.localhost", "/"),
        ("", "/"),
        ("127.0.0.1", "/_w/pod_unknown/"),
        ("127.0.0.1", "/_w/"),
        ("127.0.0.1", "/_w"),
        ("127.0.0.1", "/{id}/"),
    ],
)
async def test_where_no_workload_is_named_the_answer_is_404(organization: Organization, host: str, path: str) -> None:
    workload = await running(organization, public=True)
    named = {"id": workload.id, "label": workload.host.partition(".")[0]}
    answer = await workload.call("GET", path.format(**named), headers={"Host": host.format(**named)})
    assert answer.refusal == (404, "not_found")


@pytest.mark.parametrize("state", ["deploying", "stopping", "stopped", "failed", "interrupted"])
async def test_a_workload_that_does_not_run_is_503_in_words(organization: Organization, state: str) -> None:
    node = await own_node(organization)
    workload = await endpoint(organization, await in_state(organization, node, state))
    answer = await workload.call("GET", "/")
    assert answer.refusal == (503, "workload_not_running")
    assert f"is {state}" in answer.body["error"]
    assert (await workload.call("GET", "/", headers={})).refusal == (401, "unauthorized")


async def test_a_vm_that_starts_is_503_with_the_status_of_its_record(organization: Organization) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box"})
    answer = await (await endpoint(organization, made["id"])).call("GET", "/")
    assert f"is {await status(organization, made['id'])}:" in answer.body["error"]


async def test_an_endpoint_follows_its_workload_from_start_to_end(organization: Organization) -> None:
    workload = await running(organization)

    async def status() -> int:
        return (await workload.call("GET", "/")).status

    assert await status() == 200
    await act(organization, workload.id, "stop")
    assert await status() == 503
    await organization.server.advance(1)
    await act(organization, workload.id, "restart")
    assert await status() == 503
    await organization.server.advance(UNTIL_RUNNING)
    assert await status() == 200
    await act(organization, workload.id, "terminate")
    assert await status() == 404


async def test_a_production_vm_answers_at_every_port_of_its_own_form_alone(organization: Organization) -> None:
    await own_node(organization)
    fields = {"name": "prod", "gpuModelId": "h100", "tier": "production", "containerPort": 8080}
    made = await organization.ok("POST", "/v1/orgs/{org}/vms/create", fields)
    await organization.server.advance(UNTIL_RUNNING)
    workload = await endpoint(organization, made["id"])
    assert workload.host.startswith("8080-vm-")
    bare = workload.host.removeprefix("8080-")
    statuses = {}
    for host in (workload.host, f"1-{bare}", f"65535-{bare}", f"0-{bare}", f"65536-{bare}", f"080-{bare}", bare):
        own = Workload(organization, workload.id, host)
        statuses[host.removesuffix(bare)] = (await own.call("GET", "/")).status
    assert statuses == {"8080-": 200, "1-": 200, "65535-": 200, "0-": 404, "65536-": 404, "080-": 404, "": 404}
    by_id = await request("GET", f"{workload.gateway}/_w/{workload.id}/", key=organization.api_key)
    assert by_id.status == 200


async def test_a_cluster_answers_while_a_replica_is_healthy(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await clusters.running(organization, replicaCount=2)
    url = (await clusters.summary(organization, cluster_id))["endpointUrl"]
    workload = Workload(organization, cluster_id, urlsplit(url).netloc)
    assert (await workload.call("GET", "/")).status == 200
    one, _ = await clusters.replicas(organization, cluster_id)
    await happens(organization, cluster_id, "unhealthy", replicaId=one["id"])
    assert (await workload.call("GET", "/")).status == 200
    await happens(organization, cluster_id, "unhealthy")
    answer = await workload.call("GET", "/")
    assert answer.refusal == (503, "workload_not_running")
    assert "has no healthy replica" in answer.body["error"]
    await happens(organization, cluster_id, "healthy")
    assert (await workload.call("GET", "/")).status == 200
    await clusters.act(organization, cluster_id, "stop")
    assert (await workload.call("GET", "/")).status == 503


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_400_in_the_gateways_own_shape(organization: Organization, sent: bytes) -> None:
    workload = await running(organization)
    async with connection(workload) as (reader, writer):
        writer.write(sent)
        assert await refusal_of(reader) == (400, "invalid_request")
        assert await reader.read() == b""

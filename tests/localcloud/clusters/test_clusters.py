"""Clusters as they are created, answered and listed: sections 2 and 4, "Cluster"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.clusters import act, create, detail, refused, replicas, running, status, summary
from tests.localcloud.support.workloads import DAY, UNTIL_RUNNING, own_node, set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


# What is answered.


async def test_a_cluster_is_provisioning_then_running(organization: Organization) -> None:
    await own_node(organization)
    created = await create(organization, replicaCount=2)
    assert (created["name"], created["status"]) == ("llm", "provisioning")
    await organization.server.advance(UNTIL_RUNNING)
    shown = await summary(organization, created["id"])
    assert shown.pop("createdAt").endswith("Z")
    assert shown.pop("endpointUrl").startswith("http://")
    assert shown == {
        "id": created["id"],
        "organizationId": organization.id,
        "name": "llm",
        "status": "running",
        "activeReplicas": 2,
        "replicaCount": 2,
        "gpuModelId": "h100",
    }


async def test_the_detail_has_every_required_field_and_what_was_asked_for(organization: Organization) -> None:
    await own_node(organization)
    asked = {
        "tier": "standard",
        "replicaCount": 1,
        "gpusPerReplica": 2,
        "imageUrl": "vllm/vllm-openai:latest",
        "containerPort": 8000,
        "preferredRegions": ["eu-west"],
        "allowFallback": False,
        "envVars": {"MODEL": "m"},
        "healthChecks": ["http"],
        "healthCheckPath": "/health",
        "healthCheckPort": 8001,
        "diskSizeGb": 100,
        "privileged": True,
    }
    cluster_id = await running(organization, **asked)
    shown = await detail(organization, cluster_id)
    required = ["id", "organizationId", "name", "status", "resourceSize", "replicas", "createdAt", "updatedAt"]
    assert set(required) <= set(shown)
    assert {key: shown[key] for key in asked} == asked
    assert shown["gpuModel"] == {
        "id": "h100",
        "name": "NVIDIA H100 SXM 80GB",
        "memoryGb": 80,
        "pricePerHourCents": 249,
    }
    assert shown["deployToken"]


async def test_replicas_have_every_required_field(organization: Organization) -> None:
    node = await own_node(organization)
    cluster_id = await running(organization, gpusPerReplica=2)
    [replica] = await replicas(organization, cluster_id)
    assert replica["gpuCount"] == 2
    assert (replica["status"], replica["healthy"], replica["nvlinkEnabled"]) == ("healthy", True, True)
    assert (replica["nodeId"], replica["nodeRegion"]) == (node, "eu-west")
    assert replica["createdAt"] < replica["startedAt"]
    assert replica["id"]


async def test_a_cluster_needs_a_name_only(organization: Organization) -> None:
    created = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "small"})
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, created["id"])
    assert (shown["status"], shown["replicaCount"], shown["gpusPerReplica"]) == ("running", 1, 0)
    assert (shown["resourceSize"], shown["tier"], shown["privileged"]) == ("small", "standard", False)


@pytest.mark.parametrize(
    ("fields", "answered"),
    [
        ({"name": ""}, 400),
        ({"name": "n" * 64}, 400),
        ({"replicaCount": 0}, 400),
        ({"replicaCount": "2"}, 400),
        ({"replicaCount": 1001}, 400),
        ({"diskSizeGb": 0}, 400),
        ({"gpusPerReplica": 0}, 400),
        ({"gpuModelId": None, "gpusPerReplica": -1}, 400),
        ({"containerPort": 0}, 400),
        ({"tier": "gold"}, 400),
        ({"gpuModelId": "h9000"}, 422),
        ({"gpusPerReplica": 9}, 422),
        ({"templateId": "none"}, 422),
        ({"registryCredentialId": "none"}, 422),
        ({"gpuModelId": None, "resourceSize": "huge"}, 422),
        ({"resourceSize": "huge"}, 422),
        ({"preferredRegions": ["atlantis"], "allowFallback": False}, 422),
    ],
)
async def test_bad_requests_are_refused(organization: Organization, fields: dict[str, object], answered: int) -> None:
    await own_node(organization)
    assert (await refused(organization, **fields))[0] == answered


async def test_a_refusal_names_the_field_that_was_sent(organization: Organization) -> None:
    await own_node(organization)
    body = {"name": "llm", "gpuModelId": "h100", "gpusPerReplica": 9}
    answer = await organization.call("POST", "/v1/orgs/{org}/clusters/create", body)
    assert answer.refusal == (422, "GPU_COUNT_NOT_PLACEABLE")
    assert answer.body["error"].startswith("gpusPerReplica: ")


async def test_names_are_unique_among_live_clusters(organization: Organization) -> None:
    await own_node(organization)
    first = await create(organization)
    assert (await refused(organization))[0] == 409
    await act(organization, first["id"], "terminate")
    await create(organization)


async def test_no_funds_no_cluster(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=0)
    assert await refused(organization) == (402, "INSUFFICIENT_BALANCE")


async def test_a_cluster_of_another_organization_is_not_found(server: Server, organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    other = await server.organization()
    assert (await other.call("GET", f"/v1/clusters/{cluster_id}")).refusal == (404, "not_found")
    assert (await other.call("GET", f"/v1/clusters/{cluster_id}/detail")).refusal == (404, "not_found")
    assert (await other.call("POST", f"/v1/clusters/{cluster_id}/terminate")).refusal == (404, "not_found")
    assert (await other.call("GET", f"/v1/orgs/{organization.id}/clusters")).refusal[0] == 403


# Pages.


async def test_pages_are_newest_first_and_end_without_a_cursor(organization: Organization) -> None:
    names = [f"c{number}" for number in range(5)]
    for name in names:
        await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": name})
    seen: list[str] = []
    query = "limit=2"
    for _ in range(3):
        page = await organization.ok("GET", f"/v1/orgs/{{org}}/clusters?{query}")
        seen += [item["name"] for item in page["items"]]
        query = f"limit=2&cursor={page.get('nextCursor')}"
    assert "nextCursor" not in page
    assert seen == names[::-1]


async def test_pages_stay_stable_while_clusters_come_and_go(organization: Organization) -> None:
    ids = []
    for number in range(4):
        made = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": f"c{number}"})
        ids.append(made["id"])
    page = await organization.ok("GET", "/v1/orgs/{org}/clusters?limit=2")
    await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "late"})
    await act(organization, ids[2], "terminate")
    page = await organization.ok("GET", f"/v1/orgs/{{org}}/clusters?limit=2&cursor={page['nextCursor']}")
    assert [item["id"] for item in page["items"]] == [ids[1], ids[0]]


async def test_a_page_has_50_unless_asked_otherwise_and_at_most_200(organization: Organization) -> None:
    for number in range(51):
        await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": f"c{number}"})
    assert len((await organization.ok("GET", "/v1/orgs/{org}/clusters"))["items"]) == 50
    assert len((await organization.ok("GET", "/v1/orgs/{org}/clusters?limit=200"))["items"]) == 51


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=-1", "cursor=abc", "cursor=%00"])
async def test_bad_pages_are_400(organization: Organization, query: str) -> None:
    assert (await organization.call("GET", f"/v1/orgs/{{org}}/clusters?{query}")).refusal[0] == 400


async def test_the_cursor_of_another_organization_is_400(server: Server, organization: Organization) -> None:
    for name in ("a", "b"):
        await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": name})
    page = await organization.ok("GET", "/v1/orgs/{org}/clusters?limit=1")
    other = await server.organization()
    answer = await other.call("GET", f"/v1/orgs/{{org}}/clusters?cursor={page['nextCursor']}")
    assert answer.refusal[0] == 400


async def test_terminated_clusters_leave_the_list_at_once_and_are_answered_for_a_day(
    organization: Organization,
) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await act(organization, cluster_id, "terminate")
    assert (await organization.ok("GET", "/v1/orgs/{org}/clusters"))["items"] == []
    assert await status(organization, cluster_id) == "terminated"
    await organization.server.advance(DAY)
    assert (await organization.call("GET", f"/v1/clusters/{cluster_id}")).refusal == (404, "not_found")

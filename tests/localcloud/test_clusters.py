"""Clusters: sections 2 and 4, "Cluster", and "Clusters" of the settled details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.localcloud.support.workloads import (
    DAY,
    GRACE,
    UNTIL_RUNNING,
    happens,
    own_node,
    received,
    remove_shared_nodes,
    set_node,
    set_organization,
    spent,
    subscribe,
    usage,
)

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

HOUR = 3600


@pytest_asyncio.fixture
async def organization(server: Server) -> Organization:
    """An organization without any node: each test brings in what it needs."""
    await remove_shared_nodes(server)
    return await server.organization()


async def create(organization: Organization, **fields: object) -> Any:
    body = {"name": "llm", "gpuModelId": "h100", "imageUrl": "vllm/vllm-openai:latest", **fields}
    return await organization.ok("POST", "/v1/orgs/{org}/clusters/create", body)


async def refused(organization: Organization, **fields: object) -> tuple[int, str]:
    body = {"name": "llm", "gpuModelId": "h100", **fields}
    return (await organization.call("POST", "/v1/orgs/{org}/clusters/create", body)).refusal


async def running(organization: Organization, **fields: object) -> str:
    cluster = await create(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    assert (await summary(organization, cluster["id"]))["status"] == "running"
    return str(cluster["id"])


async def summary(organization: Organization, cluster_id: str) -> Any:
    return await organization.ok("GET", f"/v1/clusters/{cluster_id}")


async def detail(organization: Organization, cluster_id: str) -> Any:
    return await organization.ok("GET", f"/v1/clusters/{cluster_id}/detail")


async def replicas(organization: Organization, cluster_id: str) -> list[Any]:
    shown: list[Any] = (await detail(organization, cluster_id))["replicas"]
    return shown


async def act(organization: Organization, cluster_id: str, action: str, body: object | None = None) -> Any:
    return await organization.ok("POST", f"/v1/clusters/{cluster_id}/{action}", {} if body is None else body)


async def status(organization: Organization, cluster_id: str) -> str:
    return str((await summary(organization, cluster_id))["status"])


async def burn(organization: Organization) -> int:
    return int((await usage(organization))["burnPerHourCents"])


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
        ({"gpusPerReplica": 0}, 400),
        ({"containerPort": 0}, 400),
        ({"tier": "gold"}, 400),
        ({"gpuModelId": "h9000"}, 422),
        ({"gpusPerReplica": 9}, 422),
        ({"templateId": "none"}, 422),
        ({"registryCredentialId": "none"}, 422),
        ({"gpuModelId": None, "resourceSize": "huge"}, 422),
    ],
)
async def test_bad_requests_are_refused(organization: Organization, fields: dict[str, object], answered: int) -> None:
    await own_node(organization)
    assert (await refused(organization, **fields))[0] == answered


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


# Capacity.


async def test_without_any_room_it_is_refused_with_the_capacity_code(organization: Organization) -> None:
    await own_node(organization, count=2)
    await create(organization, gpusPerReplica=2)
    answer = await organization.call("POST", "/v1/orgs/{org}/clusters/create", {"name": "second", "gpuModelId": "h100"})
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0
    assert [item["name"] for item in (await organization.ok("GET", "/v1/orgs/{org}/clusters"))["items"]] == ["llm"]


async def test_with_some_room_it_is_degraded_until_the_rest_finds_room(
    organization: Organization, receiver: Receiver
) -> None:
    await own_node(organization, count=2)
    await subscribe(organization, receiver)
    cluster_id = (await create(organization, replicaCount=3))["id"]
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], len(shown["replicas"])) == ("degraded", 2)
    assert "1 more (1 x h100 each)" in shown["statusReason"]
    await own_node(organization, count=1)
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], len(shown["replicas"])) == ("running", 3)
    assert "statusReason" not in shown
    events = await received(receiver, lambda events: len(events) == 5)
    of_cluster = [event["type"] for event in events if event["type"].startswith("cluster.")]
    assert of_cluster == ["cluster.degraded", "cluster.running"]


async def test_what_another_workload_frees_is_given_to_who_waits(organization: Organization) -> None:
    await own_node(organization, count=2)
    pod = await organization.ok("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    cluster_id = (await create(organization, replicaCount=2))["id"]
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "degraded"
    await organization.ok("POST", f"/v1/vms/{pod['id']}/terminate")
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"


async def test_the_oldest_that_waits_is_served_first(organization: Organization) -> None:
    await own_node(organization, count=2)
    first = (await create(organization, name="first", replicaCount=2, gpusPerReplica=2))["id"]
    await own_node(organization, count=1)
    second = (await create(organization, name="second", replicaCount=2))["id"]
    await own_node(organization, count=2)
    await organization.server.advance(UNTIL_RUNNING)
    assert [await status(organization, cluster_id) for cluster_id in (first, second)] == ["running", "degraded"]
    await act(organization, first, "terminate")
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, second) == "running"


async def test_scale_without_any_room_is_refused_with_the_capacity_code(organization: Organization) -> None:
    await own_node(organization, count=1)
    cluster_id = await running(organization)
    answer = await organization.call("POST", f"/v1/clusters/{cluster_id}/scale", {"replicaCount": 2})
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    shown = await summary(organization, cluster_id)
    assert (shown["status"], shown["replicaCount"]) == ("running", 1)


async def test_replicas_are_spread_over_nodes_as_whole_units(organization: Organization) -> None:
    for _ in range(2):
        await own_node(organization, count=3)
    cluster_id = await running(organization, replicaCount=2, gpusPerReplica=2)
    assert len({replica["nodeId"] for replica in await replicas(organization, cluster_id)}) == 2


# Scale.


async def test_scale_up_keeps_running_while_the_new_ones_start(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await act(organization, cluster_id, "scale", {"replicaCount": 3})
    shown = await summary(organization, cluster_id)
    assert (shown["status"], shown["activeReplicas"], shown["replicaCount"]) == ("running", 1, 3)
    await organization.server.advance(UNTIL_RUNNING)
    assert (await summary(organization, cluster_id))["activeReplicas"] == 3


async def test_scale_down_frees_the_youngest_at_once(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=3)
    before = [replica["id"] for replica in await replicas(organization, cluster_id)]
    await act(organization, cluster_id, "scale", {"replicaCount": 1})
    assert [replica["id"] for replica in await replicas(organization, cluster_id)] == before[:1]
    assert await burn(organization) == 249


async def test_scale_down_gives_up_what_is_unhealthy_first(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    sick, well = [replica["id"] for replica in await replicas(organization, cluster_id)]
    await happens(organization, cluster_id, "unhealthy", replicaId=sick)
    await act(organization, cluster_id, "scale", {"replicaCount": 1})
    assert [replica["id"] for replica in await replicas(organization, cluster_id)] == [well]
    assert await status(organization, cluster_id) == "running"


@pytest.mark.parametrize("body", [{"replicaCount": 0}, {"replicaCount": -1}, {"replicaCount": "2"}, {}])
async def test_scale_to_what_is_no_count_is_400(organization: Organization, body: dict[str, object]) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    assert (await organization.call("POST", f"/v1/clusters/{cluster_id}/scale", body)).refusal[0] == 400


async def test_scale_beyond_room_is_degraded_where_some_fit(organization: Organization) -> None:
    await own_node(organization, count=2)
    cluster_id = await running(organization)
    shown = await act(organization, cluster_id, "scale", {"replicaCount": 4})
    assert (shown["status"], shown["replicaCount"]) == ("degraded", 4)
    shown = await act(organization, cluster_id, "scale", {"replicaCount": 1})
    assert shown["status"] == "running"


# Stop, restart, terminate.


async def test_stop_releases_and_restart_starts_again(organization: Organization, receiver: Receiver) -> None:
    await own_node(organization, count=2)
    cluster_id = await running(organization, replicaCount=2)
    await subscribe(organization, receiver)
    assert (await act(organization, cluster_id, "stop"))["status"] == "stopping"
    assert await burn(organization) == 0
    await organization.server.advance(1)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], shown["replicas"], shown["replicaCount"]) == ("stopped", [], 2)
    assert receiver.types == ["replica.terminated"] * 2
    assert (await act(organization, cluster_id, "restart"))["status"] == "provisioning"
    await organization.server.advance(UNTIL_RUNNING)
    assert (await summary(organization, cluster_id))["activeReplicas"] == 2


@pytest.mark.parametrize(
    ("state", "action", "answered"),
    [
        ("provisioning", "restart", 409),
        ("stopping", "stop", 200),
        ("stopping", "restart", 409),
        ("stopping", "scale", 409),
        ("stopped", "stop", 200),
        ("stopped", "scale", 409),
        ("failed", "stop", 409),
        ("failed", "scale", 409),
        ("terminated", "stop", 409),
        ("terminated", "restart", 409),
        ("terminated", "scale", 409),
        ("terminated", "terminate", 200),
    ],
)
async def test_actions_that_change_no_status(
    organization: Organization, state: str, action: str, answered: int
) -> None:
    await own_node(organization)
    cluster_id = (await create(organization))["id"]
    if state != "provisioning":
        await organization.server.advance(UNTIL_RUNNING)
    if state in {"stopping", "stopped"}:
        await act(organization, cluster_id, "stop")
    if state == "stopped":
        await organization.server.advance(1)
    if state == "failed":
        await happens(organization, cluster_id, "fail")
    if state == "terminated":
        await act(organization, cluster_id, "terminate")
    answer = await organization.call("POST", f"/v1/clusters/{cluster_id}/{action}", {"replicaCount": 2})
    assert answer.status == answered
    assert await status(organization, cluster_id) == state


async def test_restart_of_a_degraded_cluster_starts_its_unhealthy_replicas_afresh(
    organization: Organization,
) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    sick = (await replicas(organization, cluster_id))[0]["id"]
    await happens(organization, cluster_id, "unhealthy", replicaId=sick)
    assert (await act(organization, cluster_id, "restart"))["status"] == "degraded"
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"
    assert {replica["id"] for replica in await replicas(organization, cluster_id)} >= {sick}


async def test_terminate_ends_it_at_once(organization: Organization) -> None:
    await own_node(organization, count=1)
    cluster_id = await running(organization)
    assert (await act(organization, cluster_id, "terminate"))["status"] == "terminated"
    assert await burn(organization) == 0
    await create(organization, name="next")


# Health and nodes.


async def test_an_unhealthy_replica_degrades_and_a_healthy_one_mends(
    organization: Organization, receiver: Receiver
) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    await subscribe(organization, receiver)
    sick = (await replicas(organization, cluster_id))[0]["id"]
    await happens(organization, cluster_id, "unhealthy", replicaId=sick)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "degraded"
    assert sick in shown["statusReason"]
    seen = {replica["id"]: (replica["status"], replica["healthy"]) for replica in shown["replicas"]}
    assert seen.pop(sick) == ("unhealthy", False)
    assert list(seen.values()) == [("healthy", True)]
    await happens(organization, cluster_id, "healthy", replicaId=sick)
    assert await status(organization, cluster_id) == "running"
    events = await received(receiver, lambda events: len(events) == 4)
    assert sorted(event["type"] for event in events) == [
        "cluster.degraded",
        "cluster.running",
        "replica.healthy",
        "replica.unhealthy",
    ]
    assert all(event["data"]["clusterId"] == cluster_id for event in events)
    of_replicas = [event["data"]["replicaId"] for event in events if event["type"].startswith("replica.")]
    assert of_replicas == [sick, sick]


async def test_all_unhealthy_is_degraded_and_failed_after_the_grace(
    organization: Organization, receiver: Receiver
) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    await subscribe(organization, receiver)
    await happens(organization, cluster_id, "unhealthy")
    await organization.server.advance(GRACE - 1)
    assert await status(organization, cluster_id) == "degraded"
    await organization.server.advance(1)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "failed"
    assert shown["statusReason"]
    assert await burn(organization) == 0
    assert receiver.types.count("cluster.failed") == 1
    await act(organization, cluster_id, "restart")
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"


async def test_all_unhealthy_but_one_mended_in_time_does_not_fail(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    await happens(organization, cluster_id, "unhealthy")
    await organization.server.advance(GRACE - 1)
    mended = (await replicas(organization, cluster_id))[0]["id"]
    await happens(organization, cluster_id, "healthy", replicaId=mended)
    await organization.server.advance(HOUR)
    assert await status(organization, cluster_id) == "degraded"


async def test_a_terminated_replica_is_replaced(organization: Organization, receiver: Receiver) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=2)
    await subscribe(organization, receiver)
    gone, stays = [replica["id"] for replica in await replicas(organization, cluster_id)]
    await happens(organization, cluster_id, "terminateReplica", replicaId=gone)
    await organization.server.advance(UNTIL_RUNNING)
    ids = [replica["id"] for replica in await replicas(organization, cluster_id)]
    assert (len(ids), stays in ids, gone in ids) == (2, True, False)
    assert receiver.types[0] == "replica.terminated"


async def test_replicas_of_a_silent_node_are_unhealthy_at_once_and_replaced_elsewhere_after_the_grace(
    organization: Organization, receiver: Receiver
) -> None:
    lost = await own_node(organization, count=1)
    await own_node(organization, count=4)
    cluster_id = await running(organization, replicaCount=2)
    assert {replica["nodeId"] for replica in await replicas(organization, cluster_id)} > {lost}
    await subscribe(organization, receiver)
    await set_node(organization, lost, reporting=False)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "degraded"
    assert sorted(replica["status"] for replica in shown["replicas"]) == ["healthy", "unhealthy"]
    assert await burn(organization) == 249
    await organization.server.advance(GRACE + UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "running"
    assert lost not in {replica["nodeId"] for replica in shown["replicas"]}
    assert len(shown["replicas"]) == 2
    assert sorted(receiver.types) == [
        "cluster.degraded",
        "cluster.running",
        "replica.healthy",
        "replica.terminated",
        "replica.unhealthy",
    ]


async def test_replicas_are_healthy_again_when_their_node_returns(organization: Organization) -> None:
    lost = await own_node(organization, count=1)
    await own_node(organization, count=1)
    cluster_id = await running(organization, replicaCount=2)
    before = [replica["id"] for replica in await replicas(organization, cluster_id)]
    await set_node(organization, lost, reporting=False)
    await organization.server.advance(GRACE)
    assert await status(organization, cluster_id) == "degraded", "there is no room elsewhere"
    await set_node(organization, lost, reporting=True)
    assert await status(organization, cluster_id) == "running"
    assert [replica["id"] for replica in await replicas(organization, cluster_id)] == before


async def test_a_lost_replica_is_replaced_as_soon_as_there_is_room(organization: Organization) -> None:
    lost = await own_node(organization, count=1)
    await own_node(organization, count=1)
    cluster_id = await running(organization, replicaCount=2)
    await set_node(organization, lost, reporting=False)
    await organization.server.advance(GRACE)
    await own_node(organization, count=1)
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], len(shown["replicas"])) == ("running", 2)


async def test_all_nodes_lost_and_none_left_fails_after_the_grace(organization: Organization) -> None:
    node = await own_node(organization)
    cluster_id = await running(organization)
    await set_node(organization, node, reporting=False)
    assert await status(organization, cluster_id) == "degraded"
    await organization.server.advance(GRACE)
    assert await status(organization, cluster_id) == "failed"


async def test_all_nodes_lost_is_survived_where_there_is_room(organization: Organization) -> None:
    node = await own_node(organization, count=2)
    cluster_id = await running(organization, replicaCount=2)
    await own_node(organization, count=2)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE + UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"


async def test_a_removed_node_moves_its_replicas_at_once(organization: Organization) -> None:
    node = await own_node(organization, count=1)
    cluster_id = await running(organization)
    await own_node(organization, count=1)
    await set_node(organization, node, removed=True)
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"
    assert node not in {replica["nodeId"] for replica in await replicas(organization, cluster_id)}


async def test_a_failed_cluster_says_why(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await happens(organization, cluster_id, "fail", reason="Image cannot be pulled.")
    shown = await detail(organization, cluster_id)
    assert (shown["status"], shown["statusReason"]) == ("failed", "Image cannot be pulled.")


# Money.


async def test_the_price_is_per_replica_that_runs(organization: Organization) -> None:
    await own_node(organization)
    await running(organization, replicaCount=2, gpusPerReplica=2)
    assert await burn(organization) == 4 * 249
    await organization.server.advance(HOUR)
    assert await spent(organization) == 4 * 249
    [item] = (await usage(organization))["breakdown"]
    assert (item["kind"], item["name"], item["gpuModelId"]) == ("cluster", "llm", "h100")


async def test_a_cluster_stops_when_the_balance_runs_out(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await set_organization(organization, balanceCents=0)
    await organization.server.advance(60)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "stopped"
    assert "balance" in shown["statusReason"]
    answer = await organization.call("POST", f"/v1/clusters/{cluster_id}/restart")
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")

"""Where replicas of deployments land, what happens without room, and when their nodes fail."""

from __future__ import annotations

from tests.localcloud.support.deployments import (
    DEPLOYMENTS,
    create,
    delete,
    get,
    running,
    try_change,
    try_create,
)
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import (
    GRACE,
    UNTIL_RUNNING,
    happens,
    own_node,
    set_node,
    usage,
)

H100_CENTS = 249


async def test_without_room_a_create_is_refused_and_makes_nothing(organization: Organization) -> None:
    fill = await running(organization, gpuCountPerReplica=8, replicasDesired=2)
    answer = await try_create(organization, acknowledgeLaneJoin=True)
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0
    assert len((await organization.ok("GET", DEPLOYMENTS))["items"]) == 1
    answer = await try_change(organization, fill, replicasDesired=3)
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert "retry-after" in answer.headers
    shown = await get(organization, fill)
    assert (shown["status"], shown["replicasDesired"]) == ("running", 2)


async def test_with_room_for_some_it_is_degraded_until_the_others_find_room(organization: Organization) -> None:
    made = await create(organization, gpuCountPerReplica=8, replicasDesired=3)
    assert (made["status"], len(made["replicas"])) == ("degraded", 2)
    assert "Waiting for room for 1 more (8 x h100 each)" in made["statusReason"]
    await organization.server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 8, "orgId": organization.id})
    await organization.server.advance(UNTIL_RUNNING)
    shown = await get(organization, made["id"])
    assert (shown["status"], shown["replicasReady"], "statusReason" in shown) == ("running", 3, False)


async def test_room_that_another_frees_is_taken(organization: Organization, other: Organization) -> None:
    fill = await running(other, gpuCountPerReplica=8)
    made = await create(organization, gpuCountPerReplica=8, replicasDesired=2, acknowledgeLaneJoin=True)
    assert made["status"] == "degraded"
    await delete(other, fill)
    await organization.server.advance(1)
    assert len((await get(organization, made["id"]))["replicas"]) == 2


async def test_replicas_land_in_the_pool_where_it_has_nodes(organization: Organization) -> None:
    await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"provider": True})
    token = await organization.ok(
        "POST", "/v1/orgs/{org}/provider/tokens", {"name": "t", "nodePool": "gold", "expiresInHours": 1}
    )
    node = await organization.server.ok(
        "POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 2, "provisioningToken": token["token"]}
    )
    made = await create(organization, nodePool="gold")
    assert [replica["nodeId"] for replica in made["replicas"]] == [node["id"]]
    community = await create(organization, replicasDesired=2)
    assert node["id"] not in {replica["nodeId"] for replica in community["replicas"]}
    answer = await try_create(organization, nodePool="gold", gpuCountPerReplica=2, acknowledgeLaneJoin=True)
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    answer = await try_create(organization, nodePool="gold", gpuCountPerReplica=3, acknowledgeLaneJoin=True)
    assert answer.refusal == (422, "GPU_COUNT_NOT_PLACEABLE")
    assert answer.body["error"].startswith("gpuCountPerReplica: ")
    answer = await try_create(organization, nodePool="gold", gpuModelId="a100", acknowledgeLaneJoin=True)
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")


async def test_a_pool_without_nodes_names_a_lane_and_nothing_else(organization: Organization) -> None:
    assert (await create(organization, nodePool="nowhere"))["replicas"]


async def test_replicas_on_a_silent_node_take_nothing_and_are_replaced_after_the_grace(
    organization: Organization,
) -> None:
    node = await own_node(organization, count=1)
    deployment = await running(organization)
    (lost,) = (await get(organization, deployment))["replicas"]
    assert lost["nodeId"] == node
    await set_node(organization, node, reporting=False)
    shown = await get(organization, deployment)
    assert (shown["status"], shown["replicas"][0]["status"], shown["replicasReady"]) == ("degraded", "unhealthy", 0)
    assert (await usage(organization))["burnPerHourCents"] == 0
    await organization.server.advance(GRACE)
    replicas = (await get(organization, deployment))["replicas"]
    assert [replica["status"] for replica in replicas] == ["provisioning"]
    await organization.server.advance(UNTIL_RUNNING)
    shown = await get(organization, deployment)
    assert (shown["status"], shown["replicasReady"]) == ("running", 1)
    assert [replica["id"] for replica in shown["replicas"]] != [lost["id"]]
    assert (await usage(organization))["burnPerHourCents"] == H100_CENTS


async def test_replicas_go_on_where_their_node_returns_in_time(organization: Organization) -> None:
    node = await own_node(organization, count=1)
    deployment = await running(organization)
    before = (await get(organization, deployment))["replicas"]
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE - 1)
    await set_node(organization, node, reporting=True)
    shown = await get(organization, deployment)
    assert (shown["status"], shown["replicas"]) == ("running", before)


async def test_replicas_on_a_removed_node_are_replaced_at_once(organization: Organization) -> None:
    node = await own_node(organization, count=1)
    deployment = await running(organization)
    await set_node(organization, node, removed=True)
    shown = await get(organization, deployment)
    assert (shown["status"], [replica["status"] for replica in shown["replicas"]]) == ("provisioning", ["provisioning"])
    assert shown["replicas"][0]["nodeId"] != node


async def test_a_terminated_replica_is_replaced(organization: Organization) -> None:
    deployment = await running(organization)
    (before,) = (await get(organization, deployment))["replicas"]
    await happens(organization, deployment, "terminateReplica", replicaId=before["id"])
    (after,) = (await get(organization, deployment))["replicas"]
    assert (after["id"] != before["id"], after["status"]) == (True, "provisioning")
    answer = await organization.server.control("POST", f"/workloads/{deployment}/events", {"event": "fail"})
    assert answer.refusal == (409, "conflict")

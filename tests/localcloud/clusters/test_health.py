"""Clusters: health, lost nodes, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.clusters import act, burn, create, detail, replicas, running, status
from tests.localcloud.support.workloads import (
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
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization

HOUR = 3600


# Health and nodes.


async def test_a_cluster_whose_only_replica_is_replaced_is_degraded_until_the_next_is_healthy(
    organization: Organization,
) -> None:
    await own_node(organization)
    cluster_id = await running(organization, replicaCount=1)
    await happens(organization, cluster_id, "terminateReplica")
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "degraded"
    assert shown["statusReason"].startswith("0 of 1 replicas are healthy. Starting: ")
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"


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
    assert [event["type"] for event in events] == [
        "replica.unhealthy",
        "cluster.degraded",
        "replica.healthy",
        "cluster.running",
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
    await organization.server.advance(0)  # The first event has arrived.
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


async def test_replicas_that_start_on_a_silent_node_are_unhealthy_too(
    organization: Organization, receiver: Receiver
) -> None:
    node = await own_node(organization)
    await subscribe(organization, receiver)
    cluster_id = (await create(organization))["id"]
    await set_node(organization, node, reporting=False)
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], shown["replicas"][0]["status"]) == ("degraded", "unhealthy")
    assert await burn(organization) == 0
    assert sorted(receiver.types) == ["cluster.degraded", "replica.unhealthy"]
    await set_node(organization, node, reporting=True)
    assert await status(organization, cluster_id) == "running"


async def test_replicas_whose_node_is_silent_for_a_moment_while_they_start_take_their_time(
    organization: Organization,
) -> None:
    node = await own_node(organization)
    cluster_id = (await create(organization))["id"]
    await set_node(organization, node, reporting=False)
    await set_node(organization, node, reporting=True)
    shown = await replicas(organization, cluster_id)
    assert [replica["status"] for replica in shown] == ["provisioning"]
    assert await burn(organization) == 0
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, cluster_id) == "running"
    assert await burn(organization) > 0


async def test_what_was_to_be_replaced_still_is_when_its_start_is_over(start_server: StartServer) -> None:
    organization = await start_server("--ephemeral", "--clock", "frozen").organization()
    await remove_shared_nodes(organization.server)
    await own_node(organization, count=1)
    cluster_id = await running(organization)
    stays = (await replicas(organization, cluster_id))[0]["id"]
    silent = await own_node(organization, count=1)
    await organization.server.ok("PATCH", "/settings", {"startSeconds": 2.0 * GRACE})
    await act(organization, cluster_id, "scale", {"replicaCount": 2})
    await organization.server.advance(2)
    await set_node(organization, silent, reporting=False)
    await organization.server.advance(2 * GRACE)  # the grace is over, then the start, and there is no room elsewhere
    lost = {replica["id"] for replica in await replicas(organization, cluster_id)} - {stays}
    await own_node(organization, count=1)
    await organization.server.advance(2 * GRACE + UNTIL_RUNNING)
    shown = await replicas(organization, cluster_id)
    assert len(lost) == 1
    assert [replica["status"] for replica in shown if replica["id"] not in lost] == ["healthy", "healthy"]


async def test_a_cluster_that_stops_on_a_silent_node_stays_stopped_when_it_returns(
    organization: Organization,
) -> None:
    node = await own_node(organization, count=1)
    cluster_id = await running(organization)
    await set_node(organization, node, reporting=False)
    await act(organization, cluster_id, "stop")
    await set_node(organization, node, reporting=True)
    assert await burn(organization) == 0
    await organization.server.advance(1)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], shown["replicas"]) == ("stopped", [])
    await create(organization, name="next")


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


@pytest.mark.usefixtures("early_in_a_month")
async def test_the_price_is_per_replica_that_runs(organization: Organization) -> None:
    await own_node(organization)
    await running(organization, replicaCount=2, gpusPerReplica=2)
    assert await burn(organization) == 4 * 249
    await organization.server.advance(HOUR)
    assert await spent(organization) == 4 * 249
    items = (await usage(organization))["breakdown"]
    assert [(item["kind"], item["name"], item["gpuModelId"]) for item in items] == [("cluster", "llm", "h100")] * 2


async def test_a_cluster_stops_when_the_balance_runs_out(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await set_organization(organization, balanceCents=0)
    await organization.server.advance(60)
    shown = await detail(organization, cluster_id)
    assert shown["status"] == "stopped"
    assert shown["statusReason"] == "The balance ran out: add funds, then restart it."
    answer = await organization.call("POST", f"/v1/clusters/{cluster_id}/restart")
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    await set_organization(organization, balanceCents=100_000)
    shown = await detail(organization, cluster_id)
    assert shown["statusReason"] == "The balance ran out, and funds were added since: restart it."


async def test_funds_that_come_while_a_cluster_stops_are_in_its_reason_once_it_is_stopped(
    organization: Organization,
) -> None:
    await own_node(organization)
    cluster_id = await running(organization)
    await set_organization(organization, balanceCents=-1)
    assert (await detail(organization, cluster_id))["status"] == "stopping"
    await set_organization(organization, balanceCents=100_000)
    await organization.server.advance(60)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], "funds were added since" in shown["statusReason"]) == ("stopped", True)


async def test_a_container_of_a_cluster_exits_only_while_it_runs(organization: Organization) -> None:
    await own_node(organization)
    made = await create(organization, replicaCount=1)
    path = f"/workloads/{made['id']}/events"

    async def exits() -> int:
        return (await organization.server.control("POST", path, {"event": "exit"})).status

    assert await exits() == 409, "it is being placed"
    await organization.server.advance(UNTIL_RUNNING)
    before = await replicas(organization, made["id"])
    assert await exits() == 200
    assert await replicas(organization, made["id"]) == before, "it is recreated in place"
    await act(organization, made["id"], "terminate")
    assert await exits() == 409

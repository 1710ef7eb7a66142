"""Clusters: capacity, scale, stop, restart, terminate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.clusters import act, burn, create, detail, replicas, running, status, summary
from tests.localcloud.support.workloads import UNTIL_RUNNING, happens, own_node, received, subscribe

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization


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


async def test_a_cluster_can_be_stopped_or_terminated_while_it_is_provisioning(organization: Organization) -> None:
    await own_node(organization, count=1)
    cluster_id = (await create(organization))["id"]
    assert (await act(organization, cluster_id, "stop"))["status"] == "stopping"
    await organization.server.advance(UNTIL_RUNNING)
    shown = await detail(organization, cluster_id)
    assert (shown["status"], shown["replicas"]) == ("stopped", [])
    other = (await create(organization, name="other"))["id"]
    await act(organization, other, "terminate")
    await organization.server.advance(UNTIL_RUNNING)
    assert await burn(organization) == 0
    await create(organization, name="third")


async def test_a_degraded_cluster_can_be_stopped_and_terminated(organization: Organization) -> None:
    await own_node(organization, count=2)
    cluster_id = await running(organization, replicaCount=2)
    await happens(organization, cluster_id, "unhealthy", replicaId=(await replicas(organization, cluster_id))[0]["id"])
    assert (await act(organization, cluster_id, "stop"))["status"] == "stopping"
    await act(organization, cluster_id, "terminate")
    assert await burn(organization) == 0
    await create(organization, name="next", gpusPerReplica=2)


async def test_terminate_ends_it_at_once(organization: Organization) -> None:
    await own_node(organization, count=1)
    cluster_id = await running(organization)
    assert (await act(organization, cluster_id, "terminate"))["status"] == "terminated"
    assert await burn(organization) == 0
    await create(organization, name="next")
